"""Enrol this till: show that we know the one-time code, hand our public key over, and learn whom to believe."""

import base64
import secrets
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from app.domain.refusals import Refusal
from app.services.ports import Offline
from app.services.secrets import Attempt, DeviceKey, Secrets
from sync.certificate import BadCertificate, read
from sync.client import ServerClient
from sync.enrolment import ENROL_PATH, Question, Unsealable, name_of, prove, stretch, unseal

KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Enrolled:
    """Hold what an enrolment gives: the till's secrets, its store, and whom its server's certificate must be from.

    `authority` is a certificate (PEM), "" where the server's is one of a public authority or there is none.
    """

    store_id: str
    secrets: Secrets
    authority: str


def new_attempt() -> Attempt:
    """Make a key and an id for an enrolment; to be kept before it is asked for."""
    return Attempt(secrets.token_hex(16), Ed25519PrivateKey.generate().private_bytes_raw())


def enrol(client: ServerClient, till_id: str, *, code: str, attempt: Attempt) -> Enrolled | Refusal:
    """Ask to be enrolled; the same attempt may be asked for until it is answered.

    `code` as `read_code` returns it. Raises Offline (also where whoever answered does not know the code) and Busy.
    """
    key = stretch(code, till_id)
    public_key = Ed25519PrivateKey.from_private_bytes(attempt.private_key).public_key().public_bytes_raw()
    question = Question(till_id, attempt.enrolment_id, public_key, secrets.token_bytes(KEY_BYTES))
    answer = client.post(
        ENROL_PATH,
        {
            "till": till_id,
            "code_name": name_of(code),
            "enrolment": attempt.enrolment_id,
            "public_key": public_key.hex(),
            "nonce": question.nonce.hex(),
            "proof": prove(key, question).hex(),
        },
    )
    if isinstance(answer, Refusal):
        return answer
    try:
        content = unseal(key, question, base64.b64decode(answer["sealed"], validate=True))
        return _enrolled(content, question, attempt)
    except (Unsealable, BadCertificate, KeyError, TypeError, ValueError):
        raise Offline("foreign_answer") from None


def _enrolled(content: dict[str, Any], question: Question, attempt: Attempt) -> Enrolled:
    chain = Ed25519PublicKey.from_public_bytes(bytes.fromhex(content["certificate_key"]))
    certificate = read(content["certificate"], chain)
    ours = (question.till, question.enrolment, question.public_key.hex())
    if (certificate.till, certificate.key_id, certificate.public_key) != ours:
        raise BadCertificate
    device = DeviceKey(
        attempt.enrolment_id, attempt.private_key, bytes.fromhex(content["answer_key"]), content["certificate"]
    )
    code_key = bytes.fromhex(content["code_key"])
    if len(code_key) != KEY_BYTES or len(device.answer_key) != KEY_BYTES:
        raise ValueError("a key has 32 bytes")
    return Enrolled(certificate.store, Secrets(code_key, device), str(content["authority"]))
