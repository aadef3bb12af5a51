"""Draw a refund: the order's number, its lines with what may still come back, what that gives, the result."""

from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QVBoxLayout, QWidget

from app.domain.refunds import Refund
from ui.counter.counter_presenter import CounterPresenter
from ui.counter.refund_presenter import RefundRow, RefundState
from ui.widgets import GAP_PX, KeyButton, Label, VerdictStrip, code_field, emptied, rule, scrolled, surface
from ui.words import Words

BACK_PX = 96


@dataclass(frozen=True, slots=True)
class _RowWidgets:
    """Hold the widgets of one row that change."""

    facts: Label
    field: QLineEdit
    less: KeyButton
    more: KeyButton


class RefundView(QWidget):
    """Draw `counter.refund.state`; holds widgets, decides nothing."""

    def __init__(self, counter: CounterPresenter, words: Words) -> None:
        super().__init__()
        self._counter, self._words = counter, words
        self.setObjectName("page")
        self._drawn: object = None
        self._made: object = None
        self._rows: dict[int, _RowWidgets] = {}
        self.fields: dict[int, QLineEdit] = {}
        self.title, self.verdict = Label("title"), VerdictStrip(words, idle_icon="scan")
        self.back = KeyButton(words, "refund.back", counter.back, icon="back", key="Esc")
        self.number = code_field()
        self.number.returnPressed.connect(self._look_up)
        self.look = KeyButton(words, "refund.look", self._look_up, icon="scan", shown_key="Enter")
        head = QHBoxLayout()
        head.addWidget(self.back)
        head.addWidget(self.title)
        head.addWidget(self.number, 1)
        head.addWidget(self.look)
        columns = QHBoxLayout()
        columns.setSpacing(12)
        columns.addWidget(self._lines(), 7)
        columns.addWidget(self._gives(), 5)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(12, 12, 12, 10)
        whole.setSpacing(GAP_PX)
        whole.addLayout(head)
        whole.addWidget(self.verdict)
        whole.addLayout(columns, 1)
        self.setFocusProxy(self.number)

    def _lines(self) -> QWidget:
        frame, inside = surface()
        self._lines_caption = Label("heading")
        refund = self._counter.refund
        self.all = KeyButton(self._words, "refund.all", refund.choose_all, icon="plus", key="F2")
        self.none = KeyButton(self._words, "refund.none", refund.choose_none, icon="erase", key="F3")
        head = QHBoxLayout()
        head.addWidget(self._lines_caption, 1)
        head.addWidget(self.all)
        head.addWidget(self.none)
        inside.addLayout(head)
        self._list = QVBoxLayout()
        self._list.setSpacing(2)
        inside.addWidget(scrolled(self._list), 1)
        return frame

    def _gives(self) -> QWidget:
        frame, inside = surface()
        self._gives_caption, self.amount = Label("heading"), Label("payable")
        self._details = QVBoxLayout()
        inside.addWidget(self._gives_caption)
        inside.addWidget(self.amount)
        inside.addLayout(self._details)
        inside.addStretch(1)
        self.confirm = KeyButton(
            self._words, "refund.confirm", self._counter.refund.confirm, icon="refund", key="F12", style="primary"
        )
        inside.addWidget(self.confirm)
        return frame

    def _look_up(self) -> None:
        self._counter.refund.look_up(self.number.text())

    def _entered(self, number: int) -> None:
        field = self.fields[number]
        refusal = self._counter.refund.enter(number, field.text())
        field.setProperty("wrong", refusal is not None)
        field.style().polish(field)

    # ------------------------------------------------------------------ drawing

    def showEvent(self, event: QShowEvent) -> None:
        """Start with no number; `draw` clears none, for it comes each second, also while somebody types."""
        if not event.spontaneous():
            self.number.clear()
        super().showEvent(event)

    def translate(self) -> None:
        """Say everything in the language of the moment."""
        for button in (self.back, self.look, self.all, self.none, self.confirm):
            button.translate()
        self.title.setText(self._words.text("refund.title"))
        self.number.setPlaceholderText(self._words.text("refund.number_hint"))
        self._lines_caption.setText(self._words.text("refund.lines"))
        self._drawn = None

    def draw(self) -> None:
        """Show the refund as it is now."""
        state = self._counter.refund.state
        self.verdict.show_verdict(state.verdict, names=state.names, idle_key="refund.idle")
        choosing = state.order is not None and state.done is None and not state.busy
        self.number.setReadOnly(state.busy)  # not disabled: that would send the focus to a button
        for button in (self.all, self.none):
            button.setEnabled(choosing)
        self.back.setEnabled(not state.busy)
        self.confirm.setEnabled(state.confirmable)
        drawn = (state.rows, state.preview, state.done, choosing, self._words.language)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        self._draw_rows(state, choosing=choosing)
        self._draw_gives(state)

    def _draw_rows(self, state: RefundState, *, choosing: bool) -> None:
        """Make the rows of an order once, then only change what they show: the focus stays where the cashier is."""
        made = (self._words.language, tuple((row.number, row.sku) for row in state.rows))
        if made != self._made:
            self._made = made
            emptied(self._list)
            self._rows = {row.number: self._row(row) for row in state.rows}
            self.fields = {number: widgets.field for number, widgets in self._rows.items()}
        for row in state.rows:
            self._fill(self._rows[row.number], row, choosing=choosing)

    def _fill(self, widgets: _RowWidgets, row: RefundRow, *, choosing: bool) -> None:
        sold = self._words.qty(row.sold_milli, by_weight=row.by_weight)
        left = self._words.qty(row.left_milli, by_weight=row.by_weight)
        widgets.facts.setText(self._words.text("refund.sold_and_left", sold=sold, left=left))
        widgets.field.setText(self._words.qty(row.back_milli))
        widgets.less.setEnabled(choosing and row.back_milli > 0)
        widgets.more.setEnabled(choosing and row.back_milli < row.left_milli)
        widgets.field.setReadOnly(not (choosing and row.left_milli > 0))

    def _row(self, row: RefundRow) -> _RowWidgets:
        frame = QFrame()
        inside = QHBoxLayout(frame)
        inside.setContentsMargins(0, 4, 0, 4)
        texts = QVBoxLayout()
        texts.setSpacing(0)
        name, facts = Label(wrap=True), Label("muted")
        name.setText(f"{row.number}  {self._words.name(row.name)}")
        texts.addWidget(name)
        texts.addWidget(facts)
        inside.addLayout(texts, 1)
        step = self._counter.refund.step
        less = KeyButton(self._words, "refund.less", partial(step, row.number, -1), icon="minus")
        more = KeyButton(self._words, "refund.more", partial(step, row.number, 1), icon="plus")
        field = code_field()
        field.setMaxLength(12)
        field.setFixedWidth(BACK_PX)
        field.setAlignment(Qt.AlignmentFlag.AlignRight)
        field.returnPressed.connect(partial(self._entered, row.number))
        for widget in (less, field, more):
            inside.addWidget(widget)
        self._list.addWidget(frame)
        self._list.addWidget(rule())
        return _RowWidgets(facts, field, less, more=more)

    def _draw_gives(self, state: RefundState) -> None:
        emptied(self._details)
        given = state.done.refund if state.done is not None else state.preview
        self._gives_caption.setText(self._words.text("refund.gave" if state.done else "refund.gives"))
        if not isinstance(given, Refund):
            self.amount.setText("–")
            return
        self.amount.setText(self._words.money(given.amount_minor))
        for text in self._facts(given, state):
            label = Label("amount", wrap=True)
            label.setText(text)
            self._details.addWidget(label)

    def _facts(self, given: Refund, state: RefundState) -> list[str]:
        words = self._words
        facts = [
            f"{words.text(f'tender_kind.{tender.type.value}')}  {words.money(tender.amount_minor)}"
            for tender in given.tenders
        ]
        after = state.done.uses_after if state.done else {}
        for card, uses in given.uses.items():
            facts.append(words.text("refund.uses_back", card=card, uses=uses))
            if card in after:
                facts.append(words.text("refund.uses_now", card=card, uses=after[card]))
        for coupon in given.returned:
            facts.append(words.text("refund.coupon_back", title=state.names.get(coupon, coupon)))
        if given.whole:
            facts.append(words.text("refund.whole"))
        return facts
