"""Ask the cashier what the card terminal says; one of three answers must be given."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QCloseEvent, QKeyEvent
from PySide6.QtWidgets import QDialog, QVBoxLayout, QWidget

from app.services.ports import PaymentAnswer
from ui import theme
from ui.counter.terminal import NO_ANSWER, NOT_PAID, PAID, Question
from ui.widgets import GAP_PX, KeyButton, Label
from ui.words import Words


class TerminalDialog(QDialog):
    """Show one question; `answer` gets the cashier's answer, once."""

    def __init__(
        self, question: Question, words: Words, *, answer: Callable[[PaymentAnswer], None], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._answer, self._answered = answer, False
        self.question = question
        self.setWindowTitle(words.text("terminal.title"))
        self.setMinimumWidth(560)
        centre = Qt.AlignmentFlag.AlignHCenter
        picture = Label(align=centre)
        picture.setPixmap(theme.pixmap("wallet" if question.kind == "wallet" else "card", size_px=56))
        title, hint = Label("title", wrap=True, align=centre), Label("muted", wrap=True, align=centre)
        kind = question.kind.value if question.kind is not None else "card"
        title.setText(words.text("terminal.ask_again" if question.again else f"terminal.charge_{kind}"))
        hint.setText(words.text("terminal.hint_again" if question.again else "terminal.hint"))
        whole = QVBoxLayout(self)
        whole.setContentsMargins(24, 20, 24, 20)
        whole.setSpacing(GAP_PX)
        whole.addWidget(picture)
        whole.addWidget(title)
        if question.amount_minor is not None:
            amount = Label("payable", align=centre)
            amount.setText(words.money(question.amount_minor))
            whole.addWidget(amount)
        whole.addWidget(hint)
        whole.addSpacing(12)
        self.paid = KeyButton(words, "terminal.paid", lambda: self._give(PAID), icon="accepted", key="F5", style="kind")
        self.declined = KeyButton(
            words, "terminal.declined", lambda: self._give(NOT_PAID), icon="refused", key="F6", style="kind"
        )
        self.silent = KeyButton(
            words, "terminal.no_answer", lambda: self._give(NO_ANSWER), icon="waiting", key="F7", style="kind"
        )
        for button in (self.paid, self.declined, self.silent):
            # No focus: an Enter meant for something else must not say "paid".
            button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
            whole.addWidget(button)

    def _give(self, answer: PaymentAnswer) -> None:
        if not self._answered:
            self._answered = True
            self._answer(answer)
            self.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Let no key close it unanswered, Escape least of all."""
        event.ignore()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Take the window's own close button for "no answer": the money stays asked about."""
        self._give(NO_ANSWER)
        event.accept()
