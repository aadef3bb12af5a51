from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.close()


@pytest.fixture
def sold(shop: Shop) -> Iterator[Shop]:
    """Give a till that has sold ten orders and is closed."""
    for number in range(10):
        shop.sell(f"o{number}", "A", "B")
    shop.close()
    yield shop
