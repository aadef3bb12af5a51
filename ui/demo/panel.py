"""Put things to scan beside the window: a touch is a scan. And the plug of the cable to the server."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QPushButton, QScrollArea, QVBoxLayout

from ui import theme
from ui.demo.things import DemoCounter, Thing
from ui.main_window import MainWindow
from ui.widgets import Label, scrolled

PANEL_PX = 268
TEXT_PX = PANEL_PX - 58
_STYLE = "QPushButton#thing { text-align: left; padding: 4px 10px; min-height: 26px; font-size: 13px; }"


class ScanPanel(QFrame):
    """Hold a button for each thing on the counter, and one for the cable."""

    def __init__(self, window: MainWindow, counter: DemoCounter) -> None:
        super().__init__()
        self._window, self._counter, self._words = window, counter, window.words
        self.setObjectName("demo")
        self.setFixedWidth(PANEL_PX)
        self.setStyleSheet(_STYLE)
        self._headings: list[tuple[Label, str]] = []
        self._buttons: list[tuple[QPushButton, Thing]] = []
        whole = QVBoxLayout(self)
        whole.setContentsMargins(12, 12, 0, 12)
        whole.setSpacing(6)
        self._heading(whole, "demo.title", style="heading")
        self.cable = QPushButton()
        self.cable.setCheckable(True)
        self.cable.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.cable.clicked.connect(self._switch)
        whole.addWidget(self.cable)
        whole.addWidget(self._things(), 1)
        self._words.watch(self.translate)
        self.translate()

    def _things(self) -> QScrollArea:
        column = QVBoxLayout()
        column.setSpacing(4)
        for group in self._counter.groups:
            self._heading(column, group.title_key, style="muted")
            for thing in group.things:
                button = QPushButton()
                button.setObjectName("thing")
                button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
                button.setToolTip(thing.code)
                button.clicked.connect(lambda _checked, code=thing.code: self._window.scan(code))
                column.addWidget(button)
                self._buttons.append((button, thing))
        return scrolled(column)

    def _heading(self, column: QVBoxLayout, key: str, *, style: str) -> None:
        label = Label(style, wrap=True)
        self._headings.append((label, key))
        column.addWidget(label)

    def _switch(self) -> None:
        cable = self._counter.cable
        if cable.is_cut:
            cable.mend()
        else:
            cable.cut()
        self._counter.wake()
        self.translate()

    def translate(self) -> None:
        """Say everything in the language of the moment."""
        words, is_cut = self._words, self._counter.cable.is_cut
        for label, key in self._headings:
            label.setText(words.text(key))
        for button, thing in self._buttons:
            text = button.fontMetrics().elidedText(words.name(thing.name), Qt.TextElideMode.ElideMiddle, TEXT_PX)
            button.setText(text.replace("&", "&&"))
        self.cable.setChecked(is_cut)
        self.cable.setText("  " + words.text("demo.plug_in" if is_cut else "demo.pull"))
        self.cable.setIcon(theme.icon("offline" if is_cut else "online"))
