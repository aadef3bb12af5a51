"""Turn values into words for people: texts, amounts, times and refusals, in the language of the moment.

Plain Python. Every screen asks the one `Words` again when the language changes, so nothing keeps a translated text.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from enum import StrEnum

from app.domain.basket import MILLI, format_qty
from app.domain.money import Currency
from app.domain.ports import UnderWay
from app.domain.refusals import Refusal
from app.domain.rules import Rule
from resources.translations import load

# Where no sign is listed, the ISO letters stand before the amount.
_SIGNS = {"CNY": "¥", "JPY": "¥", "USD": "$", "EUR": "€", "GBP": "£", "HKD": "HK$", "TWD": "NT$", "MOP": "MOP$"}
_SHORT_ID_CHARS = 12


class Language(StrEnum):
    """List the languages of the screens, each named as the file of its texts."""

    ZH = "zh"
    EN = "en"

    @property
    def other(self) -> "Language":
        """Return the language that the switch leads to."""
        return Language.EN if self is Language.ZH else Language.ZH


@dataclass(frozen=True, slots=True)
class Name:
    """Hold what something is called in both languages; one of them may be ""."""

    chinese: str
    english: str


def campaign_name(rule: Rule, campaign_id: str) -> Name:
    """Return what a campaign is called; its id where it has no name."""
    return Name(rule.name or campaign_id, rule.name_en)


@dataclass(frozen=True, slots=True)
class Text:
    """Name a text of the screens and what fills its placeholders; put into words when it is shown."""

    key: str
    values: Mapping[str, object] = field(default_factory=dict)


Message = Text | Refusal
"""What a presenter has to say: a text of the screens, or a refusal."""


def tell(key: str, **values: object) -> Text:
    """Make a text with its values as keywords."""
    return Text(key, values)


@dataclass(frozen=True, slots=True)
class Sentence:
    """Say a refusal: `title` in two or three words for a badge, `text` in a sentence with its facts."""

    title: str
    text: str


class Words:
    """Speak one language at a time; `zone` is the store's, `currency` the chain's."""

    def __init__(self, language: Language, *, zone: tzinfo, currency: Currency) -> None:
        self._language = language
        self._texts = load(language)
        self._watchers: list[Callable[[], None]] = []
        self.zone, self.currency = zone, currency

    @property
    def language(self) -> Language:
        """Return the language spoken now."""
        return self._language

    def speak(self, language: Language) -> None:
        """Change the language and tell every watcher."""
        self._language, self._texts = language, load(language)
        for watcher in self._watchers:
            watcher()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` after each change of language; it lives as long as these words."""
        self._watchers.append(watcher)

    def text(self, key: str, **values: object) -> str:
        """Return the text of `key` with its placeholders filled; a key that is not there is our bug (KeyError).

        A value is written the way its name says: `_minor` as money, `_milli` as a quantity, `_at` as an instant.
        """
        shown = {name: self.value(name, value) for name, value in values.items()}
        return self._texts[key].format_map(shown) if shown else self._texts[key]

    def say(self, message: Message, *, names: Mapping[str, Name | str] | None = None) -> str:
        """Return the words of a message; one that carries a refusal says that."""
        if isinstance(message, Refusal):
            return self.refusal(message, names=names).text
        return self.text(message.key, **message.values)

    def text_or(self, key: str, fallback: str) -> str:
        """Return the text of `key`, or `fallback` for a name that a chain made up (a tier, say)."""
        return self._texts.get(key, fallback)

    def name(self, name: Name | str) -> str:
        """Choose the name of the language spoken, the other one where that is empty; a plain text stays as it is."""
        return name if isinstance(name, str) else self.pick(name.chinese, name.english)

    def pick(self, chinese: str, english: str) -> str:
        """Choose between two names of one thing: the other one where the language's own is empty."""
        return (chinese or english) if self._language is Language.ZH else (english or chinese)

    def money(self, minor: int) -> str:
        """Write an amount with its sign and thousands apart: `¥1,234.00`, `−¥5.00`."""
        digits = self.currency.format(abs(minor))
        whole, dot, fraction = digits.partition(".")
        sign = _SIGNS.get(self.currency.code, self.currency.code + " ")
        return f"{'−' if minor < 0 else ''}{sign}{int(whole):,}{dot}{fraction}"

    def qty(self, qty_milli: int, *, by_weight: bool = False) -> str:
        """Write a quantity: `2`, or `0.735 kg` for goods sold by weight."""
        if not by_weight:
            return format_qty(qty_milli)
        return self.text("unit.kg", qty=f"{qty_milli // MILLI}.{qty_milli % MILLI:03d}")

    def moment(self, at: datetime, *, now: datetime | None = None) -> str:
        """Write an instant in the store's zone, without the date when it is `now`'s, or without the same year."""
        local = at.astimezone(self.zone)
        today = now.astimezone(self.zone) if now is not None else None
        clock = f"{local:%H:%M}"
        if today is not None and local.date() == today.date():
            return clock
        key = "time.this_year" if today is not None and local.year == today.year else "time.full"
        month = self.text(f"time.month_{local.month}")
        return self.text(key, year=local.year, month=month, day=local.day, clock=clock)

    def clock(self, at: datetime) -> str:
        """Write the time of day in the store's zone."""
        return f"{at.astimezone(self.zone):%H:%M}"

    def work(self, work: UnderWay) -> str:
        """Write how far long work is: `Sending records: 200 / 2,340`."""
        return self.text(f"work.{work.step}", done=f"{work.done:,}", total=f"{work.total:,}")

    def tier(self, tier: str) -> str:
        """Write a member's tier; a chain may have tiers of its own names."""
        return self.text_or(f"tier.{tier}", tier)

    def refusal(self, refusal: Refusal, *, names: Mapping[str, Name | str] | None = None) -> Sentence:
        """Say a refusal by the most telling variant whose facts are all there.

        `names` maps ids of coupons, campaigns and cards to what people call them.
        """
        base = f"refusal.{refusal.code.value}."
        facts = {name: fact for name, fact in refusal.facts.items() if fact is not None and fact not in ("", [], ())}
        variants = [key[len(base) :] for key in self._texts if key.startswith(base)]
        fitting = [name for name in variants if name not in ("title", "plain") and set(name.split("+")) <= facts.keys()]
        best = max(fitting, key=lambda name: name.count("+"), default="plain")
        shown = {name: self.value(name, facts[name], names) for name in best.split("+") if best != "plain"}
        return Sentence(self._texts[base + "title"], self._texts[base + best].format_map(shown))

    def value(self, name: str, value: object, names: Mapping[str, Name | str] | None = None) -> str:
        """Write one value the way its name says (`app/domain/refusals.py`: names carry the unit)."""
        if isinstance(value, Name):
            return self.name(value)
        if name.endswith("_minor") and isinstance(value, int):
            return self.money(value)
        if name.endswith("_milli") and isinstance(value, int):
            return format_qty(value)
        if name == "at" or name.endswith("_at"):
            return self._instant(value)
        if name in ("state", "event", "kind", "field"):
            return self.text_or(f"{name}.{value}", str(value))
        if name in ("tier", "tiers"):
            return self.text("list.and").join(self.tier(str(tier)) for tier in _listed(value))
        if name in ("order", "refund_of", "with", "coupon", "campaign", "card"):
            return self.name((names or {}).get(str(value), short_id(str(value))))
        return self.text("list.and").join(
            self.name(part) if isinstance(part, Name) else str(part) for part in _listed(value)
        )

    def _instant(self, fact: object) -> str:
        if isinstance(fact, datetime):
            return self.moment(fact)
        if isinstance(fact, int):
            return self.moment(datetime.fromtimestamp(fact / 1000, tz=UTC))
        try:
            return self.moment(datetime.fromisoformat(str(fact)))
        except ValueError:
            return str(fact)


def _listed(fact: object) -> list[object]:
    return list(fact) if isinstance(fact, list | tuple | frozenset | set) else [fact]


def short_id(name: str) -> str:
    """Show an id as people can compare it: whole when it is short, else its last eight characters."""
    return name if len(name) <= _SHORT_ID_CHARS else "…" + name[-8:].upper()
