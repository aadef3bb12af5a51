"""Tell a webhook of an alert, signed; besides the till's client the only door to httpx.

One POST of JSON: `id` (the same for every repeat of one alert: at least once means that there may be one), `kind`,
`at`, `facts`, and `text` in Chinese and English. `Pawtill-Signature: t=<seconds since 1970>,v1=<hex>` holds the
HMAC-SHA256 (RFC 2104) of `<t>.<body>` under the secret of the settings, so a receiver knows that it is ours, whole, and
not an old one sent again. A receiver that answers with any 2xx has it; every other answer, and none, is tried again by
the outbox.

Nobody waits for a webhook but its own job: a call is given up after DEADLINE_S, whatever the other end does. httpx'
timeouts bound each read, not the call, so a receiver that sends a byte every 4 s would hold us for hours.
"""

import hashlib
import hmac
import json
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

import httpx

from app.domain.ports import Clock
from resources import alerts
from server.services.outbox import Undelivered, Waiting

DEADLINE_S = 10.0
HANGING_MAX = 3
"""Calls given up that may still hang; as long as there are so many, no other is made."""


class Webhook:
    """Send alerts to one URL; `secret` signs them. Called from one thread."""

    def __init__(
        self,
        url: str,
        secret: str,
        *,
        clock: Clock,
        deadline_s: float = DEADLINE_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._url, self._secret, self._clock, self._deadline_s = url, secret.encode(), clock, deadline_s
        # Nothing of the environment: a proxy set for something else must not see what goes here.
        self._client = httpx.Client(
            timeout=httpx.Timeout(5.0, connect=3.0), trust_env=False, follow_redirects=False, transport=transport
        )
        self._hanging = 0
        self._lock = threading.Lock()

    def __call__(self, message: Waiting) -> None:
        """Send one alert; raises Undelivered where the receiver has not said that it has it."""
        body = _body(message)
        with self._lock:
            if self._hanging >= HANGING_MAX:
                raise Undelivered(f"{self._hanging} calls of the webhook still hang")
            self._hanging += 1
        answered: Future[int] = Future()
        threading.Thread(target=self._post, args=[body, answered], name="pawtill-webhook", daemon=True).start()
        try:
            status = answered.result(self._deadline_s)
        except TimeoutError:
            raise Undelivered(f"the webhook gave no answer within {self._deadline_s:g} s") from None
        if not 200 <= status < 300:
            raise Undelivered(f"the webhook answered {status}")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _post(self, body: bytes, answered: "Future[int]") -> None:
        try:
            signature = sign(self._secret, body, round(self._clock.now().timestamp()))
            headers = {"Content-Type": "application/json", "Pawtill-Signature": signature}
            # The status is all that matters: what the receiver says besides is not read.
            with self._client.stream("POST", self._url, content=body, headers=headers) as response:
                _tell(answered, response.status_code)
        except Exception as error:
            _tell(answered, Undelivered(f"the webhook cannot be reached ({type(error).__name__})"))
        finally:
            with self._lock:
                self._hanging -= 1


def _tell(answered: "Future[int]", outcome: int | Undelivered) -> None:
    with suppress(InvalidStateError):
        if isinstance(outcome, Undelivered):
            answered.set_exception(outcome)
        else:
            answered.set_result(outcome)


def silent(message: Waiting) -> None:
    """Take an alert where no webhook is set: nobody is told, and nothing waits."""


def sign(secret: bytes, body: bytes, at_s: int) -> str:
    """Return the value of `Pawtill-Signature` for a body sent at `at_s` (seconds since 1970)."""
    digest = hmac.new(secret, f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"


def _body(message: Waiting) -> bytes:
    facts = message.body["facts"]
    told = {
        "id": f"{message.key}/{round(message.created_at.timestamp())}",
        "kind": message.body["kind"],
        "at": message.body["at"],
        "facts": facts,
        "text": alerts.say(message.body["kind"], facts),
    }
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
