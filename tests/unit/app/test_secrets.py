"""The vault: in the keyring where it answers, in a private file where it does not, and honest about which."""

from __future__ import annotations

import stat
import sys
import threading
from pathlib import Path

import pytest

from app.services.secrets import IN_FILE, Attempt, DeviceKey, Keyring, Secrets, Vault

SECRETS = Secrets(b"\x01" * 32, DeviceKey("k1", b"\x02" * 32, b"\x03" * 32, "certificate"))
PASS = '{"api_key": "pt_k_s", "code_key": "01"}'
"""What a till kept that had a bearer key, and never enrolled."""


class MemoryKeyring:
    """A keyring that works."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


class LockedKeyring(MemoryKeyring):
    """A keyring that waits for a person until `answer` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = threading.Event()

    def get_password(self, service: str, username: str) -> str | None:
        self.answer.wait(30)
        return super().get_password(service, username)

    def set_password(self, service: str, username: str, password: str) -> None:
        self.answer.wait(30)


class ForgetfulKeyring(MemoryKeyring):
    """A keyring that only pretends."""

    def set_password(self, service: str, username: str, password: str) -> None:
        return


def no_keyring() -> Keyring:
    raise RuntimeError("no desktop")


def test_the_keyring_keeps_the_secrets_and_nothing_lies_in_the_folder(tmp_path: Path) -> None:
    ring = MemoryKeyring()
    vault = Vault(tmp_path, find_keyring=lambda: ring)

    vault.save("T1", SECRETS)

    assert vault.load("T1") == SECRETS
    assert vault.notice == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("find", [no_keyring, ForgetfulKeyring], ids=["none", "pretends"])
def test_without_a_keyring_a_private_file_keeps_them_and_a_notice_says_so(tmp_path: Path, find: object) -> None:
    vault = Vault(tmp_path, find_keyring=find)  # type: ignore[arg-type]

    vault.save("T1", SECRETS)

    assert vault.notice == IN_FILE
    assert Vault(tmp_path, find_keyring=no_keyring).load("T1") == SECRETS
    (file,) = tmp_path.iterdir()
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_locked_keyring_is_given_up_after_the_limit(tmp_path: Path) -> None:
    ring = LockedKeyring()
    vault = Vault(tmp_path, find_keyring=lambda: ring, limit_s=0.05)

    vault.save("T1", SECRETS)

    assert vault.notice == IN_FILE
    assert vault.load("T1") == SECRETS
    ring.answer.set()


def test_a_keyring_that_does_not_answer_keeps_what_it_has_to_itself(tmp_path: Path) -> None:
    ring = LockedKeyring()
    vault = Vault(tmp_path, find_keyring=lambda: ring, limit_s=0.05)

    found = vault.load("T1")

    assert found is None
    ring.answer.set()


def test_secrets_move_into_the_keyring_once_there_is_one(tmp_path: Path) -> None:
    Vault(tmp_path, find_keyring=no_keyring).save("T1", SECRETS)
    ring = MemoryKeyring()

    Vault(tmp_path, find_keyring=lambda: ring).save("T1", SECRETS)

    assert list(tmp_path.iterdir()) == []
    assert Vault(tmp_path, find_keyring=lambda: ring).load("T1") == SECRETS


def test_two_folders_do_not_share_the_secrets_of_tills_with_one_name(tmp_path: Path) -> None:
    ring = MemoryKeyring()
    Vault(tmp_path / "a", find_keyring=lambda: ring).save("T1", SECRETS)

    found = Vault(tmp_path / "b", find_keyring=lambda: ring).load("T1")

    assert found is None


def test_forgotten_secrets_are_gone_from_both_places(tmp_path: Path) -> None:
    ring = MemoryKeyring()
    vault = Vault(tmp_path, find_keyring=lambda: ring)
    vault.save("T1", SECRETS)

    vault.forget("T1")

    assert ring.kept == {}
    assert vault.load("T1") is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"code_key": "zz"}', PASS])
def test_a_damaged_file_is_no_secret(tmp_path: Path, text: str) -> None:
    (tmp_path / "T1.till.secrets").write_text(text, "utf-8")

    found = Vault(tmp_path, find_keyring=no_keyring).load("T1")

    assert found is None


@pytest.mark.parametrize("find", [MemoryKeyring, None], ids=["keyring", "file"])
def test_an_enrolled_tills_key_and_an_enrolment_under_way_are_kept_apart(tmp_path: Path, find: object) -> None:
    ring = MemoryKeyring()
    vault = Vault(tmp_path, find_keyring=(lambda: ring) if find else no_keyring)
    attempt = Attempt("e1", b"\x04" * 32)

    vault.save("T1", SECRETS)
    vault.save_attempt("T1", attempt)

    assert (vault.load("T1"), vault.load_attempt("T1")) == (SECRETS, attempt)
    vault.forget_attempt("T1")
    assert (vault.load("T1"), vault.load_attempt("T1")) == (SECRETS, None)
    vault.forget("T1")
    assert (vault.load("T1"), list(tmp_path.iterdir()), ring.kept) == (None, [], {})


@pytest.mark.parametrize("device", ["7", "{}", '{"key_id": "k", "private_key": "zz"}'])
def test_a_damaged_device_is_no_secret(tmp_path: Path, device: str) -> None:
    (tmp_path / "T1.till.secrets").write_text(f'{{"code_key": "01", "device": {device}}}')

    assert Vault(tmp_path, find_keyring=no_keyring).load("T1") is None


def test_secrets_do_not_show() -> None:
    shown = repr(SECRETS) + repr(Attempt("e1", b"\x04" * 32))

    assert "code_key" not in shown
    assert repr(b"\x02" * 32) not in shown and repr(b"\x04" * 32) not in shown
