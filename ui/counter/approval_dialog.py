"""Ask a manager to take a coupon at a risk: what it may cost, who approves, why, and the PIN."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QGridLayout, QHBoxLayout, QLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.domain.pins import LENGTH_MAX
from ui import theme
from ui.counter.approval_presenter import REASONS, ApprovalPresenter, ApprovalState
from ui.widgets import GAP_PX, KeyButton, Keypad, Label, code_field, scrolled
from ui.words import Words

ABOUT_PX, PIN_PX = 470, 280
WRONG_PX = 104
"""Four lines: nothing moves when something is wrong."""
SHORT_CHARS, LONG_CHARS = 16, 36
"""Names up to the first stand two in a row; beyond the second they are cut, and whole in their tip."""
ROWS_SHOWN, ROW_PX = 3, 60
"""Of them; more are found by scrolling, so that the dialog fits the smallest screen."""


class ApprovalDialog(QDialog):
    """Show the question of `approval.state`; the PIN is cleared with every answer."""

    def __init__(self, approval: ApprovalPresenter, words: Words, *, parent: QWidget) -> None:
        super().__init__(parent)
        assert approval.state is not None, "there is a question to show"
        self._approval, self._words, self._tries = approval, words, 0
        self._drawn: ApprovalState | None = None
        self._chosen, self._other = theme.icon("accepted", theme.TONES["notice"]), theme.icon("person")
        self.setWindowTitle(words.text("approval.title"))
        self.who: dict[str, QPushButton] = {}
        self.reason = QLineEdit()
        self.reason.setMaxLength(200)
        self.reason.setPlaceholderText(words.text("approval.reason_hint"))
        self.pin = code_field("entry")
        self.pin.setMaxLength(LENGTH_MAX)
        self.pin.setEchoMode(QLineEdit.EchoMode.Password)
        self.pin.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.pin.returnPressed.connect(self._take)
        self.wrong = Label("verdictText", wrap=True, align=Qt.AlignmentFlag.AlignHCenter)
        self.wrong.setMinimumHeight(WRONG_PX)
        self.ok = KeyButton(words, "approval.ok", self._take, icon="accepted", shown_key="Enter", style="primary")
        self.off = KeyButton(words, "approval.cancel", self.reject, icon="cancel", shown_key="Esc")
        whole = QVBoxLayout(self)
        whole.setContentsMargins(20, 16, 20, 16)
        whole.setSpacing(GAP_PX)
        columns = QHBoxLayout()
        columns.setSpacing(20)
        columns.addLayout(self._about(approval.state), 1)
        columns.addLayout(self._secret())
        whole.addLayout(columns)
        buttons = QHBoxLayout()
        buttons.setSpacing(GAP_PX)
        buttons.addWidget(self.off)
        buttons.addWidget(self.ok, 1)
        whole.addLayout(buttons)
        whole.setSizeConstraint(QLayout.SizeConstraint.SetFixedSize)
        self.rejected.connect(approval.drop)
        self.draw()
        self.pin.setFocus()

    def _about(self, state: ApprovalState) -> QVBoxLayout:
        words = self._words
        title, amount, hint = Label("title", wrap=True), Label("large"), Label("muted", wrap=True)
        title.setText(words.name(state.name))
        amount.setText(words.text("approval.worst", max_minor=state.max_minor))
        hint.setText(words.text("approval.hint"))
        left = QVBoxLayout()
        left.setSpacing(6)
        for widget in (title, amount, hint, self._heading("approval.who")):
            widget.setFixedWidth(ABOUT_PX)
            left.addWidget(widget)
        people = QGridLayout()
        people.setSpacing(6)
        abreast = 2 if all(len(each.name) <= SHORT_CHARS for each in state.approvers) else 1
        for i, each in enumerate(state.approvers):
            cut = len(each.name) > LONG_CHARS
            button = self._button(f"{each.name[:LONG_CHARS]}…" if cut else each.name, "row")
            button.setToolTip(each.name if cut else "")
            button.setCheckable(True)
            button.clicked.connect(lambda _checked=False, chosen=each.id: self._choose(chosen))
            self.who[each.id] = button
            people.addWidget(button, i // abreast, i % abreast)
        rows = -(-len(state.approvers) // abreast)
        some = scrolled(people)
        some.setFixedHeight(min(rows, ROWS_SHOWN) * ROW_PX)
        left.addWidget(some)
        left.addWidget(self._heading("approval.why"))
        for key in REASONS:
            reason = self._button(words.text(key), "row")
            reason.clicked.connect(lambda _checked=False, key=key: self._because(key))
            left.addWidget(reason)
        left.addWidget(self.reason)
        left.addStretch(1)
        return left

    def _secret(self) -> QVBoxLayout:
        right = QVBoxLayout()
        right.setSpacing(GAP_PX)
        keys = Keypad(self.pin, keys="789456123 0")
        for widget in (self._heading("approval.pin"), self.pin, keys, self.wrong):
            widget.setFixedWidth(PIN_PX)
            right.addWidget(widget)
        right.addStretch(1)
        return right

    def _heading(self, key: str) -> Label:
        heading = Label("heading")
        heading.setText(self._words.text(key))
        return heading

    @staticmethod
    def _button(text: str, style: str) -> QPushButton:
        button = QPushButton(text.replace("&", "&&"))
        button.setObjectName(style)
        button.setAutoDefault(False)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button

    # ------------------------------------------------------------------ input

    def tell(self, text: str) -> None:
        """Show a sentence under the fields."""
        self.wrong.setText(text)
        self.pin.setProperty("wrong", bool(text))
        self.pin.style().polish(self.pin)

    def _choose(self, approver_id: str) -> None:
        self._approval.choose(approver_id)
        self.draw()
        self.pin.setFocus()

    def _because(self, key: str) -> None:
        self.reason.setText(self._words.text(key))
        self.pin.setFocus()

    def _take(self) -> None:
        self._approval.enter(self.pin.text(), self.reason.text())

    # ------------------------------------------------------------------ drawing

    def draw(self) -> None:
        """Show the question where it changed, for what else was told stays; it closes when there is none any more."""
        state = self._approval.state
        if state is None:
            self.pin.clear()
            self.accept()
            return
        if state is self._drawn:
            return
        self._drawn = state
        for name, button in self.who.items():
            button.setChecked(name == state.chosen)
            button.setIcon(self._chosen if name == state.chosen else self._other)
        self.ok.setEnabled(not state.busy)
        self.off.setEnabled(not state.busy)
        self.tell("" if state.wrong is None else self._words.say(state.wrong))
        if state.tries != self._tries:
            self._tries = state.tries
            self.pin.clear()
            self.pin.setFocus()
