"""Every answer of the scripts that keep a campaign right, on a real server: generations, edits, other ways, looking."""

from __future__ import annotations

import pytest

from server.stock import scripts
from server.stock.pipeline import BlockingStock
from server.stock.scripts import End, Fault, Installation, Keys, No, Refused, Repeated, Reserved, Told, Why
from tests.integration.stock.sale import (
    KEYS,
    NOW,
    configuration,
    everything,
    open_sale,
    reservation,
    standing,
    take,
    take_token,
)

# ------------------------------------------------------------------ generations


def test_closing_refuses_everything_until_the_new_generation_is_installed(stock: BlockingStock) -> None:
    open_sale(stock)
    take_token(stock)

    assert stock.run(scripts.close(KEYS, 2)) == Told.OK

    assert take(stock, "r2", "m2") == Fault(Why.STALE_GENERATION, "2")
    assert take(stock, "r2", "m2", generation=2) == Fault(Why.NO_GENERATION)
    assert stock.run(scripts.adjust(KEYS, version=9, units=-1, members={})) == Fault(Why.NO_GENERATION)
    assert stock.run(scripts.configure(KEYS, 2, configuration(config=2))) == Fault(Why.NO_GENERATION)
    assert standing(stock) == Fault(Why.NO_GENERATION, "2")
    open_sale(stock, generation=3)
    assert isinstance(take(stock, "r2", "m2", generation=3), Reserved)


@pytest.mark.parametrize("generation", [1, 2])
def test_an_older_generation_closes_nothing(stock: BlockingStock, generation: int) -> None:
    open_sale(stock, generation=2)

    assert stock.run(scripts.close(KEYS, generation)) == Fault(Why.STALE_GENERATION, "2")
    assert isinstance(take(stock, generation=2), Reserved)


def test_of_two_rebuilds_the_older_one_installs_nothing(stock: BlockingStock) -> None:
    stock.run(scripts.close(KEYS, 1))
    stock.run(scripts.close(KEYS, 2))

    late = stock.run(scripts.install(KEYS, 1, Installation(0, 1, 1, 9, 9)))

    assert late == Fault(Why.STALE_GENERATION, "2")
    assert stock.run(scripts.install(KEYS, 2, Installation(0, 1, 1, 5, 5))) == Told.OK
    assert standing(stock).available == 5


def test_nothing_is_installed_twice_nor_without_being_announced(stock: BlockingStock) -> None:
    assert stock.run(scripts.install(KEYS, 1, Installation(0, 1, 1, 9, 9))) == Fault(Why.STALE_GENERATION)
    open_sale(stock)
    take_token(stock)
    again = stock.run(scripts.install(KEYS, 1, Installation(0, 1, 1, 9, 9)))

    assert again == Fault(Why.STALE_GENERATION, "1")
    assert standing(stock).units == 1


def test_members_that_were_not_all_staged_are_not_installed(stock: BlockingStock) -> None:
    stock.run(scripts.close(KEYS, 1))
    stock.client.hset(KEYS.staged(1), mapping={"m1": 1})

    answer = stock.run(scripts.install(KEYS, 1, Installation(2, 1, 1, 9, 9)))

    assert answer == Fault(Why.CORRUPT, "staged")


def test_a_new_generation_knows_no_reservation_of_the_old_one(stock: BlockingStock) -> None:
    open_sale(stock)
    token = take_token(stock)
    open_sale(stock, generation=2, available=49, held={"m1": 1})

    assert stock.run(scripts.release(KEYS, 2, [("r1", token)])) == [End.UNKNOWN]
    now = standing(stock)
    assert (now.available, now.units, now.member_count) == (49, 0, 1)


def test_a_key_of_another_kind_is_no_obstacle_to_a_rebuild(stock: BlockingStock) -> None:
    stock.client.set(KEYS.key("h"), "not ours")
    stock.client.set(KEYS.key("u"), "not ours")

    open_sale(stock)

    assert isinstance(take(stock), Reserved)


def test_all_keys_have_a_life_time_and_a_configuration_renews_it(stock: BlockingStock) -> None:
    open_sale(stock, held={"m0": 1})
    take_token(stock)
    lives = [stock.client.pttl(key) for key in KEYS.all]
    assert all(0 < life <= scripts.LIFE_MS for life in lives)
    for key in KEYS.all:
        stock.client.pexpire(key, 60_000)

    stock.run(scripts.configure(KEYS, 1, configuration(config=2)))

    assert min(stock.client.pttl(key) for key in KEYS.all) > 60_000


# ------------------------------------------------------------------ configure


def test_an_older_edit_changes_nothing_that_a_newer_one_set(stock: BlockingStock) -> None:
    open_sale(stock)
    stock.run(scripts.configure(KEYS, 1, configuration(config=5, limit=3)))

    assert stock.run(scripts.configure(KEYS, 1, configuration(config=4, limit=9, is_open=False))) == Told.OK

    assert take_token(stock, qty=3)
    assert take(stock, "r2") == Refused(No.LIMIT)


