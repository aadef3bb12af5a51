"""A till's file of an older version is brought forward with everything that is in it."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

from app.store import boot, orders
from app.store.orders import OrderRow
from tests.fakes.memory_world import NOON
from tests.fakes.shop import K1, Shop, basket

MIGRATIONS = Path(boot.__file__).parent / "migrations"


def make_file_of_version_1(path: Path) -> None:
    """Make what the first version made, with a sale that was parked."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as tx:
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes["connection"] = tx
        command.upgrade(config, "0001")
        tx.exec_driver_sql(
            "INSERT INTO orders (id, attempt, state, held, content, lines, quote, tenders, updated_at) "
            "VALUES ('old', 2, 'CANCELLED', 0, x'00', '[]', '{}', '[]', 1780286400000)"
        )
        tx.exec_driver_sql(
            "INSERT INTO coupon (id, code_digest, campaign_id, snapshot_id, member_id, state) "
            "VALUES ('k0', x'01', 'c', 's', 'm1', 'ISSUED')"
        )
        tx.exec_driver_sql(f"PRAGMA application_id = {boot.APPLICATION_ID}")
        tx.exec_driver_sql("PRAGMA user_version = 1")
    engine.dispose()


def test_a_file_of_version_1_keeps_its_rows_and_sells_by_rights(tmp_path: Path) -> None:
    make_file_of_version_1(tmp_path / "till.db")

    shop = Shop(tmp_path)

    with shop.till.database.read() as conn:
        assert orders.get(conn, "old") == OrderRow(
            "old", 2, "CANCELLED", content=b"\0", lines=[], tenders=[], updated_at=NOON
        )
        assert conn.exec_driver_sql("SELECT id, version FROM coupon").all() == [("k0", 0)]
        assert conn.exec_driver_sql("PRAGMA user_version").scalar() == boot.SCHEMA_VERSION
    shop.coupon("k1", K1)
    shop.notice()
    shop.till.take_home("k1")
    shop.unplug()
    assert shop.till.quote(basket("A", member="m1", use=("k1",))).used == ("k1",)  # type: ignore[union-attr]
    shop.close()
