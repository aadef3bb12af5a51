"""Run `pawtill` as a person does: as a process of its own, or here, without the start of one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from typer.testing import CliRunner

from cli.main import app

ROOT = Path(__file__).parents[3]


def environment(**extra: str) -> dict[str, str]:
    """Return an environment without a screen, without settings of a real server, and without a real keyring."""
    hidden = ("PAWTILL_", "DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    # Plain HTTP on this machine, but for the tests of TLS: their callers need to trust nobody.
    ours = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring", "PAWTILL_TLS": "off"}
    return kept | ours | extra


def command(*arguments: object) -> list[str]:
    """Return the command line."""
    return [sys.executable, "-m", "cli.main", *map(str, arguments)]


@dataclass(frozen=True)
class Ended:
    """Hold how a command ended; `said` is stdout, `complained` stderr."""

    code: int
    said: str
    complained: str


def pawtill(*arguments: object, **extra: str) -> Ended:
    """Run a command to its end; a traceback is never an answer."""
    done = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env=environment(**extra),
    )
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def pawtill_here(*arguments: object, typed: str | None = None, **extra: str) -> Ended:
    """Run a command to its end in this process, for what does not hang on its being another one; `typed` answers it.

    Starting one takes a second, nearly all of it for imports.
    """
    unset = dict.fromkeys(os.environ.keys() - environment().keys())
    with patch("server.logs.configure"):  # it sends the logs to a stream that is gone with the command
        done = CliRunner().invoke(app, [*map(str, arguments)], env=unset | environment(**extra), input=typed)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ended(done.exit_code, done.stdout, done.stderr)


@contextmanager
def running(*arguments: object, **extra: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command beside the test; it is killed where it does not end by itself."""
    process = subprocess.Popen(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(**extra),
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
