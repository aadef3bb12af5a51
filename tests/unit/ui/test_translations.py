"""Every word is there in both languages, says the same facts, and is used; every refusal has its words."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from app.domain.money import Currency
from app.domain.ports import Step
from app.domain.refusals import Refusal, RefusalCode
from app.domain.rights import BUDGET, STOCK, USES, VALUE
from app.domain.states import VOCABULARIES
from app.domain.tenders import TenderType
from app.services.api import InterruptedKind
from app.services.ports import LineTrouble
from app.services.rights_view import DayStep
from app.store import errors
from resources.translations import LANGUAGES, load
from server.services.remedies import BOOKS, KINDS, LOSERS, remedy, words_of
from ui.words import Language, Words

ROOT = Path(__file__).parents[3]
FOLDERS = ("app", "server", "sync", "ui")

# Facts that are for programs and logs; a message never needs them.
NOT_FOR_PEOPLE = {
    "attempt",
    "currency",
    "reason",
    "snapshot",
    "request",
    "barcode",
    "sku",
    "key",
    "tenders",
    "given_stored_value_minor",
}


def placeholders(text: str) -> set[str]:
    return {name for _text, name, _spec, _conversion in string.Formatter().parse(text) if name}


def sources() -> list[Path]:
    return [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


def fact_sets() -> list[tuple[str, str, frozenset[str]]]:
    """Read every refusal that the source makes by keywords: where, its code, its facts."""
    found = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id not in ("refuse", "Refusal") or not node.args:
                continue
            code = node.args[0]
            if not (isinstance(code, ast.Attribute) and getattr(code.value, "id", "") == "RefusalCode"):
                continue
            names = {keyword.arg for keyword in node.keywords if keyword.arg}
            for value in [*node.args[1:], *(keyword.value for keyword in node.keywords if keyword.arg is None)]:
                if isinstance(value, ast.Dict):
                    names |= {key.value for key in value.keys if isinstance(key, ast.Constant)}
            found.append((f"{path.relative_to(ROOT)}:{node.lineno}", RefusalCode[code.attr].value, frozenset(names)))
    return found


def words(language: Language) -> Words:
    return Words(language, zone=ZoneInfo("Asia/Shanghai"), currency=Currency.of("CNY"))


def example(name: str) -> object:
    """Make a value as the fact's name says it is."""
    if name.endswith("_minor"):
        return 1250
    if name.endswith(("_milli", "_s")):
        return 2000
    if name == "at" or name.endswith("_at"):
        return "2026-07-30T06:05:00+00:00"
    return "x"


def test_both_languages_have_the_same_texts() -> None:
    zh, en = (load(language).keys() for language in LANGUAGES)

    assert zh == en


def test_both_languages_fill_the_same_placeholders() -> None:
    zh, en = (load(language) for language in LANGUAGES)

    different = [key for key in zh if placeholders(zh[key]) != placeholders(en[key])]

    assert different == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_is_empty(language: str) -> None:
    assert [key for key, text in load(language).items() if not text.strip()] == []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("code", RefusalCode)
def test_every_refusal_has_a_title_and_a_plain_sentence(code: RefusalCode, language: str) -> None:
    texts = load(language)

    assert f"refusal.{code.value}.title" in texts and f"refusal.{code.value}.plain" in texts
    assert not placeholders(texts[f"refusal.{code.value}.plain"])


def test_no_words_are_kept_for_a_refusal_that_does_not_exist() -> None:
    codes = {key.split(".")[1] for key in load("zh") if key.startswith("refusal.")}

    assert codes == {code.value for code in RefusalCode}


def test_a_sentence_is_named_by_exactly_the_facts_that_it_fills_in() -> None:
    # A named fact that is not filled in is a condition without which the sentence would be wrong.
    conditions = {
        "first_order",
        "whole",
        "tender",
        "best",
        "card",
        "order",
        "lines",
        "event",
        "max_terminal_tenders",
        "online",
    }
    wrong = []
    for key, text in load("en").items():
        if not key.startswith("refusal."):
            continue
        variant = key.split(".")[2]
        named = set() if variant in ("title", "plain") else set(variant.split("+"))
        if not placeholders(text) <= named or named - placeholders(text) - conditions:
            wrong.append(key)

    assert wrong == []


def test_the_source_makes_refusals_at_all() -> None:
    assert len(fact_sets()) > 60


@pytest.mark.parametrize("language", Language)
def test_every_refusal_that_the_source_makes_can_be_said(language: Language) -> None:
    for where, code, names in fact_sets():
        refusal = Refusal(RefusalCode(code), {name: example(name) for name in names})

        sentence = words(language).refusal(refusal)

        assert sentence.title and sentence.text and "{" not in sentence.text, where


