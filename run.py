#!/usr/bin/env python3
"""Set Pawtill up on this machine, then run it.

    python3 run.py demo [--headless]       a shop, a server and a till, signed in
    python3 run.py test [pytest argument]  lint, types, import contracts, the whole suite; with arguments pytest alone
    python3 run.py bench [NAME] [--quick]  the benchmarks
    python3 run.py mutants [NAME]          mutation testing of the money rules (not on Windows)
    python3 run.py COMMAND ...             any other `pawtill` command: server, till, enrol, audit, doctor, scenario

The first run makes `.venv`, installs the locked packages with their hashes and sees to system packages that are
missing; the next ones start at once. Written for Linux, Windows and macOS; tried on Debian 12 only.

Exit codes of the set-up itself (apart from pytest's 0 to 5 and those of `pawtill`, which pass through):
81 Python is too old · 82 system packages are missing, the line to run is printed · 83 the installation failed.
"""

# Standard library only, in the syntax of Python 3.8: an old Python must reach the message that says so.
from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Iterator

PYTHON_TOO_OLD, SYSTEM_PACKAGES_MISSING, INSTALL_FAILED = 81, 82, 83
OLDEST_PYTHON = (3, 11)
ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
STAMP = VENV / "pawtill-stamp"
BUILDING = "building"
# One lock for every command: `demo` and `test` then share one environment, and the second of them installs nothing.
LOCK = ROOT / "requirements-dev.lock"

UNIT_TESTS = "tests/unit"

# What PySide6 asks of the system, each with its Debian package; a test holds the table against the binaries themselves.
QT_LIBRARIES = """
    libGL.so.1 libgl1               libEGL.so.1 libegl1                   libX11.so.6 libx11-6
    libxkbcommon.so.0 libxkbcommon0 libdbus-1.so.3 libdbus-1-3            libfontconfig.so.1 libfontconfig1
    libfreetype.so.6 libfreetype6   libglib-2.0.so.0 libglib2.0-0         libgthread-2.0.so.0 libglib2.0-0
    libzstd.so.1 libzstd1           libz.so.1 zlib1g
"""
WINDOW_LIBRARIES = """
    libX11-xcb.so.1 libx11-xcb1     libxkbcommon-x11.so.0 libxkbcommon-x11-0      libxcb.so.1 libxcb1
    libxcb-cursor.so.0 libxcb-cursor0       libxcb-icccm.so.4 libxcb-icccm4       libxcb-image.so.0 libxcb-image0
    libxcb-keysyms.so.1 libxcb-keysyms1     libxcb-randr.so.0 libxcb-randr0       libxcb-render.so.0 libxcb-render0
    libxcb-render-util.so.0 libxcb-render-util0     libxcb-shape.so.0 libxcb-shape0     libxcb-shm.so.0 libxcb-shm0
    libxcb-sync.so.1 libxcb-sync1   libxcb-util.so.1 libxcb-util1         libxcb-xfixes.so.0 libxcb-xfixes0
    libxcb-xkb.so.1 libxcb-xkb1     libwayland-client.so.0 libwayland-client0
    libwayland-cursor.so.0 libwayland-cursor0       libwayland-egl.so.1 libwayland-egl1
"""
CHINESE_FONT_PACKAGE = "fonts-wqy-microhei"
CHINESE_FONT_NAME = re.compile(r"cjk|wqy|notosans(hans|sc)|sourcehan|droidsansfallback|uming|ukai|simsun|msyh", re.I)
QT_COMMANDS, WINDOW_COMMANDS = {"demo", "till", "test", "bench"}, {"demo", "till"}


