"""Keep a till's secrets outside of its database: in the system's keyring, or where that does not answer, in a file.

A keyring without a desktop raises, a locked one waits for a password that nobody sees; so every call runs in a thread
with a limit. The file is readable by its owner alone (on Windows: as private as the folder), and `Vault.notice` says
so, for a person to see.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

LIMIT_S = 3.0
SERVICE = "pawtill"
FILE = "till.secrets"
_ATTEMPT = "+enrolment"
IN_FILE = "secrets_in_file"
"""The notice that the secrets lie in a file (a key of the translations)."""

T = TypeVar("T")


class Keyring(Protocol):
    """Speak to a keyring as the library `keyring` does."""

    def get_password(self, service: str, username: str) -> str | None:
        """Return what is kept, None where nothing is."""
        ...

    def set_password(self, service: str, username: str, password: str) -> None:
        """Keep a secret."""
        ...

    def delete_password(self, service: str, username: str) -> None:
        """Forget a secret."""
        ...


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """Hold the key that a till made for itself (Ed25519, 32 bytes), and what it got for it.

    `key_id` names it at the server, `certificate` is the chain's word for it, `answer_key` the server's public key.
    """

    key_id: str
    private_key: bytes = field(repr=False)
    answer_key: bytes
    certificate: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """Hold an enrolment that may be under way: its id, and the key that it is for."""

    enrolment_id: str
    private_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Secrets:
    """Hold the chain's key for the digests of codes, and how the till proves who it is; nothing of it shows in logs."""

    code_key: bytes = field(repr=False)
    device: DeviceKey


def system_keyring() -> Keyring:
    """Return the system's keyring; whatever it raises says that there is none."""
    import keyring  # noqa: PLC0415  (looks for backends when it is imported, which may take long)

    return keyring.get_keyring()


class Vault:
    """Keep and find the secrets of the tills whose data lie in one folder."""

    def __init__(
        self, folder: Path, *, find_keyring: Callable[[], Keyring] = system_keyring, limit_s: float = LIMIT_S
    ) -> None:
        """Take the till's folder; nothing is looked at yet."""
        self._folder = folder
        self._find_keyring = find_keyring
        self._limit_s = limit_s
        self.notice = ""
        """Why a person should know where the secrets lie: `IN_FILE`, or "" for the keyring."""

    def save(self, till_id: str, secrets: Secrets) -> None:
        """Keep the secrets where they are safest. Raises OSError where not even a file can be written."""
        self._keep(till_id, _written(secrets))

    def save_attempt(self, till_id: str, attempt: Attempt) -> None:
        """Keep an enrolment before it is asked for, so that it is asked for again and not anew; raises as `save`."""
        data = {"enrolment": attempt.enrolment_id, "private_key": attempt.private_key.hex()}
        self._keep(till_id + _ATTEMPT, json.dumps(data))

    def load_attempt(self, till_id: str) -> Attempt | None:
        """Return the enrolment that was asked for and perhaps not answered, None where there is none."""
        text = self._find(till_id + _ATTEMPT)
        try:
            data = json.loads(text or "null")
            return Attempt(str(data["enrolment"]), bytes.fromhex(data["private_key"]))
        except (ValueError, KeyError, TypeError):
            return None

    def _keep(self, owner: str, text: str) -> None:
        name = self._name(owner)

        def keep() -> bool:
            ring = self._find_keyring()
            ring.set_password(SERVICE, name, text)
            # A keyring that keeps nothing (the library has one that only pretends) does not count.
            return ring.get_password(SERVICE, name) == text

        if self._limited(keep, instead=False):
            self._file(owner).unlink(missing_ok=True)
            self.notice = ""
        else:
            self._write(owner, text)
            self.notice = IN_FILE

    def load(self, till_id: str) -> Secrets | None:
        """Return the secrets; None where no whole ones are kept, or where the keyring does not answer."""
        text = self._find(till_id)
        return None if text is None else _parse(text)

    def _find(self, owner: str) -> str | None:
        text = self._read(owner)
        self.notice = "" if text is None else IN_FILE
        if text is None:
            name = self._name(owner)
            text = self._limited(lambda: self._find_keyring().get_password(SERVICE, name), instead=None)
        return text

    def forget(self, till_id: str) -> None:
        """Remove the secrets from wherever they are kept."""
        for owner in (till_id, till_id + _ATTEMPT):
            self._forget(owner)

    def forget_attempt(self, till_id: str) -> None:
        """Remove an enrolment that was answered."""
        self._forget(till_id + _ATTEMPT)

    def _forget(self, owner: str) -> None:
        self._file(owner).unlink(missing_ok=True)
        name = self._name(owner)
        self._limited(lambda: self._find_keyring().delete_password(SERVICE, name), instead=None)

    def _name(self, till_id: str) -> str:
        """Name the till in the keyring: two folders of one user may each have a till T1, of two chains."""
        place = hashlib.sha256(str(self._folder.resolve()).encode()).hexdigest()[:16]
        return f"{till_id}@{place}"

    def _limited(self, ask: Callable[[], T], *, instead: T) -> T:
        """Ask in a thread; where it raises, or is not done within the limit, take `instead`."""
        answers: list[T] = []

        def run() -> None:
            try:
                answers.append(ask())
            except Exception:  # whatever a foreign keyring raises, it means that it cannot be used
                return

        thread = threading.Thread(target=run, name="keyring", daemon=True)
        thread.start()
        thread.join(self._limit_s)
        return answers[0] if answers else instead

    # -------------------------------------------------------------- the file

    def _file(self, till_id: str) -> Path:
        return self._folder / f"{till_id}.{FILE}"

    def _write(self, till_id: str, text: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._file(till_id).with_suffix(".part")
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._file(till_id))

    def _read(self, till_id: str) -> str | None:
        try:
            return self._file(till_id).read_text("utf-8")
        except FileNotFoundError:
            return None


def _written(secrets: Secrets) -> str:
    device = {
        name: value.hex() if isinstance(value, bytes) else value for name, value in asdict(secrets.device).items()
    }
    return json.dumps({"code_key": secrets.code_key.hex(), "device": device})


def _parse(text: str) -> Secrets | None:
    try:
        data = json.loads(text)
        return Secrets(bytes.fromhex(data["code_key"]), _parse_device(data["device"]))
    except (ValueError, KeyError, TypeError):
        return None


def _parse_device(data: Any) -> DeviceKey:
    return DeviceKey(
        str(data["key_id"]),
        bytes.fromhex(data["private_key"]),
        bytes.fromhex(data["answer_key"]),
        str(data["certificate"]),
    )