def test_no_fact_for_people_is_left_unsaid() -> None:
    """A fact is said by the sentence chosen, or by none since it names only the thing on the screen itself."""
    known = {name for key in load("en") if key.startswith("refusal.") for name in key.split(".")[2].split("+")}
    # Names of the thing that the message is about stand beside it; those of the place and operator do too.
    beside = {"coupon", "campaign", "member", "id", "kind", "store", "state", "event", "line", "limit", "refund_of"}
    beside |= {"task", "account"}

    unsaid = [(where, names - known - NOT_FOR_PEOPLE - beside) for where, _code, names in fact_sets()]

    assert [entry for entry in unsaid if entry[1]] == []


def test_the_sentence_with_the_most_facts_is_chosen() -> None:
    facts = {"order": "o-17", "store": "old-town", "at": "2026-07-28T06:05:00+00:00", "coupon": "c1"}

    sentence = words(Language.EN).refusal(Refusal(RefusalCode.ALREADY_USED, facts))

    assert sentence.text == "This coupon was used on order o-17 at old-town, 28 Jul 2026 14:05."


def test_a_fact_that_is_none_or_empty_counts_as_missing() -> None:
    sentence = words(Language.EN).refusal(Refusal(RefusalCode.ALREADY_USED, {"order": None, "store": "", "at": None}))

    assert sentence.text == "This coupon was used before."


# ------------------------------------------------------------------ texts and their use


def used_keys() -> set[str]:
    """Collect every literal in `ui` and `cli` that looks like a key."""
    keys: set[str] = set()
    for path in [*(ROOT / "ui").rglob("*.py"), *(ROOT / "cli").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and re.fullmatch(r"[a-z_]+\.[a-z_0-9]+", text):
                keys.add(text)
    return keys


def composed_keys() -> set[str]:
    """List the keys that are put together from names: each from the set that those names come from."""
    states = {state for vocabulary in VOCABULARIES.values() for state in vocabulary.states}
    events = {event for vocabulary in VOCABULARIES.values() for event in vocabulary.events}
    keys = {f"tender_kind.{kind.value}" for kind in TenderType}
    keys |= {f"terminal.charge_{kind}" for kind in ("card", "wallet")}
    keys |= {f"interrupted.{kind.value}{part}" for kind in InterruptedKind for part in ("", "_title", "_button")}
    keys |= {f"entry.{what}_{part}" for what in ("quantity", "weight") for part in ("title", "hint")}
    keys |= {f"desk.column_{name}" for name in ("number", "goods", "quantity", "price", "discount", "net")}
    keys |= {f"time.month_{month}" for month in range(1, 13)}
    keys |= {f"cancel.{part}" for part in ("title", "text", "yes", "no")}
    keys |= {f"close_day.{part}" for part in ("title", "yes", "no")}
    keys |= {f"rights.{what}_{kind}" for what in ("kind", "left") for kind in (STOCK, BUDGET, VALUE, USES)}
    keys |= {f"rights.step_{step.value}" for step in DayStep}
    keys |= {f"line.{trouble}" for trouble in LineTrouble} | {f"work.{step}" for step in Step}
    keys |= {f"trouble.{kind.key}" for kind in errors.StoreError.__subclasses__()}
    keys |= {words_of(kind) for kind in (*KINDS, BOOKS)} | {f"loser.{loser}" for loser in LOSERS}
    keys |= {f"remedy.{remedy(kind).proposal}" for kind in (*KINDS, BOOKS)}
    keys |= {"issue.repeated"}  # in the file of a batch issue's failures
    keys |= {f"state.{state}" for state in states} | {f"event.{event}" for event in events}
    return keys


# Names that come in facts from anywhere: said where known, shown as they are where not.
OPEN_FAMILIES = ("kind.", "tier.", "event.", "field.", "state.")


def test_every_text_that_a_screen_asks_for_is_there() -> None:
    texts = load("zh").keys()
    families = {key.partition(".")[0] for key in texts}
    asked = {key for key in used_keys() if key.partition(".")[0] in families} | composed_keys()

    missing = {key for key in asked - texts if not key.endswith("_")} - {"entry.quantity", "entry.weight"}

    assert missing == set()


def test_no_text_lies_about_unused() -> None:
    used = used_keys() | composed_keys()

    unused = [key for key in load("zh") if key not in used and not key.startswith(("refusal.", *OPEN_FAMILIES))]

    assert unused == []
