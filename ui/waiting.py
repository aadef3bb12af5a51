"""Draw the box that stands where the window will be, while long work must be done before it opens."""

from PySide6.QtCore import QTimer
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QDialog, QProgressBar, QVBoxLayout

from app.domain.ports import Step, UnderWay
from ui import theme
from ui.widgets import Label
from ui.words import Words

TEXT_PX = 520
LOOK_MS = 100


class WaitingBox(QDialog):
    """Say what is waited for, and how much of it is done.

    It closes when the work is done (`end`): what is being written is not to be left in the middle.
    """

    def __init__(self, words: Words) -> None:
        super().__init__()
        self._words = words
        self.setWindowTitle("Pawtill")
        self.setWindowIcon(theme.icon("pawtill", theme.TONES["notice"]))
        title, text, self.step, self.bar = Label("title", wrap=True), Label(wrap=True), Label(), QProgressBar()
        title.setText(words.text("work.title"))
        text.setText(words.text("work.text"))
        self.step.setText(words.text("work.asking"))
        self.bar.setTextVisible(False)
        self.bar.setRange(0, 0)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(24, 20, 24, 24)
        whole.setSpacing(12)
        for part in (title, text, self.step, self.bar):
            whole.addWidget(part)
        # Text that may take any width is given the height of another one, and is cut.
        text.setFixedWidth(TEXT_PX)
        # Whoever waits for Qt's events in a loop of Python's is woken by it.
        self._look = QTimer(self)
        self._look.start(LOOK_MS)

    def tell(self, step: Step, done: int, total: int) -> None:
        """Show how far a step is; of a step whose size nobody knows only what it is."""
        if total:
            self.step.setText(self._words.work(UnderWay(step, done, total)))
        self.bar.setRange(0, total)
        self.bar.setValue(done)

    def reject(self) -> None:
        """Stay, whatever key is pressed."""

    def closeEvent(self, event: QCloseEvent) -> None:
        """Stay until the end."""
        event.ignore()

    def end(self) -> None:
        """Go away."""
        self._look.stop()
        self.hide()
        self.deleteLater()
