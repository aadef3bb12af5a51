"""Values are written for people: amounts, weights, instants, names, in the language of the moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from app.domain.money import Currency
from app.domain.refusals import RefusalCode, refuse
from ui.words import Language, Name, Words, short_id, tell

NOW = datetime(2026, 7, 30, 6, 5, tzinfo=UTC)


def words(language: Language = Language.EN, currency: str = "CNY") -> Words:
    return Words(language, zone=ZoneInfo("Asia/Shanghai"), currency=Currency.of(currency))


def test_a_refund_without_an_answer_is_not_said_in_the_words_of_a_sale() -> None:
    refusal = refuse(RefusalCode.NEEDS_ONLINE, refund_of="R9-1-4", request="r1")

    assert words().refusal(refusal).text.startswith("Head office must say what order R9-1-4 may give back")
    assert words(Language.ZH).refusal(refusal).text.startswith("订单 R9-1-4 能退多少要由总部确认")


@pytest.mark.parametrize(
    ("minor", "currency", "text"),
    [
        (0, "CNY", "¥0.00"),
        (123456, "CNY", "¥1,234.56"),
        (-500, "CNY", "−¥5.00"),
        (-5, "CNY", "−¥0.05"),
        (123456, "JPY", "¥123,456"),
        (1234567, "KWD", "KWD 1,234.567"),
        (10**12, "CNY", "¥10,000,000,000.00"),
    ],
)
def test_amounts_have_their_sign_and_thousands_apart(minor: int, currency: str, text: str) -> None:
    assert words(currency=currency).money(minor) == text


@pytest.mark.parametrize(
    ("milli", "by_weight", "text"),
    [(2000, False, "2"), (735, True, "0.735 kg"), (1000, True, "1.000 kg"), (2500, False, "2.5")],
)
def test_weights_have_three_decimals_and_pieces_none(milli: int, by_weight: bool, text: str) -> None:
    assert words().qty(milli, by_weight=by_weight) == text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (NOW - timedelta(hours=14), "00:05"),
        (NOW - timedelta(hours=14, minutes=6), "29 Jul 23:59"),
        (NOW - timedelta(days=365), "30 Jul 2025 14:05"),
    ],
)
def test_an_instant_leaves_out_what_is_the_same_today(at: datetime, text: str) -> None:
    assert words().moment(at, now=NOW) == text


def test_an_instant_is_written_in_the_stores_zone() -> None:
    assert words(Language.ZH).moment(NOW) == "2026年7月30日 14:05"


@pytest.mark.parametrize(
    ("language", "name", "text"),
    [
        (Language.ZH, Name("猫粮", "Cat food"), "猫粮"),
        (Language.EN, Name("猫粮", "Cat food"), "Cat food"),
        (Language.EN, Name("猫粮", ""), "猫粮"),
        (Language.ZH, Name("", "Cat food"), "Cat food"),
    ],
)
def test_a_name_falls_back_to_the_other_language(language: Language, name: Name, text: str) -> None:
    assert words(language).name(name) == text


def test_every_watcher_hears_of_a_new_language() -> None:
    spoken, heard = words(Language.ZH), []
    spoken.watch(lambda: heard.append(spoken.text("desk.pay")))

    spoken.speak(Language.EN)

    assert heard == ["Pay"]


def test_a_refusal_calls_the_other_coupon_by_its_name() -> None:
    refusal = refuse(RefusalCode.NOT_STACKABLE, **{"with": "c-17"})

    sentence = words().refusal(refusal, names={"c-17": "Food: 50 off"})

    assert sentence.text == 'It does not go together with "Food: 50 off".'


def test_a_name_with_braces_is_no_placeholder() -> None:
    said = words().say(tell("verdict.best", names=["{saves_minor} {0}"], saves_minor=100))

    assert "{saves_minor} {0}" in said


def test_a_chains_own_tier_is_shown_as_it_is() -> None:
    assert words().tier("platinum") == "platinum"


def test_a_long_id_is_shown_by_its_end() -> None:
    assert short_id("0190f3a2b4c57d1e8f90a1b2c3d4e5f6") == "…C3D4E5F6"
    assert short_id("R1-1-42") == "R1-1-42"
