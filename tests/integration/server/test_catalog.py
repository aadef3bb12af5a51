"""The chain's set-up over HTTP: set by id, all or nothing, refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from server.services import feed
from tests.fakes.headquarters import Headquarters

CHAIN = {"currency": "CNY", "zone": "Asia/Shanghai", "cash_rounding": "0.10", "lock_timeout_s": 900}


def _product(sku: str, **keys: Any) -> dict[str, Any]:
    return {"sku": sku, "price": "1.00", **keys}


def _feed(headquarters: Headquarters, kind: str, *, since: int = 0) -> dict[str, Any]:
    body = {"proto": 1, "till": "t1", "cursor": since, "limit": 1000}
    answer = headquarters.call("POST", "/v1/sync/pull", body, key=headquarters.new_key("till"), status=200)
    return {each["key"]: each["record"] for each in answer["records"] if each["kind"] == kind}


def test_the_chains_settings_reach_the_tills(headquarters: Headquarters) -> None:
    headquarters.call("PUT", "/v1/chain", CHAIN, status=200)

    assert _feed(headquarters, "chain")["chain"] == {
        "currency": "CNY",
        "zone": "Asia/Shanghai",
        "cash_step_minor": 10,
        "lock_timeout_s": 900,
        "offline_hours": 8,
    }


def test_the_hours_without_a_line_reach_the_tills_and_stay_when_other_settings_change(
    headquarters: Headquarters,
) -> None:
    known = headquarters.services.read(lambda conn, _: feed.head(conn))
    headquarters.call("PUT", "/v1/chain/offline-hours", {"hours": 168}, status=200)
    heard = _feed(headquarters, "chain", since=known)["chain"]["offline_hours"]
    headquarters.call("PUT", "/v1/chain", CHAIN, status=200)

    told = headquarters.call("GET", "/v1/chain", status=200)

    assert heard == _feed(headquarters, "chain")["chain"]["offline_hours"] == 168
    assert told == {"outcome": "ok", **CHAIN, "offline_hours": 168}


@pytest.mark.parametrize("hours", [0, 169, "8", 1.5, True])
def test_hours_that_make_no_sense_are_refused(headquarters: Headquarters, hours: Any) -> None:
    headquarters.call("PUT", "/v1/chain/offline-hours", {"hours": hours}, status=422)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"zone": "Asia/Nowhere"}, 409),
        ({"zone": "../../etc/passwd"}, 409),
        ({"zone": "America"}, 409),
        ({"currency": "yuan"}, 422),
        ({"lock_timeout_s": 9}, 422),
        ({"lock_timeout_s": 10}, 200),
        ({"lock_timeout_s": 86_401}, 422),
        ({"cash_rounding": "0.001"}, 409),
        ({"cash_rounding": "-0.05"}, 409),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    headquarters: Headquarters, changes: dict[str, Any], status: int
) -> None:
    headquarters.call("PUT", "/v1/chain", {**CHAIN, **changes}, status=status)


@pytest.mark.parametrize(("body", "zone"), [({}, "Asia/Tokyo"), ({"zone": "Europe/Paris"}, "Europe/Paris")])
def test_a_store_without_a_zone_has_the_chains(headquarters: Headquarters, body: dict[str, Any], zone: str) -> None:
    headquarters.call("PUT", "/v1/chain", {**CHAIN, "zone": "Asia/Tokyo"}, status=200)

    headquarters.call("PUT", "/v1/stores/s9", body, status=200)

    assert _feed(headquarters, "store")["s9"]["zone"] == zone


def test_the_currency_stays_once_a_price_is_written_in_it(headquarters: Headquarters) -> None:
    headquarters.call("PUT", "/v1/chain", {**CHAIN, "currency": "JPY", "cash_rounding": None}, status=200)
    headquarters.call("POST", "/v1/products", [{"sku": "A", "price": "100"}], status=200)

    answer = headquarters.call("PUT", "/v1/chain", CHAIN, status=409)

    assert (answer["outcome"], answer["facts"]["field"]) == ("not_allowed", "currency")


def test_products_are_set_again_by_their_sku(headquarters: Headquarters) -> None:
    headquarters.call("POST", "/v1/products", [_product("A"), _product("B", by_weight=True)], status=200)

    headquarters.call("POST", "/v1/products", [_product("A", price="2.50", category="food")], status=200)

    products = _feed(headquarters, "product")
    assert (products["A"]["price_minor"], products["A"]["category"]) == (250, "food")
    assert products["B"]["by_weight"] is True


@pytest.mark.parametrize("price", ["1.999", "-1.00", "", "1,00", "1e3", "9999999999999.00"])
def test_a_price_that_is_no_amount_sets_none_of_the_list(headquarters: Headquarters, price: str) -> None:
    answer = headquarters.call("POST", "/v1/products", [_product("A"), _product("B", price=price)])

    assert answer.get("outcome") == "invalid_amount" or answer.get("error") == "invalid_request"
    assert _feed(headquarters, "product") == {}


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ("6901234567892", "06901234567892"),
        ("036000291452", "00036000291452"),
        ("12345678", "12345678"),
        ("6901234567890", "6901234567890"),
        ("IN-HOUSE-7", "IN-HOUSE-7"),
        ("SHOP-7", "SHOP-7"),
        ("IN-HOUSE-007", "IN-HOUSE-007"),
        ("６９０１２３４５６７８９２", "６９０１２３４５６７８９２"),
    ],
)
def test_a_barcode_is_kept_as_gtin_14_or_as_it_is_printed(headquarters: Headquarters, printed: str, kept: str) -> None:
    headquarters.call("POST", "/v1/products", [_product("A", barcode=printed)], status=200)

    assert _feed(headquarters, "product")["A"]["barcode"] == kept


def test_a_barcode_belongs_to_one_product(headquarters: Headquarters) -> None:
    headquarters.call("POST", "/v1/products", [_product("A", barcode="6901234567892")], status=200)

    taken = headquarters.call("POST", "/v1/products", [_product("B", barcode="06901234567892")], status=409)
    twice = headquarters.call(
        "POST", "/v1/products", [_product("C", barcode="X1"), _product("D", barcode="X1")], status=409
    )

    assert (taken["outcome"], taken["facts"]["sku"]) == ("duplicate_mismatch", "A")
    assert twice["facts"]["sku"] == "C"


def test_two_products_may_swap_their_barcodes(headquarters: Headquarters) -> None:
    headquarters.call("POST", "/v1/products", [_product("A", barcode="X1"), _product("B", barcode="X2")], status=200)

    headquarters.call("POST", "/v1/products", [_product("A", barcode="X2"), _product("B", barcode="X1")], status=200)

    products = _feed(headquarters, "product")
    assert (products["A"]["barcode"], products["B"]["barcode"]) == ("X2", "X1")


def test_a_member_needs_a_store_that_is_there(headquarters: Headquarters) -> None:
    answer = headquarters.call("POST", "/v1/members", {"id": "m2", "home_store": "s9"}, status=409)

    assert answer["facts"] == {"kind": "store", "id": "s9"}


def test_a_top_up_is_made_once_for_each_request(headquarters: Headquarters) -> None:
    body = {"request": "r1", "amount": "100.00"}

    answers = [headquarters.call("POST", "/v1/members/m1/top-ups", body, status=200) for _ in range(2)]
    other = headquarters.call("POST", "/v1/members/m1/top-ups", {**body, "amount": "100.01"}, status=409)

    assert [each["balance"] for each in answers] == ["100.00", "100.00"]
    assert other["outcome"] == "duplicate_mismatch"
    assert _feed(headquarters, "member")["m1"]["balance_minor"] == 10_000


@pytest.mark.parametrize(("amount", "status"), [("0.00", 409), ("0.01", 200), ("-5.00", 409), ("1.234", 409)])
def test_a_top_up_is_an_amount_above_zero(headquarters: Headquarters, amount: str, status: int) -> None:
    headquarters.call("POST", "/v1/members/m1/top-ups", {"request": "r1", "amount": amount}, status=status)


def test_a_top_up_of_nobody_is_404(headquarters: Headquarters) -> None:
    headquarters.call("POST", "/v1/members/m9/top-ups", {"request": "r1", "amount": "1.00"}, status=404)


def test_a_punch_card_is_sold_once(headquarters: Headquarters) -> None:
    headquarters.call("POST", "/v1/products", [_product("WASH", kind="service")], status=200)
    card = {"id": "p1", "member": "m1", "service": "WASH", "uses": 10, "until": "2026-12-31T00:00:00+08:00"}

    for _ in range(2):
        headquarters.call("POST", "/v1/punch-cards", card, status=200)
    other = headquarters.call("POST", "/v1/punch-cards", {**card, "uses": 11}, status=409)

    assert other["outcome"] == "duplicate_mismatch"
    assert _feed(headquarters, "punch_card")["p1"]["uses_left"] == 10


@pytest.mark.parametrize(("key", "kind"), [("member", "member"), ("service", "product")])
def test_a_punch_card_names_what_is_there(headquarters: Headquarters, key: str, kind: str) -> None:
    headquarters.call("POST", "/v1/products", [_product("WASH", kind="service")], status=200)
    card = {"id": "p1", "member": "m1", "service": "WASH", "uses": 10, key: "nobody"}

    assert headquarters.call("POST", "/v1/punch-cards", card, status=409)["facts"]["kind"] == kind


def test_a_till_stands_in_a_store_that_there_is(headquarters: Headquarters) -> None:
    told = headquarters.call("PUT", "/v1/tills/t1", {"store": "s1"}, status=200)

    assert told == {"outcome": "ok", "till": "t1", "store": "s1"}
    headquarters.call("PUT", "/v1/tills/t2", {"store": "s9"}, status=409)


def test_a_till_that_moves_enrols_anew_and_one_that_stays_does_not(headquarters: Headquarters) -> None:
    key = headquarters.new_key("till")
    headquarters.call("PUT", "/v1/stores/s2", {"zone": "Asia/Shanghai"}, status=200)

    headquarters.call("PUT", "/v1/tills/t1", {"store": "s1"}, status=200)
    headquarters.call("GET", "/v1/orders/none", key=key, status=404)
    headquarters.call("PUT", "/v1/tills/t1", {"store": "s2"}, status=200)

    assert headquarters.call("GET", "/v1/orders/none", key=key, status=403) == {"error": "till_replaced"}


def test_a_change_moves_its_record_to_the_end_of_the_feed(headquarters: Headquarters) -> None:
    headquarters.call("POST", "/v1/products", [_product("A"), _product("B")], status=200)

    headquarters.call("POST", "/v1/products", [_product("A", price="2.00")], status=200)

    assert list(_feed(headquarters, "product")) == ["B", "A"]
