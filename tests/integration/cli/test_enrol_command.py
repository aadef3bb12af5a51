"""`pawtill enrolment-code` and `pawtill enrol`, between a data folder of a server and one of a till."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.services.api import BasketLine, BasketRequest, OpenOrder, PaidOrder
from app.services.secrets import Vault
from app.services.system import SystemClock
from app.store.database import TillDatabase
from cli.chain_door import own_line
from cli.exits import Exit
from cli.no_terminal import NoTerminal
from cli.server_process import ServerProcess
from cli.settings import server_settings
from cli.till_folder import TILL_FILE, find_enrolment
from sync.client import ServerClient
from sync.hello import SyncStopped
from sync.identity import identity_of
from sync.trust import pinned
from tests.integration.cli.command import Ended, pawtill_here
from tests.integration.cli.enrolling import enrol, new_code
from ui.running_till import RunningTill, open_running_till


@pytest.fixture(autouse=True)
def _no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Run a server; return its data folder and where it is."""
    folder = tmp_path_factory.mktemp("server")
    with ServerProcess(folder) as process:  # over TLS, as it is without a word
        yield folder, process.url


def _code(server: tuple[Path, str], till: str, *, store: str = "riverside") -> str:
    folder, url = server
    return new_code(folder, till, url=url, store=store, tls="on")


def _enrol(server: tuple[Path, str], folder: Path, till: str, code: str) -> Ended:
    return enrol(folder, code, till, url=server[1])


def _can_sync(folder: Path) -> bool:
    granted = find_enrolment(folder)
    identity = identity_of(granted.secrets.device, SystemClock())
    assert granted.joined.url.startswith("https://")
    with ServerClient(
        granted.joined.url, identity, trust=pinned(granted.joined.authority), answer_timeout_s=30
    ) as client:
        return isinstance(client.post("/v1/sync/pull", {"proto": 1, "till": granted.joined.till_id, "cursor": 0}), dict)


def test_a_till_enrols_by_a_code_and_speaks(server: tuple[Path, str], tmp_path: Path) -> None:
    ended = _enrol(server, tmp_path, "R1", _code(server, "R1"))

    assert (ended.code, "Enrolled: till R1 in store riverside" in ended.said) == (Exit.OK, True)
    assert "in a file" in ended.complained and "密钥环" in ended.complained
    (secrets,) = tmp_path.glob("*.secrets")
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o600
    assert _can_sync(tmp_path)


def test_a_till_that_had_joined_by_a_pass_is_told_to_enrol_and_its_ledger_stays(
    server: tuple[Path, str], tmp_path: Path
) -> None:
    (tmp_path / "till.json").write_text(json.dumps({"url": server[1], "till": "R2", "store": "riverside"}))
    (tmp_path / "R2.till.secrets").write_text(json.dumps({"api_key": "pt_k_s", "code_key": "00" * 32}))
    TillDatabase.open(tmp_path / TILL_FILE, till_id="R2", store_id="riverside").close()

    refused = [pawtill_here(command, "--data-dir", tmp_path) for command in ("till", "recover", "close-day")]
    ended = _enrol(server, tmp_path, "R2", _code(server, "R2"))

    assert [each.code for each in refused] == [Exit.CANNOT_START] * 3
    for said in ("pawtill enrolment-code R2 --store riverside", "its ledger stays", "请解锁密钥环，或用登记码"):
        assert [each for each in refused if said not in each.complained] == []
    assert (ended.code, "Epoch" not in ended.said) == (Exit.OK, True), ended.complained
    assert "pt_k_s" not in (tmp_path / "R2.till.secrets").read_text()
    assert _can_sync(tmp_path)


def test_a_wrong_code_is_said_in_both_languages(server: tuple[Path, str], tmp_path: Path) -> None:
    _code(server, "R3")

    ended = _enrol(server, tmp_path, "R3", "00000-00000-00000")

    assert ended.code == Exit.FOUND_SOMETHING
    assert "登记码不是本收银台的" in ended.complained and "the code is not this till's" in ended.complained


def test_what_is_no_code_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    ended = pawtill_here("enrol", "R1", "--server", "http://127.0.0.1:9", "--code", "ABC", "--data-dir", tmp_path)

    assert (ended.code, "fifteen letters and digits" in ended.complained) == (Exit.CANNOT_START, True)


def test_the_same_command_again_is_the_same_enrolment(server: tuple[Path, str], tmp_path: Path) -> None:
    code = _code(server, "R4")
    away = pawtill_here("enrol", "R4", "--server", "http://127.0.0.1:9", "--code", code, "--data-dir", tmp_path)
    attempt = Vault(tmp_path).load_attempt("R4")

    ended = _enrol(server, tmp_path, "R4", code)

    device = find_enrolment(tmp_path).secrets.device
    assert (away.code, ended.code) == (Exit.UNAVAILABLE, Exit.OK)
    assert attempt is not None
    assert (device.key_id, device.private_key) == (attempt.enrolment_id, attempt.private_key)
    assert Vault(tmp_path).load_attempt("R4") is None


def test_a_folder_stays_one_tills(server: tuple[Path, str], tmp_path: Path) -> None:
    _enrol(server, tmp_path, "R5", _code(server, "R5"))

    ended = _enrol(server, tmp_path, "R6", _code(server, "R6"))

    assert (ended.code, "is the folder of till R5" in ended.complained) == (Exit.CANNOT_START, True)
    assert json.loads((tmp_path / "till.json").read_text())["till"] == "R5"


