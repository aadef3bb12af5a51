"""Whatever is in a scenario file, it is understood whole or every problem in it is named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from server.scenario.reading import Scenario, Unreadable, read_file, read_text
from server.scenario.steps import Claim, Quote

GIVEN = Path(__file__).parents[2] / "scenarios" / "given"
HEAD = 'title = "a"\n'


def problems(text: str) -> str:
    """Return what the reader says about a file that it refuses."""
    with pytest.raises(Unreadable) as caught:
        read_text(text)
    return "; ".join(caught.value.problems)


@pytest.mark.parametrize("path", sorted(GIVEN.glob("*.toml")), ids=lambda path: path.stem)
def test_every_given_file_is_understood(path: Path) -> None:
    assert read_file(path).steps


def test_what_a_file_leaves_out_has_its_default() -> None:
    world = read_text(HEAD).world

    assert world.start == datetime(2026, 6, 1, 2, tzinfo=UTC)
    assert (world.chain.currency, world.chain.timezone, world.chain.cash_rounding) == ("CNY", "Asia/Shanghai", 0)
    assert world.chain.lock_timeout == timedelta(minutes=15)
    assert [store.id for store in world.store] == ["s1"]
    assert [till.id for till in world.till] == ["t1"]


def test_a_step_is_read_with_its_time_its_arguments_and_its_expectation() -> None:
    steps = read_text(
        HEAD
        + """
