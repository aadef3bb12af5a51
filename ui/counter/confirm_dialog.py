"""Ask before something is thrown away."""

from collections.abc import Callable

from PySide6.QtWidgets import QDialog, QHBoxLayout, QVBoxLayout, QWidget

from ui.widgets import GAP_PX, KeyButton, Label
from ui.words import Words

TEXT_PX = 540


class ConfirmDialog(QDialog):
    """Ask one yes-or-no question: `{key}.title`, `text`, `{key}.yes`, `{key}.no`. Escape and Enter mean no."""

    def __init__(
        self,
        words: Words,
        key: str,
        *,
        text: str,
        yes: Callable[[], None],
        yes_key: str,
        parent: QWidget,
        icon: str = "remove",
        no: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(words.text(f"{key}.title"))
        title, self.text = Label("title", wrap=True), Label(wrap=True)
        title.setText(words.text(f"{key}.title"))
        self.text.setText(text)
        self.accepted.connect(yes)
        self.rejected.connect(no)
        self.no = KeyButton(words, f"{key}.no", self.reject, icon="back", shown_key="Esc", style="primary")
        self.yes = KeyButton(words, f"{key}.yes", self.accept, icon=icon, key=yes_key, style="kind")
        self.no.setDefault(True)
        buttons = QHBoxLayout()
        buttons.setSpacing(GAP_PX)
        buttons.addWidget(self.yes)
        buttons.addWidget(self.no, 1)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(24, 20, 24, 20)
        whole.setSpacing(GAP_PX)
        whole.addWidget(title)
        whole.addWidget(self.text)
        whole.addSpacing(12)
        whole.addLayout(buttons)
        # Text that may take any width is given the height of another one, and is cut.
        self.text.setFixedWidth(TEXT_PX)
        self.no.setFocus()
