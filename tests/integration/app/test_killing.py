"""Kill -9 a till that sells, at every named point and anywhere: nothing shown is lost, nothing is there twice."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.services.api import InterruptedKind
from tests.fakes.memory_server import FakeServer
from tests.fakes.remote import serve
from tests.fakes.shop import Shop

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")

SELLING = Path(__file__).with_name("selling_process.py")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """A shop whose till runs elsewhere."""
    made = Shop(tmp_path)
    made.close()
    yield made


def sell_until_killed(
    shop: Shop, server: FakeServer, *, name: str, point: str = "", passes: int = 0, lines: int = 0
) -> list[str]:
    """Run the selling process until it kills itself, or for `lines` lines; return what it said."""
    with serve(server) as (host, port):
        process = subprocess.Popen(
            [sys.executable, str(SELLING), str(shop.path.parent), host, str(port), name, point, str(passes)],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line.strip())
            if lines and len(said) >= lines:
                process.kill()
                said += [rest.strip() for rest in process.stdout]
                break
        process.stdout.close()
        assert process.wait(30) == -9
    return said


def check(shop: Shop, said: list[str]) -> None:
    """Open the till as after the power came back, and compare it with what was seen at the counter."""
    asked = [line.split()[1] for line in said if line.startswith("asked ")]
    shown = [line.split()[1] for line in said if line.startswith("shown ")]
    till = shop.open()
    with till.database.read() as conn:
        sales = [entry.read()["order"] for entry, _ in till.database.ledger.every(conn) if entry.kind == "sale"]
    ours = [order_id for order_id in sales if order_id in set(asked)]

    assert shop.verify() == []
    assert len(sales) == len(set(sales)), "an order is there once"
    assert set(shown) <= set(ours), "what was shown is never lost"
    assert set(ours) <= set(asked), "what was not asked for is never there"

    last = asked[-1] if asked and asked[-1] not in shown else None
    interrupted = {each.order_id: each.kind for each in till.interrupted()}
    if last in ours:
        assert interrupted.get(last) in (InterruptedKind.RECEIPT_NOT_SHOWN, None)
    elif last in interrupted:
        assert interrupted[last] is InterruptedKind.OPEN_HOLD
    assert set(interrupted) <= {last}

    for order_id, kind in interrupted.items():
        if kind is InterruptedKind.OPEN_HOLD:
            till.cancel(order_id)
        else:
            till.receipt_shown(order_id)
    till.head_office.flush()
    assert [each.state for each in shop.server.orders.values() if each.state in ("HELD", "UNKNOWN")] == []
    till.close()


@pytest.mark.parametrize("point", ["hold_answered", "after_hold", "before_commit", "after_commit"])
def test_killed_at_a_named_point_an_order_is_there_once_or_not_at_all(shop: Shop, point: str) -> None:
    for passes in (0, 3):
        said = sell_until_killed(shop, shop.server, name=f"{point}{passes}", point=point, passes=passes)

        check(shop, said)


def test_a_till_that_shows_before_it_commits_would_be_caught(shop: Shop) -> None:
    """Control: the check notices the very loss that it is there for."""
    said = sell_until_killed(shop, shop.server, name="early", point="before_commit", passes=2)

    with pytest.raises(AssertionError, match="never lost"):
        check(shop, said)


def test_killed_anywhere_an_order_is_there_once_or_not_at_all(shop: Shop) -> None:
    chance = random.Random(4)
    for number in range(4):
        said = sell_until_killed(shop, shop.server, name=f"any{number}", lines=chance.randrange(2, 60))

        check(shop, said)
