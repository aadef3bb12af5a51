"""Write and read a till's certificate: who it is, by the chain's signature, for whoever cannot ask the database.

Two parts in base64url with a dot between: the text (JSON) and an Ed25519 signature over it. The server itself asks its
database, where a till is suspended or revoked at once; another till of the store, or a courier, has this.
"""

import base64
import json
from dataclasses import asdict, dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_PURPOSE = b"pawtill till certificate 1\n"


class BadCertificate(Exception):
    """Say that a certificate is not of this chain, or damaged."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """State whose a key is: `public_key` (hex) is the till's, `epoch` its ledger's, `not_after` seconds since 1970."""

    key_id: str
    till: str
    store: str
    epoch: int
    public_key: str
    not_after: int


def issue(certificate: Certificate, key: Ed25519PrivateKey) -> str:
    """Sign a certificate; the same one is always the same text."""
    text = json.dumps(asdict(certificate), sort_keys=True).encode()
    return f"{_encode(text)}.{_encode(key.sign(_PURPOSE + text))}"


def read(text: str, key: Ed25519PublicKey) -> Certificate:
    """Return what the chain states; raises BadCertificate. Whether `not_after` is past is the caller's to judge."""
    try:
        body, signature = (base64.urlsafe_b64decode(part) for part in text.split("."))
        key.verify(signature, _PURPOSE + body)
        return Certificate(**json.loads(body))
    except (InvalidSignature, ValueError, TypeError):
        raise BadCertificate from None


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()
