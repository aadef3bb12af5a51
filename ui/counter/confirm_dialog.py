"""Ask before something is thrown away."""

from collections.abc import Callable

from PySide6.QtWidgets import QDialog, QHBoxLayout, QVBoxLayout, QWidget

from ui.widgets import GAP_PX, KeyButton, Label
from ui.words import Words


class ConfirmDialog(QDialog):
    """Ask one yes-or-no question: `{key}.title`, `{key}.text`, `{key}.yes`, `{key}.no`. Escape and Enter mean no."""

    def __init__(self, words: Words, key: str, *, yes: Callable[[], None], yes_key: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(words.text(f"{key}.title"))
        self.setMinimumWidth(480)
        title, text = Label("title", wrap=True), Label(wrap=True)
        title.setText(words.text(f"{key}.title"))
        text.setText(words.text(f"{key}.text"))
        self.accepted.connect(yes)
        self.no = KeyButton(words, f"{key}.no", self.reject, icon="back", shown_key="Esc", style="primary")
        self.yes = KeyButton(words, f"{key}.yes", self.accept, icon="remove", key=yes_key, style="kind")
        self.no.setDefault(True)
        buttons = QHBoxLayout()
        buttons.setSpacing(GAP_PX)
        buttons.addWidget(self.yes)
        buttons.addWidget(self.no, 1)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(24, 20, 24, 20)
        whole.setSpacing(GAP_PX)
        whole.addWidget(title)
        whole.addWidget(text)
        whole.addSpacing(12)
        whole.addLayout(buttons)
        self.no.setFocus()