class Stop(Exception):
    """End the set-up: the exit code, and what to tell the person."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def say(text: str) -> None:
    print("pawtill: " + text, file=sys.stderr, flush=True)


def works(command: list[str]) -> bool:
    """Run `command` unseen and tell whether it succeeded."""
    null = subprocess.DEVNULL
    return subprocess.run(command, stdin=null, stdout=null, stderr=null).returncode == 0


# ------------------------------------------------------------------ Python and system packages


def check_python(version: tuple[int, ...]) -> None:
    """Stop where `version` is older than 3.11, naming a newer Python of this machine if there is one."""
    if version[:2] >= OLDEST_PYTHON:
        return
    newer = next((n for n in ("python3.14", "python3.13", "python3.12", "python3.11") if shutil.which(n)), None)
    hint = "run: %s run.py ..." % newer if newer else "install Python 3.11 or newer and run this again with it"
    raise Stop(PYTHON_TOO_OLD, "Pawtill needs Python 3.11 or newer, this is %d.%d; %s" % (version[0], version[1], hint))


def packages_of_missing(table: str) -> set[str]:
    """Return the packages of those libraries in `table` that the dynamic linker cannot load."""
    words, missing = iter(table.split()), set()
    for library in words:
        package = next(words)
        try:
            ctypes.CDLL(library)
        except OSError:
            missing.add(package)
    return missing


def has_chinese_font() -> bool:
    """Look with fontconfig's tool; where it is absent, by the file names in the folders that fontconfig reads."""
    if shutil.which("fc-list"):
        return bool(subprocess.run(["fc-list", ":lang=zh", "family"], stdout=subprocess.PIPE).stdout.strip())
    home = Path.home()
    folders = [Path("/usr/share/fonts"), Path("/usr/local/share/fonts"), home / ".fonts", home / ".local/share/fonts"]
    return any(CHINESE_FONT_NAME.search(name) for top in folders for _, _, names in os.walk(top) for name in names)


def missing_packages() -> tuple[set[str], set[str], set[str]]:
    """Return the Debian packages missing for any command, for Qt, and for a window; empty away from Linux."""
    if not sys.platform.startswith("linux"):
        return set(), set(), set()
    can_make_venv = find_spec("venv") and (find_spec("ensurepip") or find_spec("pip"))
    always = set() if PYTHON.exists() or can_make_venv else {"python%d.%d-venv" % sys.version_info[:2]}
    font = set() if has_chinese_font() else {CHINESE_FONT_PACKAGE}
    return always, packages_of_missing(QT_LIBRARIES) | font, packages_of_missing(WINDOW_LIBRARIES)


def packages_to_install(command: str, arguments: list[str]) -> list[str]:
    """Return nothing where `command` can run as it is, else all that any command would miss: one request, not three."""
    always, qt, window = missing_packages()
    has_screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) and "--headless" not in arguments
    blocks = always or (command in QT_COMMANDS and qt) or (command in WINDOW_COMMANDS and has_screen and window)
    return sorted(always | qt | window) if blocks else []


def install_line(packages: list[str], has_sudo: bool, has_lists: bool) -> str:
    """Return the one line that a person types."""
    apt = "apt-get install -y --no-install-recommends " + " ".join(packages)
    steps = [apt] if has_lists else ["apt-get update", apt]
    if has_sudo:
        return " && ".join("sudo " + step for step in steps)
    return "su - -c " + shlex.quote(" && ".join(steps))


def install_packages(packages: list[str]) -> None:
    """Install with apt where root or a sudo without password lets us; else stop with the line to run."""
    if not shutil.which("apt-get"):
        names = " ".join(packages)
        raise Stop(SYSTEM_PACKAGES_MISSING, "install what your system calls these Debian packages: " + names)
    has_sudo = shutil.which("sudo") is not None
    prefix = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if prefix and not (has_sudo and works([*prefix, "true"])):
        has_lists = any(Path("/var/lib/apt/lists").glob("*Packages*"))
        line = install_line(packages, has_sudo, has_lists)
        raise Stop(SYSTEM_PACKAGES_MISSING, "system packages are missing. Run this line, then try again:\n" + line)
    say("installing system packages: " + " ".join(packages))
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    install = [*apt, "install", "-y", "--no-install-recommends", *packages]
    # Package lists may be absent or stale: only a failure tells, and only then is the slow update worth it.
    if not works(install):
        works([*apt, "update"])
        run_or_stop(install, stdout=subprocess.DEVNULL)


# ------------------------------------------------------------------ the Python environment


