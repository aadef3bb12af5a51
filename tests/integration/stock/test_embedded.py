"""The bundled server: there when it is needed, back when it dies, gone when we go."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from server.stock import embedded as module
from server.stock import scripts
from server.stock.connection import connect
from server.stock.embedded import EmbeddedRedis, NotBundled, find_binary
from server.stock.scripts import Reserved
from server.stock.suitability import look
from tests.fakes.redis_server import acquainted
from tests.integration.stock.sale import KEYS, open_sale, reservation, standing

ROOT = Path(__file__).parents[3]
OWNER = """
import sys, time
from pathlib import Path
from server.stock.embedded import EmbeddedRedis
redis = EmbeddedRedis(Path(sys.argv[1]))
redis.start()
print(redis.pid, flush=True)
time.sleep(60)
"""


def eventually(holds: Callable[[], bool], *, within_s: float = 10.0) -> None:
    """Wait for what another process does."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _answers(embedded: EmbeddedRedis) -> bool:
    try:
        return bool(connect(embedded.address, None).ping())
    except Exception:
        return False


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    made = EmbeddedRedis(tmp_path)
    assert made.start()
    yield made
    made.stop()


def test_it_starts_with_settings_that_nothing_is_wrong_with(embedded: EmbeddedRedis) -> None:
    assert look(connect(embedded.address, None)).problems == ()


def test_nobody_else_on_the_machine_may_use_it(embedded: EmbeddedRedis) -> None:
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in (embedded.folder, *embedded.folder.iterdir())
        if path.name in ("redis", "password", "redis.conf", "socket")
    }
    command = Path(f"/proc/{embedded.pid}/cmdline").read_bytes()

    assert modes == {"redis": 0o700, "password": 0o600, "redis.conf": 0o600, "socket": 0o700}
    assert str(embedded.address.secret).encode() not in command


def test_it_keeps_what_it_had_over_a_stop(tmp_path: Path) -> None:
    first = EmbeddedRedis(tmp_path)
    first.start()
    open_sale(acquainted(first.address)[0], total=7)
    pid = first.pid
    first.stop()
    assert pid is not None and not _lives(pid)

    second = EmbeddedRedis(tmp_path)
    second.start()
    try:
        assert standing(acquainted(second.address)[0]).available == 7
    finally:
        second.stop()


def test_it_is_started_again_when_it_dies(embedded: EmbeddedRedis) -> None:
    pid = embedded.pid
    assert pid is not None

    os.kill(pid, signal.SIGKILL)

    eventually(lambda: embedded.pid not in (None, pid) and _answers(embedded))


def test_it_is_started_again_once_there_is_room_for_it(
    embedded: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid, tries, spawn = embedded.pid, list[int](), embedded._spawn
    assert pid is not None

    def no_room() -> subprocess.Popen[bytes]:
        tries.append(1)
        if len(tries) < 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return spawn()

    monkeypatch.setattr(embedded, "_spawn", no_room)
    os.kill(pid, signal.SIGKILL)

    eventually(lambda: embedded.pid not in (None, pid) and _answers(embedded))


def test_two_processes_that_start_at_once_agree_on_a_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[EmbeddedRedis] = []
    other = threading.Thread(target=lambda: made.append(EmbeddedRedis(tmp_path)))
    write = module.write_private

    def slow(path: Path, content: bytes) -> None:
        if threading.current_thread() is not other:
            other.start()
            other.join(0.5)
        write(path, content)

    monkeypatch.setattr(module, "write_private", slow)
    made.append(EmbeddedRedis(tmp_path))
    other.join(10)

    first, second = (each.address.secret for each in made)
    assert first == second


def test_a_file_that_it_cannot_read_is_set_aside(embedded: EmbeddedRedis) -> None:
    stock, _ = acquainted(embedded.address)
    open_sale(stock)
    pid = embedded.pid
    assert pid is not None
    for path in (embedded.folder / "appendonlydir").glob("*.rdb"):
        path.write_bytes(b"REDIS0011 and then nonsense")
    (embedded.folder / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense\n")

    os.kill(pid, signal.SIGKILL)

    eventually(lambda: list(embedded.folder.glob("unreadable-*")) != [] and _answers(embedded), within_s=20)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel ends it on Linux alone")
def test_no_orphan_is_left_behind_by_a_server_that_was_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    assert _lives(pid)

    owner.kill()
    owner.wait()
    owner.stdout.close()

    eventually(lambda: not _lives(pid))


def test_an_orphan_of_before_is_ended_at_the_next_start(embedded: EmbeddedRedis, tmp_path: Path) -> None:
    conf = embedded.folder / "redis.conf"
    embedded.stop()
    orphan = subprocess.Popen([str(find_binary()), str(conf)], stdout=subprocess.DEVNULL)
    eventually(lambda: _answers(embedded))

    again = EmbeddedRedis(tmp_path)
    assert again.start()
    try:
        assert orphan.wait(10) == 0
        assert again.pid not in (None, orphan.pid)
    finally:
        again.stop()


def test_a_second_process_uses_the_one_that_runs_and_takes_over_when_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.stock.embedded.FOLLOW_S", 0.05)
    leader, follower = EmbeddedRedis(tmp_path), EmbeddedRedis(tmp_path)
    leader.start()
    try:
        assert follower.start()
        assert follower.pid is None
        stock, _ = acquainted(follower.address)
        open_sale(stock)
        assert isinstance(stock.run(scripts.reserve(KEYS, 1, reservation())), Reserved)

        leader.stop()

        eventually(lambda: follower.pid is not None and _answers(follower))
        assert standing(acquainted(follower.address)[0]).units == 1
    finally:
        leader.stop()
        follower.stop()


def test_a_long_path_gets_a_short_socket_that_is_gone_afterwards(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 80)
    embedded = EmbeddedRedis(deep)
    place = Path(embedded.address.path).parent
    assert embedded.start()
    try:
        assert len(embedded.address.path) < 100 and _answers(embedded)
    finally:
        embedded.stop()

    assert not place.exists()


def test_where_nothing_is_bundled_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Windows")

    with pytest.raises(NotBundled, match="no bundled Redis"):
        find_binary()


def test_a_stop_before_the_start_and_a_second_one_do_nothing(tmp_path: Path) -> None:
    embedded = EmbeddedRedis(tmp_path)

    embedded.stop()
    embedded.stop()

    assert embedded.pid is None
