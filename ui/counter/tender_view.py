"""Draw the payment: what is due, what was given, what remains or goes back, and the ways to pay."""

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.domain.tenders import BY_TERMINAL, Tender, TenderType
from ui import theme
from ui.counter.counter_presenter import CounterPresenter
from ui.counter.tender_presenter import KINDS, QUICK_COUNT, TenderState
from ui.widgets import GAP_PX, KeyButton, Keypad, Label, VerdictStrip, code_field, emptied, rule, surface
from ui.words import Words

_KEYS = dict(zip(KINDS, ("F5", "F6", "F7", "F8"), strict=True))


class TenderView(QWidget):
    """Draw `counter.tender.state`; holds widgets, decides nothing."""

    def __init__(self, counter: CounterPresenter, words: Words) -> None:
        super().__init__()
        self._counter, self._words = counter, words
        self.setObjectName("page")
        self._buttons: list[KeyButton] = []
        self._drawn: object = None
        self.title, self.verdict = Label("title"), VerdictStrip(words)
        head = QHBoxLayout()
        self.back = self._button(KeyButton(words, "tender.back", counter.back, icon="back", key="Esc"))
        head.addWidget(self.back)
        head.addWidget(self.title)
        head.addSpacing(12)
        head.addWidget(self.verdict, 1)
        columns = QHBoxLayout()
        columns.setSpacing(12)
        columns.addWidget(self._amounts(), 5)
        columns.addWidget(self._ways(), 6)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(12, 12, 12, 10)
        whole.setSpacing(GAP_PX)
        whole.addLayout(head)
        whole.addLayout(columns, 1)
        self.setFocusProxy(self.amount)

    def _amounts(self) -> QWidget:
        frame, inside = surface()
        self._due_caption, self._left_caption = Label("muted"), Label("muted")
        self.due, self.remaining = Label("large"), Label("payable")
        self._given_caption = Label("heading")
        self._list = QVBoxLayout()
        for widget in (self._due_caption, self.due, rule(), self._given_caption):
            inside.addWidget(widget)
        inside.addLayout(self._list)
        inside.addStretch(1)
        inside.addWidget(rule())
        inside.addWidget(self._left_caption)
        inside.addWidget(self.remaining)
        self.finish = self._button(
            KeyButton(self._words, "tender.finish", self._finish, icon="accepted", key="F12", style="primary")
        )
        self.ask_again = self._button(
            KeyButton(self._words, "tender.ask_again", self._counter.tender.ask_again, icon="sync", key="F2")
        )
        inside.addWidget(self.ask_again)
        inside.addWidget(self.finish)
        return frame

    def _ways(self) -> QWidget:
        frame, inside = surface()
        self._amount_caption = Label("muted")
        self.amount = code_field("entry")
        self.amount.setMaxLength(16)
        self.amount.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.amount.returnPressed.connect(self._entered)
        inside.addWidget(self._amount_caption)
        inside.addWidget(self.amount)
        kinds = QGridLayout()
        kinds.setSpacing(GAP_PX)
        self.kinds: dict[TenderType, KeyButton] = {}
        for i, kind in enumerate(KINDS):
            button = KeyButton(
                self._words,
                f"tender_kind.{kind.value}",
                partial(self._add, kind),
                icon=kind.value,
                key=_KEYS[kind],
                style="kind",
            )
            self.kinds[kind] = self._button(button)
            kinds.addWidget(button, i // 2, i % 2)
        inside.addLayout(kinds)
        self._quick_caption = Label("muted")
        inside.addWidget(self._quick_caption)
        quick = QHBoxLayout()
        quick.setSpacing(GAP_PX)
        self.quick = [self._quick_button(i) for i in range(QUICK_COUNT)]
        for offer in self.quick:
            quick.addWidget(offer)
        inside.addLayout(quick)
        inside.addStretch(1)
        self.keypad = Keypad(self.amount)
        inside.addWidget(self.keypad)
        return frame

    def _quick_button(self, place: int) -> QPushButton:
        button = QPushButton()
        button.setObjectName("quick")
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(lambda _checked: self._quick(place))
        button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        return button

    def _button(self, button: KeyButton) -> KeyButton:
        self._buttons.append(button)
        return button

    # ------------------------------------------------------------------ input

    def _add(self, kind: TenderType) -> None:
        wrong = self._counter.tender.add(kind, self.amount.text()) is not None
        self._mark(wrong=wrong)
        if not wrong:
            self.amount.clear()

    def _entered(self) -> None:
        """Let Enter take a typed amount as cash, and finish when nothing was typed and nothing remains."""
        state = self._counter.tender.state
        if self.amount.text().strip() or (state is not None and not state.complete):
            self._add(TenderType.CASH)
        else:
            self._finish()

    def _quick(self, place: int) -> None:
        state = self._counter.tender.state
        if state is not None and place < len(state.quick_minor):
            self._counter.tender.add(TenderType.CASH, self._counter.chain.currency.format(state.quick_minor[place]))
            self.amount.clear()

    def _finish(self) -> None:
        self._counter.tender.finish()

    def _mark(self, *, wrong: bool) -> None:
        self.amount.setProperty("wrong", wrong)
        self.amount.style().polish(self.amount)

    # ------------------------------------------------------------------ drawing

    def showEvent(self, event: QShowEvent) -> None:
        """Start with no amount: one that was typed and never given belongs to the payment before."""
        if not event.spontaneous():
            self.amount.clear()
            self._mark(wrong=False)
        super().showEvent(event)

    def translate(self) -> None:
        """Say everything in the language of the moment."""
        for button in self._buttons:
            button.translate()
        for label, key in (
            (self.title, "tender.title"),
            (self._due_caption, "tender.due"),
            (self._given_caption, "tender.given"),
            (self._amount_caption, "tender.amount_hint"),
            (self._quick_caption, "tender.quick"),
        ):
            label.setText(self._words.text(key))
        self._drawn = None

    def draw(self) -> None:
        """Show the payment as it is now."""
        state = self._counter.tender.state
        if state is None:
            return
        self.verdict.show_verdict(state.verdict, names=self._counter.desk.state.names, idle_key="tender.idle")
        self.due.setText(self._words.money(state.payable_minor))
        self._draw_rest(state)
        idle = not state.busy and state.pending is None
        self.back.setEnabled(not state.busy)
        self._name_back(pending=state.pending is not None)
        self.finish.setVisible(state.pending is None)
        self.finish.setEnabled(idle and state.complete)
        self.ask_again.setVisible(state.pending is not None)
        self.ask_again.setEnabled(not state.busy)
        self.amount.setReadOnly(not idle)  # not disabled: that would send the focus to a button
        self.keypad.setEnabled(idle)
        self._draw_kinds(state, idle=idle)
        drawn = (state.tenders, idle, self._words.language)
        if drawn != self._drawn:
            self._drawn = drawn
            emptied(self._list)
            for tender in state.tenders:
                self._list.addWidget(self._given(tender, idle=idle))

    def _name_back(self, *, pending: bool) -> None:
        """Call the way back what it is: the basket again, or the next customer while a payment stays unknown."""
        key = "tender.leave" if pending else "tender.back"
        if self.back.text_key != key:
            self.back.text_key = key
            self.back.translate()

    def _draw_rest(self, state: TenderState) -> None:
        key, amount_minor = "tender.remaining", state.remaining_minor
        if state.pending is not None:
            # No change may be given for a payment that perhaps never came.
            key, amount_minor = "tender.unknown", state.pending.amount_minor
        elif state.complete:
            key, amount_minor = "tender.change", state.change_minor
        self._left_caption.setText(self._words.text(key))
        self.remaining.setText(self._words.money(amount_minor))

    def _draw_kinds(self, state: TenderState, *, idle: bool) -> None:
        online = self._counter.status.online
        taken = {tender.type for tender in state.tenders} & BY_TERMINAL
        for kind, button in self.kinds.items():
            able = idle and not state.complete
            if kind in BY_TERMINAL:
                able = able and not taken - {kind}
            if kind is TenderType.STORED_VALUE:
                able = able and online and state.balance_minor > 0
                button.setToolTip("" if online else self._words.text("tender.stored_value_offline"))
            button.setEnabled(able)
        for i, offer in enumerate(self.quick):
            there = i < len(state.quick_minor)
            offer.setVisible(there)
            offer.setEnabled(idle)
            if there:
                offer.setText(self._words.money(state.quick_minor[i]))
        self._quick_caption.setVisible(bool(state.quick_minor))

    def _given(self, tender: Tender, *, idle: bool) -> QFrame:
        row = QFrame()
        inside = QHBoxLayout(row)
        inside.setContentsMargins(0, 0, 0, 0)
        picture = QLabel()
        picture.setPixmap(theme.pixmap(tender.type.value))
        name, amount = Label("amount"), Label("amount", align=Qt.AlignmentFlag.AlignRight)
        name.setText(self._words.text(f"tender_kind.{tender.type.value}"))
        amount.setText(self._words.money(tender.amount_minor))
        off = KeyButton(self._words, "tender.remove", lambda: self._counter.tender.remove(tender.type), icon="remove")
        off.setEnabled(idle)
        inside.addWidget(picture)
        inside.addWidget(name, 1)
        inside.addWidget(amount)
        inside.addWidget(off)
        return row
