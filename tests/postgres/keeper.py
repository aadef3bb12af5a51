"""Keep a PostgreSQL running for as long as another process lives: `python keeper.py FOLDER BINARIES PID`.

Whoever started it may be killed, so nobody is left to stop it; this process sees that and does. It writes `ready` into
the folder once connections are let in. SIGTERM ends it as well.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

USER = "pawtill"
_NOBODY = 65534
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "400",
    "shared_buffers": "128MB",
    "autovacuum_naptime": "10s",
    "log_min_messages": "fatal",
    "max_wal_size": "512MB",
}
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""For tests of what the database says; what survives a crash is tested without."""


def unprivileged() -> dict[str, Any]:
    """Return what makes a child of root somebody else: PostgreSQL refuses to run as root."""
    return (
        {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if hasattr(os, "geteuid") and os.geteuid() == 0 else {}
    )


def initialise(folder: Path, binaries: Path) -> None:
    """Make a cluster whose only user is USER; the folder's rights are the password (the socket lies in it)."""
    if unprivileged():
        os.chown(folder, _NOBODY, _NOBODY)
    run = [str(binaries / "initdb"), "-D", str(folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8"]
    subprocess.run([*run, "--locale=C.UTF-8", "-N"], check=True, stdout=subprocess.DEVNULL, **unprivileged())


def start(folder: Path, binaries: Path, settings: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start PostgreSQL on the cluster in `folder`."""
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [str(binaries / "postgres"), "-D", str(folder / "data"), "-k", str(folder), *options],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            **unprivileged(),
        )


def lets_in(folder: Path, binaries: Path) -> bool:
    """Ask whether connections are let in by now."""
    ask = [str(binaries / "pg_isready"), "-q", "-h", str(folder), "-U", USER]
    return subprocess.run(ask, check=False, stdout=subprocess.DEVNULL).returncode == 0


def main(folder: Path, binaries: Path, owner: int) -> None:
    """Start, say ready, wait for the owner's end, stop, and leave nothing behind."""
    ended = False

    def end(_number: int, _frame: object) -> None:
        nonlocal ended
        ended = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches us too; the owner decides
    initialise(folder, binaries)
    server = start(folder, binaries, _SETTINGS | (FAST if "durable" not in sys.argv else {}))
    while not ended and server.poll() is None and not lets_in(folder, binaries):
        time.sleep(0.02)
    (folder / "ready").touch()
    while not ended and server.poll() is None and _lives(owner):
        time.sleep(0.2)
    server.send_signal(signal.SIGINT)  # "fast": connections are cut
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    shutil.rmtree(folder, ignore_errors=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