[[step]]
do = "claim"
campaign = "c1"
member = "m1"
as = "k1"
at = "+10m"
expect = {remaining = 3}
[[step]]
do = "quote"
lines = [{sku = "A", qty = 2}, {sku = "B", qty = "0.735"}]
at = 2026-06-02T00:00:00+08:00
"""
    ).steps

    claim, quote = steps[0].args, steps[1].args
    assert isinstance(claim, Claim) and (claim.campaign, claim.name, claim.till) == ("c1", "k1", None)
    assert isinstance(quote, Quote) and [line.qty for line in quote.lines] == ["2", "0.735"]
    assert steps[0].at == timedelta(minutes=10) and steps[1].at == datetime(2026, 6, 1, 16, tzinfo=UTC)
    assert steps[0].expect is not None and steps[0].expect.outcome == "ok" and steps[1].expect is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "title: is missing"),
        (HEAD + "[universe]\nage = 1", "universe: is not known"),
        (HEAD + "colour = 1", "colour: is not known"),
        (HEAD + "version = 2", "version"),
        (HEAD + '[[product]]\nsku = "A"\nprice = "1.00"\nweight = 3', "product.1.weight: is not known"),
        (HEAD + '[[product]]\nsku = "A"', "product.1.price: is missing"),
        (HEAD + '[[campaign]]\nid = "c"\nstock = 1', "campaign c: benefit: is missing"),
        (HEAD + '[[campaign]]\nid = "c"\nbenefit = {type = "gift"}', "campaign c: benefit.type"),
        (HEAD + '[[campaign]]\nid = "c"\nbenefit = {type = "amount_off", amount = "1.00", per = 3}', "benefit.per"),
        (
            HEAD + '[[campaign]]\nid = "c"\nbenefit = {type = "amount_off", amount = "1.00"}\nmin_spent = "1.00"',
            "campaign c: min_spent: is not known",
        ),
        (
            HEAD
            + '[[campaign]]\nid = "c"\nbenefit = {type = "amount_off", amount = "1.00"}\n'
            + 'scope = {include = {colours = ["red"]}}',
            "scope.include.colours: is not known",
        ),
        (HEAD + '[[step]]\ndo = "fly"', "'fly' is not known"),
        (HEAD + '[[step]]\ncampaign = "c"', "step 1: do is missing"),
        (HEAD + '[[step]]\ndo = "claim"\ncampaign = "c"', "step 1 (claim): member: is missing"),
        (HEAD + '[[step]]\ndo = "jobs"\nnow = true', "step 1 (jobs): now: is not known"),
        (HEAD + '[[step]]\ndo = "quote"\nlines = [{sku = "A", qty = 1, price = 3}]', "lines.1.price: is not known"),
        (HEAD + '[[step]]\ndo = "jobs"\nexpect = {repairs = 1}', "step 1 (jobs): expect.repairs: is not known"),
        (HEAD + '[[step]]\ndo = "check"\nexpect = {stock = {c = {left = 1}}}', "expect.stock.c.left: is not known"),
        (HEAD + '[[step]]\ndo = "jobs"\nexpect = {outcome = "nope"}', "nope is no outcome"),
        (HEAD + '[[step]]\ndo = "campaign"\nid = "c"\naction = "launch"', "action"),
        (HEAD + '[[step]]\ndo = "campaign"\nid = "c"\naction = "edit"\nset = {colour = 1}', "set.colour: is not known"),
        (HEAD + '[[step]]\ndo = "sync"\ntill = "t9"', "there is no till t9"),
        (HEAD + '[[step]]\ndo = "crash"\nwhat = "printer"', "printer is no part"),
    ],
)
def test_what_is_not_known_is_named(text: str, name: str) -> None:
    assert name in problems(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("title = 3", "title"),
        (HEAD + "start = 2026-06-01T10:00:00", "start: must be a date-time with an offset"),
        (HEAD + 'start = "2026-06-01T10:00:00+08:00"', "start"),
        (HEAD + "chain = 3", "chain"),
        (HEAD + "[product]", "product"),
        (HEAD + '[step]\ndo = "jobs"', "[[step]]"),
        (HEAD + "step = [1]", "step 1: must be a table"),
        (HEAD + '[chain]\ntimezone = "Mars/North"', "Mars/North"),
        (HEAD + '[chain]\nlock_timeout = "15"', "chain.lock_timeout"),
        (HEAD + "[chain]\nlock_timeout = 15", "chain.lock_timeout"),
        (HEAD + '[[product]]\nsku = "A"\nprice = 1.5', "product.1.price"),
        (HEAD + '[[product]]\nsku = "A"\nprice = "1.555"', "product.1.price"),
        (HEAD + '[[product]]\nsku = "A"\nprice = "-1.00"', "product.1.price"),
        (HEAD + '[chain]\ncurrency = "JPY"\n[[product]]\nsku = "A"\nprice = "1.50"', "product.1.price"),
        (HEAD + '[[product]]\nsku = "A"\nprice = "1.00"\nby_weight = 1', "product.1.by_weight"),
        (HEAD + '[[campaign]]\nid = "c"\nbenefit = {type = "amount_off", amount = 5}', "campaign c: benefit.amount"),
        (
            HEAD + '[[campaign]]\nid = "c"\nbenefit = {type = "amount_off", amount = "5.00"}\nstock = "many"',
            "campaign.1.stock",
        ),
        (
            HEAD + '[[campaign]]\nid = "c"\nbenefit = {type = "amount_off", amount = "5.00"}\nuntil = 2026-07-01',
            "campaign c",
        ),
        (HEAD + '[[step]]\ndo = "quote"\nlines = [{sku = "A", qty = 0.735}]', "lines.1.qty"),
        (HEAD + '[[step]]\ndo = "quote"\nlines = [{sku = "A", qty = true}]', "lines.1.qty"),
        (HEAD + '[[step]]\ndo = "wait"\nfor = "soon"', "step 1 (wait): for"),
        (HEAD + '[[step]]\ndo = "skew"\nby = "2h"', "step 1 (skew): by"),
        (HEAD + '[[step]]\ndo = "jobs"\nat = "10m"', "step 1 (jobs): at"),
        (HEAD + '[[step]]\ndo = "check"\nexpect = {balance = {m = 3}}', "expect.balance.m"),
        (HEAD + '[[step]]\ndo = "refund"\norder = "o"', "name lines or all"),
        (HEAD + '[[step]]\ndo = "jobs"\nexpect = 3', "step 1 (jobs): expect"),
        (HEAD + '[[store]]\nid = "s1"\n[[store]]\nid = "s1"', "store s1 is there twice"),
        (HEAD + '[[till]]\nid = "t1"\nstore = "s9"', "there is no store s9"),
        (HEAD + '[[punch_card]]\nid = "p"\nmember = "m"\nservice = "W"\nuses = 1', "there is no member m"),
        (HEAD + '[[step]]\ndo = "jobs"\nat = 2026-05-01T00:00:00Z', "before the step before it"),
        (HEAD + '[[member]]\nid = "m 1"', "member.1.id: must have no blanks"),
        (HEAD + '[[step]]\ndo = "cancel"\norder = "o/1"', "step 1 (cancel): order: must have no blanks"),
        (HEAD + "x = ", "is no TOML"),
        (HEAD + "x = " + "[" * 5000, "is no TOML"),
        (HEAD + "x = " + "9" * 5000, "is no TOML"),
    ],
)
def test_what_has_the_wrong_shape_is_named(text: str, name: str) -> None:
    assert name in problems(text)


def test_all_problems_of_a_file_are_named_at_once() -> None:
    text = HEAD + '[universe]\n[[step]]\ndo = "fly"\n[[step]]\ndo = "jobs"\nnow = 1\nexpect = {x = 1, y = 2}'

    for name in ("universe", "'fly'", "now", "expect.x", "expect.y"):
        assert name in problems(text)


def test_a_step_may_want_to_see_a_senseless_edit_refused() -> None:
    text = (
        '[[step]]\ndo = "campaign"\nid = "c"\naction = "edit"\nset = {colour = 1}\n'
        'expect = {outcome = "invalid_campaign"}'
    )

    assert isinstance(read_text(HEAD + text), Scenario)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")

    for path, word in ((tmp_path / "none.toml", "cannot be read"), (binary, "UTF-8")):
        with pytest.raises(Unreadable, match=word):
            read_file(path)
