"""Know a till's folder: its database, and which chain it joined. The secrets are in `app/services/secrets.py`."""

import json
from pathlib import Path
from typing import Any

from platformdirs import user_data_path

from app.services.secrets import Vault
from cli.exits import complain
from ui.running_till import Enrolment, Joined

TILL_FILE = "till.db"
_JOINED_FILE = "till.json"
_COPY_FILE = "second-copy.txt"
INSECURE_ZH = "明文 HTTP 只能用于本机，请使用 https:// 地址"


class NotEnrolled(Exception):
    """Say why the till of a folder cannot speak, and what to do; never quotes a secret."""


def till_folder(chosen: Path | None) -> Path:
    """Return the till's data folder, which need not be there: the chosen one, else the user's."""
    return chosen if chosen is not None else user_data_path("pawtill", appauthor=False) / "till"


def make_folder(folder: Path) -> None:
    """Make the folder, for its owner alone; raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def read_joined(folder: Path) -> Joined | None:
    """Return which chain the till of this folder joined, None where it has not; raises NotEnrolled."""
    file = folder / _JOINED_FILE
    if not file.exists():
        return None
    try:
        return _joined(json.loads(file.read_text("utf-8")))
    except OSError as error:
        raise NotEnrolled(f"{file} cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, ValueError):
        raise NotEnrolled(f"{file} is damaged: remove it, and enrol anew with a code; the ledger stays") from None


def find_enrolment(folder: Path) -> Enrolment:
    """Return what the till's enrolment left; raises NotEnrolled."""
    joined = read_joined(folder)
    if joined is None:
        raise NotEnrolled(
            f"the till of {folder} has joined no chain yet. At the server: pawtill enrolment-code R1 --store NAME; "
            "here: pawtill enrol R1 --server ADDRESS --code CODE"
        )
    secrets = Vault(folder).load(joined.till_id)
    if secrets is None:
        raise NotEnrolled(
            f"no key of till {joined.till_id} is to be had here: unlock the keyring, or enrol the till by a code; "
            f"its ledger stays. At the server: pawtill enrolment-code "
            f"{joined.till_id} --store {joined.store_id}; here: pawtill enrol {joined.till_id} --server {joined.url} "
            f"--code CODE / 本机没有收银台 {joined.till_id} 的密钥：请解锁密钥环，或用登记码登记本机；账本保留不变"
        )
    return Enrolment(joined, secrets)


def write_joined(folder: Path, joined: Joined) -> None:
    """Note which chain the till joined; raises OSError."""
    part = folder / (_JOINED_FILE + ".part")
    data = {"url": joined.url, "till": joined.till_id, "store": joined.store_id}
    if joined.authority:
        data["authority"] = joined.authority
    text = json.dumps(data, indent=2)
    part.write_text(text + "\n", "utf-8")
    part.replace(folder / _JOINED_FILE)


def _joined(data: dict[str, Any]) -> Joined:
    """Read what names a chain; one from before TLS names no authority."""
    return Joined(str(data["url"]), str(data["till"]), str(data["store"]), str(data.get("authority", "")))


def keep_copy_folder(folder: Path, copy: Path) -> None:
    """Note where the second copy of the ledger is kept; raises OSError."""
    (folder / _COPY_FILE).write_text(f"{copy.resolve()}\n", "utf-8")


def copy_folder(folder: Path) -> Path | None:
    """Return where the second copy of the ledger is kept, None where there is none."""
    try:
        text = (folder / _COPY_FILE).read_text("utf-8").strip()
    except OSError:
        return None
    return Path(text) if text else None


def tell_of_file(vault: Vault, folder: Path) -> None:
    """Tell a person where the secrets are kept in a file, because no keyring took them."""
    if vault.notice:
        complain(
            f"no keyring answers here, so the till's secrets are in a file in {folder}, for its owner alone",
            f"本机没有可用的密钥环，收银台的密钥存放在 {folder} 的文件里，仅文件所有者可读",
        )
