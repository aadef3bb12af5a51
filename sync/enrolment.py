"""Say what a till and the server tell each other at enrolment, so that neither the code nor the chain's secrets travel.

Imported by both ends. A one-time code has a name and a secret, five and ten characters of Crockford's base32 (25 and 50
bits). Both ends stretch it to a key (scrypt, RFC 7914), under which the till proves that it knows the code for its
public key, and the server seals its answer (ChaCha20-Poly1305, RFC 8439). Whoever listens, or answers in the server's
place, would have to find 50 bits at some 30 ms a guess: it is safe to enrol before the server's certificate is known,
and the sealed answer brings that. The name goes with the question, so that the few tries that a code has are those of
people who have seen it: a stranger, who may ask too, uses none of them up.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

ENROL_PATH = "/v1/enrolments"
NAME_CHARS = 5
CODE_CHARS = NAME_CHARS + 10
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base32: no I, L, O, U."""
_READ_AS = str.maketrans({"O": "0", "I": "1", "L": "1", "-": None, " ": None})
_NONCE_BYTES = 12
WRONG_CODE, LATE_CODE, USED_CODE, NO_MORE_TRIES = "code_wrong", "code_expired", "code_used", "code_tries"
"""Why an enrolment is refused: `reason` in the facts of `not_allowed`, besides `till_suspended`."""


class Unsealable(Exception):
    """Say that an answer was not sealed under this code, or not to this question."""


@dataclass(frozen=True, slots=True)
class Question:
    """Hold what a till asks for: `enrolment` (its own id for it, kept until it is answered) names its key from then on.

    `public_key` is Ed25519, 32 bytes; `nonce` is fresh for each time it asks.
    """

    till: str
    enrolment: str
    public_key: bytes
    nonce: bytes

    def text(self) -> bytes:
        """Return what proof and seal are bound to."""
        return json.dumps([self.till, self.enrolment, self.public_key.hex(), self.nonce.hex()]).encode()


def spell(number: int) -> str:
    """Write 75 bits as a code."""
    return "".join(ALPHABET[number >> shift & 31] for shift in range(5 * (CODE_CHARS - 1), -1, -5))


def read_code(typed: str) -> str | None:
    """Return a code as it was meant, whatever the case, dashes, O for 0, I or L for 1; None where it is none."""
    code = typed.upper().translate(_READ_AS)
    return code if len(code) == CODE_CHARS and set(code) <= set(ALPHABET) else None


def show_code(code: str) -> str:
    """Write a code in groups of five, as it is told to a person; the first is its name."""
    return "-".join(code[at : at + NAME_CHARS] for at in range(0, CODE_CHARS, NAME_CHARS))


def name_of(code: str) -> str:
    """Return the part of a code that may be told: it names the code and says nothing of the rest."""
    return code[:NAME_CHARS]


def stretch(code: str, till: str) -> bytes:
    """Make 32 bytes of a code; some 30 ms and 16 MiB, so that nobody guesses fast."""
    return hashlib.scrypt(code.encode(), salt=b"pawtill enrolment " + till.encode(), n=2**14, r=8, p=1, dklen=32)


def prove(key: bytes, question: Question) -> bytes:
    """Return the proof that whoever asks knows the code."""
    return hmac.digest(key, b"question " + question.text(), "sha256")


def proves(key: bytes, question: Question, proof: bytes) -> bool:
    """Tell whether the proof is good; takes the same time wherever it is wrong."""
    return hmac.compare_digest(prove(key, question), proof)


def seal(key: bytes, question: Question, content: Mapping[str, Any]) -> bytes:
    """Seal the answer to a question under its code."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + _cipher(key).encrypt(nonce, json.dumps(dict(content)).encode(), question.text())


def unseal(key: bytes, question: Question, sealed: bytes) -> dict[str, Any]:
    """Open the answer to our question; raises Unsealable."""
    try:
        content = _cipher(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], question.text())
    except (InvalidTag, ValueError):
        raise Unsealable from None
    data = json.loads(content)
    if not isinstance(data, dict):
        raise Unsealable
    return data


def _cipher(key: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(hmac.digest(key, b"answer", "sha256"))
