"""Be an enrolled till towards the server: sign what it asks, and believe only what the server signed for it."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from app.domain.ports import Clock
from app.services.secrets import DeviceKey
from sync.signatures import SIGNATURE_FIELDS, BadSignature, Reply, Request, Signed, check_answer, sign_request


@dataclass(slots=True)
class Identity:
    """Hold the till's key and the server's; `key_id` names ours there.

    `offset_ms` is what the server's clock showed more than ours when it last refused our time; 0 until then.
    """

    key_id: str
    private_key: Ed25519PrivateKey = field(repr=False)
    answer_key: Ed25519PublicKey = field(repr=False)
    clock: Clock
    offset_ms: int = 0

    def sign(self, method: str, url: str, body: bytes) -> Request:
        """Return the request with the fields that sign it; its nonce is new, so a request is never signed twice."""
        request = Request(method, url, {})
        created_s = (round(self.clock.now().timestamp() * 1000) + self.offset_ms) // 1000
        signed = Signed(self.key_id, created_s, secrets.token_urlsafe(16))
        sign_request(request, body, key=self.private_key, signed=signed)
        return request

    def believes(self, status_code: int, headers: Mapping[str, str], body: bytes, *, request: Request) -> bool:
        """Tell whether the server signed this answer, for this request."""
        told = {name: headers[name] for name in SIGNATURE_FIELDS if name in headers}
        try:
            check_answer(Reply(status_code, told, request), body, key=self.answer_key)
        except BadSignature:
            return False
        return True

    def set_clock(self, now_ms: int) -> None:
        """Take the server's time for the signatures to come; nothing else reads it."""
        self.offset_ms = now_ms - round(self.clock.now().timestamp() * 1000)


def identity_of(device: DeviceKey, clock: Clock) -> Identity:
    """Return who an enrolled till is; ValueError where its keys are none."""
    return Identity(
        device.key_id,
        Ed25519PrivateKey.from_private_bytes(device.private_key),
        Ed25519PublicKey.from_public_bytes(device.answer_key),
        clock,
    )
