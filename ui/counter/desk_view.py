"""Draw the desk: scan field, verdict, basket, member, totals, and a button with its key for everything."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from ui.counter.basket_table import BasketTable
from ui.counter.counter_presenter import CounterPresenter
from ui.counter.desk_state import DeskState
from ui.counter.member_panel import MemberPanel
from ui.widgets import GAP_PX, KeyButton, Label, VerdictStrip, code_field, rule, surface
from ui.words import Words

SIDE_PX = (340, 560)
"""Width of the member's side: the least and the most."""


class DeskView(QWidget):
    """Draw `counter.desk.state`; holds widgets, decides nothing."""

    def __init__(self, counter: CounterPresenter, words: Words, *, cancel: Callable[[], None]) -> None:
        super().__init__()
        self._counter, self._words, self._cancel = counter, words, cancel
        self.setObjectName("page")
        self.scan_field = code_field()
        self.scan_field.returnPressed.connect(self._entered)
        self.scan_field.installEventFilter(self)
        self.verdict = VerdictStrip(words, idle_icon="scan")
        self.risk = KeyButton(words, "desk.risk", counter.ask_manager, icon="warning", key="F6", style="kind")
        self.table = BasketTable(words)
        self.table.clicked.connect(lambda index: counter.desk.select(index.row() + 1))
        self.member = MemberPanel(counter.desk, words)
        self._buttons: list[KeyButton] = [self.risk]
        left = QVBoxLayout()
        left.setSpacing(GAP_PX)
        left.addWidget(self.scan_field)
        left.addWidget(self.verdict)
        left.addWidget(self.risk)
        left.addWidget(self.table, 1)
        left.addLayout(self._line_buttons())
        self._side = QWidget()
        side = QVBoxLayout(self._side)
        side.setContentsMargins(0, 0, 0, 0)
        side.setSpacing(GAP_PX)
        side.addWidget(self.member, 1)
        side.addWidget(self._totals())
        columns = QHBoxLayout()
        columns.setSpacing(12)
        columns.addLayout(left, 1)
        columns.addWidget(self._side)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(12, 12, 12, 10)
        whole.setSpacing(GAP_PX)
        whole.addLayout(columns, 1)
        whole.addLayout(self._function_keys())
        self.setFocusProxy(self.scan_field)

    def _line_buttons(self) -> QHBoxLayout:
        desk = self._counter.desk
        row = QHBoxLayout()
        row.setSpacing(GAP_PX)
        for key, pressed, icon, shortcut, shown in (
            ("desk.minus", lambda: desk.step(-1), None, None, "−"),
            ("desk.plus", lambda: desk.step(1), None, None, "+"),
            ("desk.quantity", desk.ask_quantity, "scale", "F3", None),
            ("desk.remove", desk.remove, "remove", "F4", None),
            ("desk.card", desk.cover_selected, "punch", "F5", None),
        ):
            row.addWidget(self._button(KeyButton(self._words, key, pressed, icon=icon, key=shortcut, shown_key=shown)))
        return row

    def _function_keys(self) -> QHBoxLayout:
        counter = self._counter
        row = QHBoxLayout()
        row.setSpacing(GAP_PX)
        self.unfinished = KeyButton(self._words, "desk.unfinished", counter.open_interrupted, icon="warning", key="F11")
        self.refund = KeyButton(self._words, "desk.refund", counter.open_refund, icon="refund", key="F7")
        for button in (
            KeyButton(self._words, "desk.rights", counter.open_rights, icon="till", key="F1"),
            KeyButton(self._words, "desk.best", counter.desk.best, icon="best", key="F2"),
            self.refund,
            KeyButton(self._words, "desk.last_receipt", counter.show_last, icon="receipt", key="F8"),
            KeyButton(self._words, "desk.language", self._switch, icon="language", key="F9"),
            KeyButton(self._words, "desk.cancel", self._cancel, icon="cancel", key="F10"),
            self.unfinished,
        ):
            row.addWidget(self._button(button))
        return row

    def _totals(self) -> QWidget:
        frame, inside = surface()
        grid = QGridLayout()
        grid.setVerticalSpacing(2)
        self._captions = {key: Label("muted") for key in ("desk.gross", "desk.discounts", "desk.payable")}
        right = Qt.AlignmentFlag.AlignRight
        self.gross, self.discounts = Label("amount", align=right), Label("savings", align=right)
        self.payable = Label("payable", align=right)
        for i, (caption, amount) in enumerate(
            zip(self._captions.values(), (self.gross, self.discounts, self.payable), strict=True)
        ):
            grid.addWidget(caption, i, 0)
            grid.addWidget(amount, i, 1)
        inside.addLayout(grid)
        inside.addWidget(rule())
        self.pay = KeyButton(self._words, "desk.pay", self._counter.pay, icon="cash", key="F12", style="primary")
        inside.addWidget(self._button(self.pay))
        return frame

    def _button(self, button: KeyButton) -> KeyButton:
        self._buttons.append(button)
        return button

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give the member's side its part of the width."""
        super().resizeEvent(event)
        least, most = SIDE_PX
        self._side.setFixedWidth(min(max(least, int(self.width() * 0.31)), most))

    # ------------------------------------------------------------------ input

    def _entered(self) -> None:
        text = self.scan_field.text()
        self.scan_field.clear()
        self._counter.scan(text)

    def _switch(self) -> None:
        self._words.speak(self._words.language.other)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Let the keys that mean a line act on the basket while the scan field is empty."""
        if watched is self.scan_field and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            return self._line_key(event)
        return False

    def _line_key(self, event: QKeyEvent) -> bool:
        desk = self._counter.desk
        if event.key() == Qt.Key.Key_Up:
            desk.select(desk.state.selected - 1)
        elif event.key() == Qt.Key.Key_Down:
            desk.select(desk.state.selected + 1)
        elif self.scan_field.text():
            return False
        elif event.text() == "+":
            desk.step(1)
        elif event.text() == "-":
            desk.step(-1)
        elif event.key() == Qt.Key.Key_Delete:
            desk.remove()
        else:
            return False
        return True

    # ------------------------------------------------------------------ drawing

    def translate(self) -> None:
        """Say everything in the language of the moment."""
        for button in self._buttons:
            button.translate()
        for key, caption in self._captions.items():
            caption.setText(self._words.text(key))
        self.scan_field.setPlaceholderText(self._words.text("desk.scan_hint"))
        self.table.basket.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, 5)

    def draw(self) -> None:
        """Show the desk as it is now."""
        state = self._counter.desk.state
        self.verdict.show_verdict(state.verdict, names=state.names, idle_key="desk.idle")
        self.table.show_state(state, self._words)
        self.member.draw(state)
        self._draw_totals(state)
        self.risk.setVisible(self._counter.approval.offered is not None)
        self.pay.setEnabled(self._counter.can_pay)
        self.refund.setEnabled(not self._counter.damaged)
        self.unfinished.setVisible(bool(self._counter.interrupted.state.items))

    def _draw_totals(self, state: DeskState) -> None:
        quote = state.quote
        gross_minor = quote.gross_minor if quote else 0
        discount_minor = quote.discount_minor if quote else 0
        self.gross.setText(self._words.money(gross_minor))
        self.discounts.setText(self._words.money(-discount_minor) if discount_minor else self._words.money(0))
        self.payable.setText(self._words.money(gross_minor - discount_minor) if state.fresh else "…")