def test_a_code_without_a_running_server_makes_the_chain(tmp_path: Path) -> None:
    ended = pawtill_here("enrolment-code", "R1", "--store", "s", "--data-dir", tmp_path)

    assert ended.code == Exit.OK and "登记码" in ended.said
    assert stat.S_IMODE((tmp_path / "chain.key").stat().st_mode) == 0o600
    assert (tmp_path / "headquarters.key").exists()


def test_a_code_for_a_till_of_another_store_is_refused(tmp_path: Path) -> None:
    pawtill_here("enrolment-code", "R1", "--store", "s", "--data-dir", tmp_path)

    ended = pawtill_here("enrolment-code", "R1", "--store", "other", "--data-dir", tmp_path)

    assert (ended.code, "stands in store s" in ended.complained) == (Exit.FOUND_SOMETHING, True)


def _furnish(server: tuple[Path, str]) -> None:
    with own_line(server_settings(data_dir=server[0]), server[1]) as headquarters:
        goods = [{"sku": "FOOD", "price": "5.00", "name": "Food"}]
        headquarters.post("/v1/products", goods)  # type: ignore[arg-type] - the one route that takes a list


def _sell(folder: Path, order_id: str) -> None:
    with open_running_till(folder / TILL_FILE, find_enrolment(folder), payments=NoTerminal()) as running:
        running.engine.run_once()
        _pay(running, order_id)
        running.engine.run_once()


def _pay(running: RunningTill, order_id: str) -> None:
    assert isinstance(running.till.checkout(order_id, BasketRequest(lines=(BasketLine("FOOD", 1000),))), OpenOrder)
    assert isinstance(running.till.pay(order_id), PaidOrder)


def test_a_till_whose_disk_was_set_back_goes_on_behind_a_new_enrolment(
    server: tuple[Path, str], tmp_path: Path
) -> None:
    _furnish(server)
    till = tmp_path / "till"
    _enrol(server, till, "R4", _code(server, "R4"))
    _sell(till, "o1")
    shutil.copytree(till, tmp_path / "yesterday")
    _sell(till, "o2")
    shutil.rmtree(till)
    shutil.move(tmp_path / "yesterday", till)

    ended = _enrol(server, till, "R4", _code(server, "R4"))

    assert (ended.code, "Epoch 2" in ended.said) == (Exit.OK, True), ended.complained
    _sell(till, "o3")


def test_what_a_revoked_till_sold_comes_in_when_its_folder_enrols_anew(
    server: tuple[Path, str], tmp_path: Path
) -> None:
    folder, url = server
    _furnish(server)
    _enrol(server, tmp_path, "R7", _code(server, "R7"))
    _sell(tmp_path, "o7")
    where = ("--data-dir", folder, "--url", url)
    revoked = pawtill_here("revoke", "R7", "--reason", "sold", "--confirm", "R7", *where, PAWTILL_TLS="on")
    with pytest.raises(SyncStopped, match="revoked"):
        _sell(tmp_path, "o8")
    with open_running_till(tmp_path / TILL_FILE, find_enrolment(tmp_path), payments=NoTerminal()) as running:
        _pay(running, "o8")

    enrolled = _enrol(server, tmp_path, "R7", _code(server, "R7"))
    _sell(tmp_path, "o9")

    assert (revoked.code, enrolled.code) == (Exit.OK, Exit.OK), revoked.complained + enrolled.complained
    with own_line(server_settings(data_dir=folder), url) as headquarters:
        sold = [headquarters.get(f"/v1/orders/{name}") for name in ("o7", "o8", "o9")]
    assert [each["state"] for each in sold if isinstance(each, dict)] == ["PAID"] * 3


def test_a_damaged_ledger_is_recovered_behind_a_new_enrolment(server: tuple[Path, str], tmp_path: Path) -> None:
    _furnish(server)
    _enrol(server, tmp_path, "R5", _code(server, "R5"))
    _sell(tmp_path, "o5")
    data = bytearray((tmp_path / TILL_FILE).read_bytes())
    data[4096:8192] = bytes(4096)
    (tmp_path / TILL_FILE).write_bytes(bytes(data))

    enrolled = _enrol(server, tmp_path, "R5", _code(server, "R5"))
    recovered = pawtill_here("recover", "--data-dir", tmp_path)

    assert (enrolled.code, "pawtill recover" in enrolled.complained) == (Exit.DAMAGED_DATA, True)
    assert (recovered.code, "Epoch 2" in recovered.said) == (Exit.OK, True), recovered.complained
    _sell(tmp_path, "o6")


def test_a_second_recovery_by_one_key_says_that_it_needs_a_new_code(server: tuple[Path, str], tmp_path: Path) -> None:
    _enrol(server, tmp_path, "R7", _code(server, "R7"))
    first = pawtill_here("recover", "--data-dir", tmp_path, "--anew")

    refused = pawtill_here("recover", "--data-dir", tmp_path, "--anew")

    assert (first.code, refused.code) == (Exit.OK, Exit.FOUND_SOMETHING)
    assert "enrol it anew with a code" in refused.complained and "请先重新登记" in refused.complained
