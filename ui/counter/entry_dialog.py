"""Ask for a quantity or a weight, by keys or by touch."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QHBoxLayout, QLayout, QVBoxLayout, QWidget

from app.domain.basket import format_qty
from app.domain.refusals import Refusal
from ui.counter.desk_state import Asked
from ui.widgets import GAP_PX, KeyButton, Keypad, Label, code_field
from ui.words import Words

FIELD_PX = 440


class EntryDialog(QDialog):
    """Ask one question; `enter` returns why an answer makes no sense, then the question stays."""

    def __init__(
        self,
        asked: Asked,
        words: Words,
        *,
        enter: Callable[[str], Refusal | None],
        drop: Callable[[], None],
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._words, self._enter, self._drop = words, enter, drop
        self.asked = asked
        key = "entry.weight" if asked.by_weight else "entry.quantity"
        self.setWindowTitle(words.text(f"{key}_title"))
        title, hint = Label("title", wrap=True), Label("muted", wrap=True)
        title.setText(words.name(asked.name))
        hint.setText(words.text(f"{key}_hint"))
        self.field = code_field("entry")
        self.field.setMaxLength(16)
        self.field.setMinimumWidth(FIELD_PX)
        self.field.setAlignment(Qt.AlignmentFlag.AlignRight)
        if asked.qty_milli is not None:
            self.field.setText(format_qty(asked.qty_milli))
            self.field.selectAll()
        self.wrong = Label("verdictText", wrap=True)
        self.wrong.setMinimumHeight(52)
        self.ok = KeyButton(words, "entry.ok", self._take, icon="accepted", shown_key="Enter", style="primary")
        self.off = KeyButton(words, "entry.cancel", self.reject, icon="cancel", shown_key="Esc")
        self.field.returnPressed.connect(self._take)
        buttons = QHBoxLayout()
        buttons.setSpacing(GAP_PX)
        buttons.addWidget(self.off)
        buttons.addWidget(self.ok, 1)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(20, 16, 20, 16)
        whole.setSpacing(GAP_PX)
        for widget in (title, hint, self.field, self.wrong, Keypad(self.field)):
            whole.addWidget(widget)
        whole.addLayout(buttons)
        whole.setSizeConstraint(QLayout.SizeConstraint.SetFixedSize)  # grows with what wraps
        self.rejected.connect(self._drop)
        self.field.setFocus()

    def tell(self, text: str) -> None:
        """Show a sentence under the field."""
        self.wrong.setText(text)
        self.field.setProperty("wrong", bool(text))
        self.field.style().polish(self.field)

    def _take(self) -> None:
        refusal = self._enter(self.field.text())
        if refusal is None:
            self.accept()
        else:
            self.tell(self._words.refusal(refusal).text)
            self.field.selectAll()
            self.field.setFocus()
