"""Draw what this till may do by itself: leases by their owners, coupons at home, the risk budget, the day's end."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.domain.rights import BUDGET, VALUE
from app.services.rights_view import OwnRight, RightsOfKind, RightsView
from ui import theme
from ui.counter.counter_presenter import CounterPresenter
from ui.widgets import GAP_PX, KeyButton, Label, VerdictStrip, emptied, rule, scrolled, surface
from ui.words import Name, Words

_ICONS = {"stock": "coupon", "budget": "best", "value": "stored_value", "uses": "punch"}
_MONEY = (BUDGET, VALUE)


class RightsPage(QWidget):
    """Draw `counter.rights.state`; holds widgets, decides nothing."""

    def __init__(self, counter: CounterPresenter, words: Words) -> None:
        super().__init__()
        self._counter, self._words = counter, words
        self.setObjectName("page")
        self._drawn: object = None
        self.title, self._intro = Label("title"), Label("muted", wrap=True)
        self.verdict = VerdictStrip(words)
        self.back = KeyButton(words, "rights.back", counter.back, icon="back", key="Esc")
        head = QHBoxLayout()
        head.setSpacing(12)
        head.addWidget(self.back)
        head.addWidget(self.title)
        head.addWidget(self._intro, 1)
        columns = QHBoxLayout()
        columns.setSpacing(12)
        columns.addWidget(self._leases(), 7)
        columns.addWidget(self._side(), 5)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(12, 12, 12, 10)
        whole.setSpacing(GAP_PX)
        whole.addLayout(head)
        whole.addWidget(self.verdict)
        whole.addLayout(columns, 1)

    def _leases(self) -> QWidget:
        frame, inside = surface()
        self._list = QVBoxLayout()
        self._list.setSpacing(4)
        inside.addWidget(scrolled(self._list), 1)
        return frame

    def _side(self) -> QWidget:
        frame, inside = surface()
        self._facts = QVBoxLayout()
        self._facts.setSpacing(2)
        inside.addWidget(scrolled(self._facts), 1)
        self.unfinished = KeyButton(
            self._words, "desk.unfinished", self._counter.open_interrupted, icon="warning", key="F11"
        )
        self.close_day = KeyButton(
            self._words, "rights.close_day", self._counter.rights.ask, icon="clock", key="F12", style="primary"
        )
        inside.addWidget(self.unfinished)
        inside.addWidget(self.close_day)
        return frame

    # ------------------------------------------------------------------ drawing

    def translate(self) -> None:
        """Say everything in the language of the moment."""
        for button in (self.back, self.unfinished, self.close_day):
            button.translate()
        self.title.setText(self._words.text("rights.title"))
        self._intro.setText(self._words.text("rights.intro"))
        self._drawn = None

    def draw(self) -> None:
        """Show the rights as they were read last."""
        state = self._counter.rights.state
        idle = (
            "rights.reading" if state.view is None else "rights.idle_closed" if state.view.day_closed else "rights.idle"
        )
        self.verdict.show_verdict(state.verdict, names={}, idle_key=idle)
        self.back.setEnabled(not state.busy)
        self.close_day.setEnabled(state.view is not None and not state.busy)
        unsettled = state.view is not None and bool(state.view.waiting_orders or state.view.unknown_payments)
        self.unfinished.setVisible(unsettled)
        self.unfinished.setEnabled(not state.busy)
        drawn = (state.view, self._words.language, self._words.currency, self._words.zone)
        if state.view is None or drawn == self._drawn:
            return
        self._drawn = drawn
        self._draw_leases(state.view)
        self._draw_side(state.view)

    def _draw_leases(self, view: RightsView) -> None:
        emptied(self._list)
        if not view.kinds:
            self._list.addWidget(self._label(self._words.text("rights.no_leases"), "muted"))
        for i, kind in enumerate(view.kinds):
            if i:
                self._list.addWidget(rule())
            self._list.addWidget(self._kind(kind))

    def _kind(self, kind: RightsOfKind) -> QWidget:
        words = self._words
        frame = QFrame()
        inside = QVBoxLayout(frame)
        inside.setContentsMargins(0, 4, 0, 6)
        inside.setSpacing(4)
        head = QHBoxLayout()
        picture = Label()
        picture.setPixmap(theme.pixmap(_ICONS[kind.kind], theme.TONES["notice"], size_px=28))
        head.addWidget(picture)
        head.addWidget(self._label(words.text(f"rights.kind_{kind.kind}"), "heading"), 1)
        head.addWidget(self._left(kind.kind, kind.left, kind.qty, style="heading"))
        inside.addLayout(head)
        for each in kind.rights:
            row = QHBoxLayout()
            row.addSpacing(34)
            row.addWidget(self._label(self._name(each)), 1)
            row.addWidget(self._left(kind.kind, each.left, each.qty, style=""))
            inside.addLayout(row)
        if kind.count > len(kind.rights):
            more = self._label(words.text("rights.more", count=kind.count - len(kind.rights)), "muted")
            more.setContentsMargins(34, 0, 0, 0)
            inside.addWidget(more)
        return frame

    def _name(self, each: OwnRight) -> str:
        title = self._words.name(Name(each.title, each.title_en))
        return "  ·  ".join(part for part in (each.owner, title) if part)

    def _left(self, kind: str, left: int, qty: int, *, style: str) -> Label:
        label = Label(style, align=Qt.AlignmentFlag.AlignRight)
        key = f"rights.left_{kind}"
        money = kind in _MONEY
        label.setText(
            self._words.text(key, left_minor=left, qty_minor=qty)
            if money
            else self._words.text(key, left=left, qty=qty)
        )
        return label

    def _draw_side(self, view: RightsView) -> None:
        words, homes, risk = self._words, view.homes, view.risk
        emptied(self._facts)
        self._fact("rights.homes", words.text("rights.homes_count", count=homes.count))
        if homes.next_until_at is not None:
            title = Name(homes.title, homes.title_en)
            self._say("rights.homes_next", until_at=homes.next_until_at, title=title)
        if homes.held:
            self._say("rights.homes_held", count=homes.held)
        self._part()
        if risk is None:
            self._fact("rights.risk", words.text("rights.no_risk"), style="amount")
        else:
            self._fact("rights.risk", words.text("rights.risk_left", left_minor=risk.left_minor))
            self._say("rights.risk_spent", limit_minor=risk.limit_minor, spent_minor=risk.spent_minor)
        self._part()
        self._facts.addWidget(self._label(words.text("rights.standing"), "heading"))
        if view.last_sync_at is None:
            self._say("rights.no_copy")
        else:
            self._say("rights.copy", synced_at=view.last_sync_at)
        self._say("rights.asked" if view.asked_count else "rights.not_asked", count=view.asked_count)
        if view.kept:
            self._say("rights.held", count=view.kept)
        if view.waiting_orders or view.unknown_payments:
            self._say("rights.open", orders=view.waiting_orders, payments=view.unknown_payments)

    def _part(self) -> None:
        self._facts.addSpacing(GAP_PX)
        self._facts.addWidget(rule())
        self._facts.addSpacing(GAP_PX)

    def _fact(self, heading_key: str, text: str, *, style: str = "large") -> None:
        self._facts.addWidget(self._label(self._words.text(heading_key), "heading"))
        self._facts.addWidget(self._label(text, style))

    def _say(self, key: str, **values: object) -> None:
        self._facts.addWidget(self._label(self._words.text(key, **values)))

    @staticmethod
    def _label(text: str, style: str = "") -> Label:
        label = Label(style, wrap=True)
        label.setText(text)
        return label
