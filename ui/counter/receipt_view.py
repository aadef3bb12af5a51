"""Draw the end of a sale: the change to give, as large as the screen allows, and the receipt."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QTextBrowser, QVBoxLayout, QWidget

from ui import theme
from ui.counter.counter_presenter import CounterPresenter
from ui.counter.receipt_text import receipt_html
from ui.widgets import GAP_PX, KeyButton, Label, surface
from ui.words import Words


class ReceiptView(QWidget):
    """Draw `counter.shown`; holds widgets, decides nothing."""

    def __init__(self, counter: CounterPresenter, words: Words) -> None:
        super().__init__()
        self._counter, self._words = counter, words
        self.setObjectName("page")
        self._drawn: object = None
        centre = Qt.AlignmentFlag.AlignHCenter
        self.title, self.caption = Label("title", align=centre), Label("heading", align=centre)
        self.change, self.hint = Label("change", align=centre), Label("muted", wrap=True, align=centre)
        picture = Label(align=centre)
        picture.setPixmap(theme.pixmap("accepted", theme.TONES["accepted"], size_px=72))
        self.done = KeyButton(words, "receipt.done", counter.done, icon="accepted", key="F12", style="primary")
        self.leave = KeyButton(words, "receipt.back", counter.done, icon="back", key="Esc", style="primary")
        frame, inside = surface()
        inside.addStretch(1)
        for widget in (picture, self.title):
            inside.addWidget(widget)
        inside.addSpacing(24)
        for widget in (self.caption, self.change, self.hint):
            inside.addWidget(widget)
        inside.addStretch(1)
        inside.addWidget(self.leave)
        inside.addWidget(self.done)
        self.text = QTextBrowser()
        self.text.setOpenLinks(False)
        self.text.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        columns = QHBoxLayout(self)
        columns.setContentsMargins(12, 12, 12, 10)
        columns.setSpacing(12)
        columns.addWidget(frame, 5)
        side = QVBoxLayout()
        side.setSpacing(GAP_PX)
        side.addWidget(self.text)
        columns.addLayout(side, 4)
        # Enter on the focused button is the quickest way to the next customer.
        for button in (self.done, self.leave):
            button.setAutoDefault(True)

    def translate(self) -> None:
        """Say everything in the language of the moment."""
        self.done.translate()
        self.leave.translate()
        self._drawn = None

    def draw(self) -> None:
        """Show change and receipt."""
        shown = self._counter.shown
        if shown is None:
            return
        names = self._counter.receipt_names
        drawn = (shown, self._words.language, len(names))
        if drawn == self._drawn:
            return
        self._drawn = drawn
        again = shown.change_minor is None
        self.title.setText(self._words.text("receipt.again" if again else "receipt.sold"))
        self.caption.setText(self._words.text("tender.change"))
        self.change.setText(self._words.money(shown.change_minor or 0))
        self.hint.setText(self._words.text("receipt.hint_again" if again else "receipt.hint"))
        for widget in (self.caption, self.change):
            widget.setVisible(not again)
        self.leave.setVisible(again)
        self.done.setVisible(not again)
        self.setFocusProxy(self.leave if again else self.done)
        self.text.setHtml(receipt_html(shown.receipt, self._words, names=names, copy=again))