def test_a_raise_and_a_cut_count_once_and_in_the_order_of_the_database(stock: BlockingStock) -> None:
    open_sale(stock, total=10)
    take_token(stock)

    for _ in range(2):
        stock.run(scripts.configure(KEYS, 1, configuration(stock=3, total=25)))
    assert standing(stock).available == 24
    stock.run(scripts.configure(KEYS, 1, configuration(stock=2, total=11)))
    assert standing(stock).available == 24
    stock.run(scripts.configure(KEYS, 1, configuration(stock=4, total=1)))
    assert standing(stock).available == 0


def test_a_stock_that_comes_or_goes_needs_a_new_generation(stock: BlockingStock) -> None:
    open_sale(stock, total=None)

    assert stock.run(scripts.configure(KEYS, 1, configuration(stock=9, total=5))) == Fault(Why.CORRUPT, "stocked")


# ------------------------------------------------------------------ adjust


def test_what_other_ways_take_and_give_back_is_counted_with_its_members(stock: BlockingStock) -> None:
    open_sale(stock, total=10, limit=2, held={"m1": 1}, available=9)

    stock.run(scripts.adjust(KEYS, version=2, units=-3, members={"m1": 1, "m2": 2}))
    assert (standing(stock).available, standing(stock).member_count) == (6, 2)
    assert take(stock, "r1", "m1") == Refused(No.LIMIT)

    stock.run(scripts.adjust(KEYS, version=3, units=2, members={"m2": -2}))
    assert (standing(stock).available, standing(stock).member_count) == (8, 1)
    assert isinstance(take(stock, "r2", "m2"), Reserved)


@pytest.mark.parametrize("version", [3, 4])
def test_what_a_rebuild_has_read_is_not_counted_again(stock: BlockingStock, version: int) -> None:
    open_sale(stock, total=10, available=7, held={"m1": 3}, version=4)

    assert stock.run(scripts.adjust(KEYS, version=version, units=-3, members={"m1": 3})) == Told.KNOWN
    assert standing(stock).available == 7
    assert stock.run(scripts.adjust(KEYS, version=5, units=-3, members={"m1": 3})) == Told.OK
    assert standing(stock).available == 4


def test_less_than_nothing_is_left_where_reservations_are_open_for_what_is_gone(stock: BlockingStock) -> None:
    open_sale(stock, total=2)
    token = take_token(stock)

    stock.run(scripts.adjust(KEYS, version=2, units=-2, members={"m8": 1, "m9": 1}))

    assert standing(stock).available == -1
    assert take(stock, "r2", "m2") == Refused(No.SOLD_OUT)
    stock.run(scripts.release(KEYS, 1, [("r1", token)]))
    assert standing(stock).available == 0


# ------------------------------------------------------------------ looking


def test_the_standing_tells_what_is_reserved_and_what_is_overdue(stock: BlockingStock) -> None:
    open_sale(stock, total=9, limit=9)
    token = take_token(stock, qty=2)
    take_token(stock, "r2", "m2", deadline_ms=NOW + 9000)

    now = standing(stock, request="r1", now_ms=NOW + 5001)

    assert (now.available, now.units, now.request_count, now.member_count) == (6, 3, 2, 2)
    assert (now.overdue_count, now.reservation) == (1, Repeated(token, NOW + 5000))
    assert standing(stock, now_ms=NOW + 5000).overdue_count == 0


def test_looking_changes_nothing(stock: BlockingStock) -> None:
    open_sale(stock)
    take_token(stock)
    before = everything(stock)

    standing(stock, request="r1")

    assert everything(stock) == before


def test_two_campaigns_and_two_chains_share_nothing(stock: BlockingStock) -> None:
    for keys in (Keys("c1"), Keys("c2"), Keys("c1", "other:")):
        open_sale(stock, keys=keys, total=1)

    answers = [
        stock.run(scripts.reserve(keys, 1, reservation())) for keys in (Keys("c1"), Keys("c2"), Keys("c1", "other:"))
    ]

    assert [type(each) for each in answers] == [Reserved] * 3


@pytest.mark.parametrize("campaign", ["a}b", "}", "{", "a}:h", "中文", "*?[x]"])
def test_any_campaign_has_keys_of_its_own_under_one_tag(stock: BlockingStock, campaign: str) -> None:
    keys = Keys(campaign)

    open_sale(stock, keys=keys, total=1)

    assert isinstance(stock.run(scripts.reserve(keys, 1, reservation())), Reserved)
    assert len({stock.client.execute_command("CLUSTER KEYSLOT", key) for key in (*keys.all, keys.staged(1))}) == 1


def test_a_flushed_script_cache_costs_nobody_an_answer(stock: BlockingStock) -> None:
    open_sale(stock)
    stock.client.script_flush()

    answers = stock.run_all([scripts.reserve(KEYS, 1, reservation(f"r{n}", f"m{n}")) for n in range(3)])

    assert [type(each) for each in answers] == [Reserved] * 3
