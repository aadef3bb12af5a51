"""What a scan answers, from the till's own copy: kind, state, and whether it is of use now."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.services.api import ScanKind
from tests.fakes.memory_world import NOON
from tests.fakes.shop import K1, K2, Shop


def code(answer: object) -> str | None:
    refusal = answer.refusal or answer.verdict  # type: ignore[attr-defined]
    return None if refusal is None else refusal.code.value


@pytest.mark.parametrize("text", ["A", "4006381333931", "04006381333931", "]E04006381333931", "4006 3813 3393-1"])
def test_a_product_is_found_by_sku_and_by_every_form_of_its_barcode(shop: Shop, text: str) -> None:
    answer = shop.till.scan(text)

    assert (answer.kind, answer.sku, answer.price_minor, answer.title) == (ScanKind.PRODUCT, "A", 10_000, "货A")


def test_a_product_speaks_the_tills_language(shop: Shop) -> None:
    shop.till.language = "en"

    assert shop.till.scan("A").title == "Good A"


@pytest.mark.parametrize("text", [K1, "9000 0000 0000 0017", "９０００００００００００００１７", "9OOO-oooo-0000-0oi7"])
def test_a_coupon_is_found_however_its_code_is_typed(shop: Shop, text: str) -> None:
    shop.coupon("k1", K1, name="Ten off")
    shop.till.head_office.refresh()

    answer = shop.till.scan(text)

    assert (answer.kind, answer.id, answer.state, answer.member_id) == (ScanKind.COUPON, "k1", "ISSUED", "m1")
    assert (answer.title, answer.verdict) == ("Ten off", None)


def test_a_member_and_a_punch_card_are_found_by_their_ids(shop: Shop) -> None:
    shop.server.card("p1", "m1", "A", uses=3)
    shop.till.head_office.refresh()

    member, card = shop.till.scan("m1"), shop.till.scan("p1")

    assert (member.kind, member.title) == (ScanKind.MEMBER, "m1***")
    assert (card.kind, card.uses_left, card.service, card.title) == (ScanKind.PUNCH_CARD, 3, "A", "货A")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "unreadable_code"),
        ("'; DROP TABLE coupon; --", "unreadable_code"),
        ("9000000000000018", "unreadable_code"),
        ("x" * 513, "unreadable_code"),
        ("4006381333930", "unreadable_code"),
        (K2, "unknown_code"),
        ("NOSUCH", "unknown_code"),
        ("4006381333948", "unknown_code"),
    ],
)
def test_what_is_not_there_is_named_by_one_word(shop: Shop, text: str, expected: str) -> None:
    answer = shop.till.scan(text)

    assert (answer.kind, code(answer)) == (None, expected)


def test_offline_a_coupon_that_the_copy_lacks_may_exist_all_the_same(shop: Shop) -> None:
    shop.unplug()

    assert code(shop.till.scan(K2)) == "needs_online"
    assert code(shop.till.scan("NOSUCH")) == "unknown_code"


def test_offline_a_known_coupon_is_shown_and_needs_the_server(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.till.head_office.refresh()
    shop.unplug()

    answer = shop.till.scan(K1)

    assert (answer.kind, answer.state, code(answer)) == (ScanKind.COUPON, "ISSUED", "needs_online")


def test_offline_a_coupon_that_ran_out_is_expired_and_not_merely_offline(shop: Shop) -> None:
    shop.server.campaign("c", benefit={"type": "amount_off", "amount": "1.00"})
    shop.server.coupon("k1", K1, "c", until=NOON + timedelta(hours=1))
    shop.till.head_office.refresh()
    shop.unplug()

    shop.clock.pass_time(minutes=59)
    before = shop.till.scan(K1)
    shop.clock.pass_time(minutes=1)
    after = shop.till.scan(K1)

    assert (before.state, code(before)) == ("ISSUED", "needs_online")
    assert (after.state, code(after)) == ("EXPIRED", "expired")


def test_a_coupon_used_here_is_used_before_any_pull(shop: Shop) -> None:
    shop.coupon("k1", K1)
    shop.till.head_office.refresh()
    shop.sell("o1", "A", member="m1", use=["k1"])

    answer = shop.till.scan(K1)

    assert (answer.state, code(answer)) == ("USED", "already_used")
    assert answer.verdict is not None
    assert answer.verdict.facts["order"] == "o1"


def test_a_rule_that_this_version_does_not_know_says_so(shop: Shop) -> None:
    shop.coupon("k1", K1, benefit={"type": "moon_phase"})
    shop.till.head_office.refresh()

    answer = shop.till.scan(K1)

    assert (answer.kind, code(answer)) == (ScanKind.COUPON, "invalid_campaign")


def test_a_till_that_never_met_the_server_knows_nothing_and_says_so(tmp_path: object) -> None:
    from pathlib import Path

    shop = Shop(Path(str(tmp_path)) / "a")
    shop.close()
    shop.path = Path(str(tmp_path)) / "fresh.db"
    shop.cable.plugged = False
    shop.open()

    assert code(shop.till.scan("A")) == "needs_online"
    assert shop.till.chain() is None
    assert shop.till.status().offline_since is None
    shop.close()


def test_a_clock_that_was_turned_back_revives_no_coupon(shop: Shop) -> None:
    shop.server.campaign("c", benefit={"type": "amount_off", "amount": "1.00"})
    shop.server.coupon("k1", K1, "c", until=NOON)
    shop.till.head_office.refresh()
    shop.unplug()

    shop.clock.pass_time(hours=-3)

    assert shop.till.scan(K1).state == "EXPIRED"
