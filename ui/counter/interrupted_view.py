"""Draw what a restart found half done: for each what it is, what is known, and the one button that ends it."""

from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from app.services.api import Interrupted
from ui import theme
from ui.counter.counter_presenter import CounterPresenter
from ui.widgets import GAP_PX, KeyButton, Label, VerdictStrip, emptied, scrolled, surface
from ui.words import Words

_ICONS = {
    "receipt_not_shown": "receipt",
    "open_hold": "coupon",
    "payment_unknown": "card",
    "refund_unanswered": "refund",
    "refund_not_shown": "refund",
}


class InterruptedView(QWidget):
    """Draw `counter.interrupted.state`; holds widgets, decides nothing."""

    def __init__(self, counter: CounterPresenter, words: Words) -> None:
        super().__init__()
        self._counter, self._words = counter, words
        self.setObjectName("page")
        self._drawn: object = None
        self.title, self.intro = Label("title"), Label(wrap=True)
        self.verdict = VerdictStrip(words)
        self.leave = KeyButton(words, "interrupted.leave", counter.back, icon="back", key="Esc")
        head = QHBoxLayout()
        head.addWidget(self.leave)
        head.addWidget(self.title, 1)
        self._list = QVBoxLayout()
        self._list.setSpacing(GAP_PX)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(12, 12, 12, 10)
        whole.setSpacing(GAP_PX)
        whole.addLayout(head)
        whole.addWidget(self.intro)
        whole.addWidget(self.verdict)
        whole.addWidget(scrolled(self._list), 1)

    def translate(self) -> None:
        """Say everything in the language of the moment."""
        self.leave.translate()
        self.title.setText(self._words.text("interrupted.title"))
        self.intro.setText(self._words.text("interrupted.intro"))
        self._drawn = None

    def draw(self) -> None:
        """Show what is half done now."""
        state = self._counter.interrupted.state
        self.verdict.show_verdict(
            state.verdict, names={}, idle_key="interrupted.idle" if state.items else "interrupted.nothing"
        )
        self.leave.setEnabled(not state.busy)
        drawn = (state.items, state.busy, self._words.language)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        emptied(self._list)
        for item in state.items:
            self._list.addWidget(self._item(item, busy=state.busy))

    def _item(self, item: Interrupted, *, busy: bool) -> QFrame:
        frame, inside = surface()
        row = QHBoxLayout()
        picture = Label()
        picture.setPixmap(theme.pixmap(_ICONS[item.kind.value], theme.TONES["warning"], size_px=40))
        texts = QVBoxLayout()
        texts.setSpacing(2)
        words, kind = self._words, item.kind.value
        title, what = Label("heading", wrap=True), Label(wrap=True)
        title.setText(words.text(f"interrupted.{kind}_title", payable_minor=item.payable_minor))
        what.setText(words.text(f"interrupted.{kind}"))
        facts = Label("muted", wrap=True)
        facts.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        facts.setText(self._facts(item))
        for label in (title, what, facts):
            texts.addWidget(label)
        button = KeyButton(
            words, f"interrupted.{kind}_button", partial(self._counter.interrupted.settle, item), icon="accepted"
        )
        button.setEnabled(not busy)
        row.addWidget(picture, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(texts, 1)
        row.addWidget(button)
        inside.addLayout(row)
        return frame

    def _facts(self, item: Interrupted) -> str:
        words = self._words
        facts = [words.text("interrupted.order", number=item.order_id, state=item.state)]
        if item.since_at is not None:
            facts.append(words.text("interrupted.since", since_at=item.since_at))
        if item.mark:
            facts.append(words.text("receipt.mark", mark=item.mark))
        return "  ·  ".join(facts)
