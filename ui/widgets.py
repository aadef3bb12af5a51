"""Hold the few widgets that every page is made of: a button with its key, a verdict strip, a keypad, plain labels."""

from collections.abc import Callable, Mapping

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLayout,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.domain.refusals import Refusal
from ui import theme
from ui.verdict import Verdict
from ui.words import Name, Words

GAP_PX = 8
TOUCH_PX = 48


class KeyButton(QPushButton):
    """Be a button that says its name in the language of the moment, and the key that presses it.

    It never takes the focus by a click, so the scan field keeps it.
    """

    def __init__(
        self,
        words: Words,
        text_key: str,
        pressed: Callable[[], object],
        *,
        icon: str | None = None,
        key: str | None = None,
        shown_key: str | None = None,
        style: str = "",
    ) -> None:
        super().__init__()
        self._words, self.text_key = words, text_key
        self._shown_key = shown_key if shown_key is not None else key
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setObjectName(style)
        self.setAutoDefault(False)
        if icon is not None:
            self.setIcon(theme.icon(icon, "#FFFFFF" if style == "primary" else theme.INK))
            self.setIconSize(QSize(26, 26))
        self.clicked.connect(lambda _checked: pressed())
        if key is not None:
            # Not setShortcut: that presses the button slowly (100 ms), and every setText would forget it.
            shortcut = QShortcut(QKeySequence(key), self)
            shortcut.setAutoRepeat(False)
            shortcut.activated.connect(self.click)
        self.translate()

    def translate(self) -> None:
        """Say the name anew."""
        name = self._words.text(self.text_key).replace("&", "&&")
        text = f"{self._shown_key}  {name}" if self._shown_key else name
        self.setText(text if self.icon().isNull() else f" {text}")


class Label(QLabel):
    """Be a label with one of the style sheet's names; plain text, never markup from a product's name."""

    def __init__(self, style: str = "", *, wrap: bool = False, align: Qt.AlignmentFlag | None = None) -> None:
        super().__init__()
        self.setObjectName(style)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(wrap)
        if align is not None:
            self.setAlignment(align | Qt.AlignmentFlag.AlignVCenter)


class VerdictStrip(QFrame):
    """Show one verdict by icon, colour and words."""

    def __init__(self, words: Words, *, idle_icon: str = "notice") -> None:
        super().__init__()
        self._words, self._idle_icon = words, idle_icon
        self.setObjectName("verdict")
        self._icon, self._title, self._text = Label(), Label("verdictTitle", wrap=True), Label("verdictText", wrap=True)
        self._icon.setFixedWidth(44)
        self._text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        inside = QVBoxLayout()
        inside.setSpacing(0)
        inside.addWidget(self._title)
        inside.addWidget(self._text)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 4, 12, 4)
        row.addWidget(self._icon)
        row.addLayout(inside, 1)
        self.setFixedHeight(80)

    def show_verdict(self, verdict: Verdict | None, *, names: Mapping[str, Name | str], idle_key: str) -> None:
        """Show a verdict; None shows what the page waits for."""
        if verdict is None:
            self._show(("", self._idle_icon), self._words.text(idle_key), "")
            return
        title, text = verdict_words(self._words, verdict, names)
        self._show((verdict.tone.value, verdict.tone.value), title, text)

    def _show(self, tone_and_icon: tuple[str, str], title: str, text: str) -> None:
        tone, icon = tone_and_icon
        self._icon.setPixmap(theme.pixmap(icon, theme.TONES.get(tone, theme.INK), size_px=36))
        self._title.setText(title)
        self._text.setText(text)
        self._text.setVisible(bool(text))
        self._text.setToolTip(text)
        for widget in (self, self._title):
            if widget.property("tone") != tone:
                widget.setProperty("tone", tone)
                widget.style().polish(widget)


def verdict_words(words: Words, verdict: Verdict, names: Mapping[str, Name | str]) -> tuple[str, str]:
    """Return a verdict's title and sentence; the title names what the verdict is about."""
    if verdict.title is not None:
        title = words.say(verdict.title)
    else:
        assert isinstance(verdict.message, Refusal), "only a refusal brings its own title"
        title = words.refusal(verdict.message, names=names).title
    subject = words.name(verdict.subject)
    return (f"{title} · {subject}" if subject else title), words.say(verdict.message, names=names)


class Keypad(QWidget):
    """Type digits into a field by touch; `keys` from the upper left, three in a row, a blank for none."""

    def __init__(self, field: QLineEdit, *, keys: str = "789456123.0") -> None:
        super().__init__()
        self._field = field
        self.setMinimumHeight(4 * (TOUCH_PX + 2) + 3 * 6)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(6)
        for i, char in enumerate(keys):
            if char == " ":
                continue
            button = self._button(char)
            button.clicked.connect(lambda _checked=False, char=char: self._field.insert(char))
            grid.addWidget(button, i // 3, i % 3)
        back = self._button("")
        back.setIcon(theme.icon("erase"))
        back.setIconSize(QSize(28, 28))
        back.clicked.connect(self._field.backspace)
        grid.addWidget(back, 3, 2)

    @staticmethod
    def _button(char: str) -> QPushButton:
        button = QPushButton(char)
        button.setObjectName("pad")
        button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        button.setAutoDefault(False)
        button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        return button


def code_field(style: str = "") -> QLineEdit:
    """Make a field for codes and numbers: no input method in it, which would swallow digits into Chinese words."""
    field = QLineEdit()
    field.setObjectName(style)
    field.setAttribute(Qt.WidgetAttribute.WA_InputMethodEnabled, False)
    field.setMaxLength(512)
    return field


def surface() -> tuple[QFrame, QVBoxLayout]:
    """Make a white area with a thin edge, and its layout."""
    frame = QFrame()
    frame.setObjectName("surface")
    inside = QVBoxLayout(frame)
    inside.setContentsMargins(14, 10, 14, 10)
    inside.setSpacing(6)
    return frame, inside


def scrolled(rows: QLayout) -> QScrollArea:
    """Let rows scroll, up and down alone; the area takes no focus, and what the rows do not fill stays empty."""
    holder = QWidget()
    outer = QVBoxLayout(holder)
    outer.setContentsMargins(0, 0, 4, 0)
    outer.addLayout(rows)
    outer.addStretch(1)
    scroll = QScrollArea()
    scroll.setWidgetResizable(True)
    scroll.setWidget(holder)
    scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    return scroll


def rule() -> QFrame:
    """Make a thin line."""
    line = QFrame()
    line.setObjectName("rule")
    return line


def emptied(layout: QLayout) -> None:
    """Take everything out of a layout and let it go."""
    while (item := layout.takeAt(0)) is not None:
        widget, inner = item.widget(), item.layout()
        if widget is not None:
            widget.hide()
            widget.deleteLater()
        elif inner is not None:
            emptied(inner)