def wanted_stamp() -> str:
    """Name everything that the environment depends on, so that a change of any makes it stale."""
    digest = hashlib.sha256(LOCK.read_bytes() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    return "%s\n%s\n%s" % (ROOT, sys.version, digest)


def is_reusable(stamp: str | None, wanted: str) -> bool:
    """Tell whether packages can be installed over what stands in `.venv` (`stamp` None: made by hand)."""
    if stamp == BUILDING or not PYTHON.exists() or not works([str(PYTHON), "-c", ""]):
        return False
    return stamp is None or stamp.split("\n")[:2] == wanted.split("\n")[:2]


def make_environment() -> None:
    """Bring `.venv` to the lock. Its stamp says `building` meanwhile: what was interrupted is never trusted."""
    wanted, stamp = wanted_stamp(), STAMP.read_text("utf-8") if STAMP.exists() else None
    if stamp == wanted and PYTHON.exists():
        return
    reusable = is_reusable(stamp, wanted)
    say("bringing .venv up to date" if reusable else "making .venv (once; downloads about 150 MB)")
    if not reusable:
        shutil.rmtree(VENV, ignore_errors=True)
        VENV.mkdir()
    STAMP.write_text(BUILDING, "utf-8")
    if not reusable:
        without_pip = [] if find_spec("ensurepip") else ["--without-pip"]
        run_or_stop([sys.executable, "-m", "venv", *without_pip, str(VENV)])
    pip = [str(PYTHON), "-m", "pip"]
    if not works([*pip, "--version"]):
        pip = [sys.executable, "-m", "pip", "--python", str(PYTHON)]  # the system's pip, working on our environment
    install = [*pip, "install", "--no-input", "--disable-pip-version-check", *([] if sys.stderr.isatty() else ["-q"])]
    run_or_stop([*install, "--require-hashes", "-r", str(LOCK)])
    run_or_stop([*install, "--no-deps", "--no-build-isolation", "-e", str(ROOT)])
    STAMP.write_text(wanted, "utf-8")


def run_or_stop(command: list[str], stdout: int | None = None) -> None:
    if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stdout).returncode != 0:
        raise Stop(INSTALL_FAILED, "this failed, see above: " + " ".join(map(shlex.quote, command)))


@contextlib.contextmanager
def only_one_setup() -> Iterator[None]:
    """Hold the lock file: of two first runs at once the second waits, then finds everything ready."""
    with (ROOT / ".venv.lock").open("a+") as handle:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415

            msvcrt.locking(handle.fileno(), msvcrt.LK_LOCK, 1)
        else:
            import fcntl  # noqa: PLC0415

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                say("another run is setting up, waiting for it")
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


# ------------------------------------------------------------------ commands


def run_suite(arguments: list[str]) -> int:
    """Run every check, cheapest first, and stop at the first that fails; with arguments pytest alone."""
    os.chdir(ROOT)
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    # A hundred processes are started, and without its bytecode each of them compiles all of Pawtill.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    python = str(PYTHON)
    # Two more than there are processors: tests wait for disks, timers and processes of their own. Whoever is done takes
    # tests over from the others, so that none is left alone with the long ones.
    pytest = [python, "-m", "pytest", "-n", str((os.cpu_count() or 1) + 2), "--dist", "worksteal"]
    checks = {
        "ruff check": [python, "-m", "ruff", "check", "-q", "."],
        "ruff format": [python, "-m", "ruff", "format", "-q", "--check", "."],
        "mypy": [python, "-m", "mypy"],
        "import contracts": [str(BIN / "lint-imports")],
        # Coverage makes every test half as slow again, so only those run under it that must reach all of the domain.
        "pytest, units with coverage": [*pytest, "--cov", "--cov-report=term:skip-covered", UNIT_TESTS],
        "pytest, everything else": [*pytest, "--ignore", UNIT_TESTS],
    }
    if arguments:
        checks = {"pytest": [python, "-m", "pytest", *arguments]}
    for name, command in checks.items():
        say(name)
        code = subprocess.run(command).returncode
        if code != 0:
            if not name.startswith("pytest"):  # whose own summary is the last line
                say(name + " failed")
            return code
    return 0


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0
    command, rest = arguments[0], arguments[1:]
    try:
        check_python(sys.version_info[:2])
        with only_one_setup():
            packages = packages_to_install(command, rest)
            if packages:
                install_packages(packages)
            still_missing = packages_to_install(command, rest) if packages else []
            if still_missing:
                raise Stop(SYSTEM_PACKAGES_MISSING, "installed, yet not found: " + " ".join(still_missing))
            make_environment()
    except Stop as stop:
        say(stop.message)
        return stop.code
    except OSError as error:  # read-only folder, another user's .venv, full disk
        say("the set-up failed: %s" % error)
        return INSTALL_FAILED
    if command == "test":
        return run_suite(rest)
    if command == "mutants":
        os.chdir(ROOT)
        mutmut = str(BIN / "mutmut")
        return subprocess.run([mutmut, "run", *rest]).returncode or (0 if rest else hand_over([mutmut, "results"]))
    if command == "bench":
        os.chdir(ROOT)
        return hand_over([str(PYTHON), "-m", "tests.bench", *rest])
    return hand_over([str(BIN / "pawtill"), *arguments])


def hand_over(command: list[str]) -> int:
    """Become `command`, so that signals and the exit code are its own; Windows has no exec worth the name."""
    if os.name == "nt":
        return subprocess.run(command).returncode
    sys.stdout.flush()
    os.execv(command[0], command)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
