"""Sign requests of tills and the server's answers to them, and check both: RFC 9421 with digests of RFC 9530, Ed25519.

A request's signature covers method, authority, path, query and body, with the key's id, the time and a nonce. An
answer's covers status and body and *the signature of the request that it answers*: an old answer, or one to another
till, fits no request but its own. Imported by both ends; the one door to http-message-signatures.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from http_message_signatures import (
    HTTPMessageSigner,
    HTTPMessageVerifier,
    HTTPSignatureKeyResolver,
    InvalidSignature,
    algorithms,
)
from http_message_signatures.exceptions import HTTPMessageSignaturesException

LABEL = "pawtill"
REQUEST_TAG, ANSWER_TAG = "pawtill-request", "pawtill-answer"
REQUEST_PARTS = ("@method", "@authority", "@path", "@query", "content-digest")
ANSWER_PARTS = ("@status", "content-digest", '"signature";req')
ANSWER_KEY_ID = "server"
SIGNATURE_FIELDS = ("signature-input", "signature", "content-digest")
CLOCK_WINDOW_S = 300
"""How far `created` may lie from the server's clock, either way."""
NONCE_MAX_CHARS = 64
_NAMED_KEY = re.compile(r';keyid="([!#-\[\]-~]{1,64})"')
CLOCK, REPLAYED, BAD_SIGNATURE = "clock", "replayed", "bad_signature"
"""Why a signed request is answered 401. `clock` comes with `now_ms`, in an answer that is itself signed."""


class BadSignature(Exception):
    """Say that a message is not signed as it must be; the reason is for the log, never for the other end."""


@dataclass(slots=True)
class Request:
    """Hold what of a request is signed; `url` is absolute and encoded."""

    method: str
    url: str
    headers: dict[str, str]


@dataclass(slots=True)
class Reply:
    """Hold what of an answer is signed, and the request that it answers."""

    status_code: int
    headers: dict[str, str]
    request: Request


@dataclass(frozen=True, slots=True)
class Signed:
    """Tell what a good signature says of its request: `created_s` in seconds since 1970."""

    key_id: str
    created_s: int
    nonce: str


@dataclass(slots=True)
class _Keys(HTTPSignatureKeyResolver):
    """Give keys to the library; it takes whatever `find` raises for a bad signature, so `trouble` keeps that."""

    find: Callable[[str], Ed25519PublicKey | None] = lambda _key_id: None
    private: Mapping[str, Ed25519PrivateKey] = field(default_factory=dict)
    trouble: Exception | None = None

    def resolve_public_key(self, key_id: str) -> Ed25519PublicKey | None:
        try:
            return self.find(key_id)
        except Exception as trouble:
            self.trouble = trouble
            raise

    def resolve_private_key(self, key_id: str) -> Ed25519PrivateKey:
        return self.private[key_id]


class _Verifier(HTTPMessageVerifier):
    """Leave the time to whoever has a clock: the library would read the machine's."""

    def validate_created_and_expires(self, sig_input: Any, max_age: Any = None) -> None:
        del max_age
        if "expires" in sig_input.params:
            raise InvalidSignature("expires is not of this profile")


def sign_request(request: Request, body: bytes, *, key: Ed25519PrivateKey, signed: Signed) -> None:
    """Add the fields that sign a request to its headers."""
    _signer(signed.key_id, key).sign(
        request,
        key_id=signed.key_id,
        created=datetime.fromtimestamp(signed.created_s, UTC),
        nonce=signed.nonce,
        label=LABEL,
        tag=REQUEST_TAG,
        covered_component_ids=REQUEST_PARTS,
        body=body,
    )


def check_request(request: Request, body: bytes, *, find: Callable[[str], Ed25519PublicKey | None]) -> Signed:
    """Return what a request's signature says; raises BadSignature, and what `find` raises.

    Whether it is fresh and allowed is the caller's.
    """
    parameters = _verified(request, body, find=find, tag=REQUEST_TAG, parts=REQUEST_PARTS)
    created_s, nonce = parameters.get("created"), parameters.get("nonce")
    if type(created_s) is not int or not isinstance(nonce, str) or not 0 < len(nonce) <= NONCE_MAX_CHARS:
        raise BadSignature("created and nonce are missing")
    return Signed(str(parameters["keyid"]), created_s, nonce)


def named_key(request: Request) -> str:
    """Return whose key a request says that it is signed by, checked or not; "" where it names none that may be."""
    found = _NAMED_KEY.search(request.headers.get("signature-input", ""))
    return found.group(1) if found else ""


def sign_answer(reply: Reply, body: bytes, *, key: Ed25519PrivateKey, created_s: int) -> None:
    """Add the fields that sign an answer to its headers; its request carries the signature that it is bound to."""
    _signer(ANSWER_KEY_ID, key).sign(
        reply,
        key_id=ANSWER_KEY_ID,
        created=datetime.fromtimestamp(created_s, UTC),
        label=LABEL,
        tag=ANSWER_TAG,
        covered_component_ids=ANSWER_PARTS,
        body=body,
    )


def check_answer(reply: Reply, body: bytes, *, key: Ed25519PublicKey) -> None:
    """Return where the server signed this answer to this very request; raises BadSignature."""
    _verified(reply, body, find=lambda name: key if name == ANSWER_KEY_ID else None, tag=ANSWER_TAG, parts=ANSWER_PARTS)


def _signer(key_id: str, key: Ed25519PrivateKey) -> HTTPMessageSigner:
    keys = _Keys(private={key_id: key})
    return HTTPMessageSigner(signature_algorithm=algorithms.ED25519, key_resolver=keys)


def _verified(
    message: Request | Reply,
    body: bytes,
    *,
    find: Callable[[str], Ed25519PublicKey | None],
    tag: str,
    parts: tuple[str, ...],
) -> dict[str, int | str]:
    keys = _Keys(find)
    verifier = _Verifier(signature_algorithm=algorithms.ED25519, key_resolver=keys)
    try:
        results = verifier.verify(message, max_age=None, expect_tag=tag, require_components=parts, body=body)
    except HTTPMessageSignaturesException as error:
        if keys.trouble is not None:
            raise keys.trouble from None
        raise BadSignature(str(error)) from None
    if len(results) != 1 or results[0].body is None:
        raise BadSignature("one signature, over the body too")
    return results[0].parameters
