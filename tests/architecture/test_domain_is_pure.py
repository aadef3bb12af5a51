"""What import-linter cannot say: the domain imports the standard library's pure part, itself, and nothing else."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOMAIN = ROOT / "app" / "domain"
# A clock, chance, the machine or another thread: what would make the same facts give another decision.
IMPURE = {
    *("asyncio", "ctypes", "glob", "http", "importlib", "io", "logging", "multiprocessing", "os", "pathlib", "pickle"),
    *(
        "random",
        "secrets",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
    ),
    *("time", "urllib", "uuid", "warnings"),
}


def imported_modules(source: str) -> set[str]:
    """Return the absolute names that `source` imports, wherever in it; a relative import counts as the domain's own."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("app.domain" if node.level else str(node.module))
    return names


def foreign_to_the_domain(source: str) -> set[str]:
    """Return what `source` imports beyond the pure part of the standard library and the domain."""
    return {
        name
        for name in imported_modules(source)
        if not (name + ".").startswith("app.domain.")
        and (name.split(".")[0] in IMPURE or name.split(".")[0] not in sys.stdlib_module_names)
    }


@pytest.mark.parametrize("module", sorted(DOMAIN.rglob("*.py")), ids=lambda path: str(path.relative_to(DOMAIN)))
def test_the_domain_imports_the_pure_standard_library_alone(module: Path) -> None:
    assert foreign_to_the_domain(module.read_text("utf-8")) == set()


@pytest.mark.parametrize(
    "line",
    ["import time", "from os import path", "import sqlalchemy", "from app.store import schema", "import app.services"],
)
def test_the_check_itself_sees_what_does_not_belong(line: str) -> None:
    assert foreign_to_the_domain(f"def f():\n    {line}\n")


@pytest.mark.parametrize("line", ["from app.domain.money import x", "from . import money", "import decimal, fractions"])
def test_the_check_itself_lets_pass_what_belongs(line: str) -> None:
    assert not foreign_to_the_domain(line)
