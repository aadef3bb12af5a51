"""Draw the permanent status bar: the line or how far a long sync is, what is not synced, who and where, what time."""

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QFrame, QHBoxLayout

from app.domain.ports import Clock
from app.services.api import TillStatus
from ui import theme
from ui.counter.counter_presenter import CounterPresenter
from ui.widgets import Label
from ui.words import Words

WHITE, AMBER = "#FFFFFF", "#FFD66B"


class StatusBar(QFrame):
    """Draw the till's status and the clock."""

    def __init__(self, counter: CounterPresenter, words: Words, *, clock: Clock) -> None:
        super().__init__()
        self._counter, self._words, self._clock = counter, words, clock
        self.setObjectName("status")
        self.setFixedHeight(38)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 0, 14, 0)
        row.setSpacing(6)
        self._icons: dict[str, Label] = {}
        self.labels: dict[str, Label] = {}
        for name in ("line", "pending", "parked", "sync", "copy", "till", "person", "clock"):
            if name == "till":
                row.addStretch(1)
            elif name != "line":
                row.addSpacing(16)
            self._icons[name], self.labels[name] = Label(), Label()
            self._icons[name].setFixedSize(QSize(22, 22))
            row.addWidget(self._icons[name])
            row.addWidget(self.labels[name])
            if name == "till":
                row.addSpacing(16)
        self._show("copy", False)

    def draw(self) -> None:
        """Show the last status known; before the first there is only a dash."""
        words, chain = self._words, self._counter.chain
        status = self._counter.status.status
        if status is not None:
            self._draw_line(status)
            self._draw_counts(status)
        self._set("till", words.text("status.till", store=chain.store_id, till=chain.till_id))
        self._set("person", self._counter.operator)
        time, unsure = words.clock(self._clock.now()), status is not None and bool(status.clock_unsure)
        self._set("clock", words.text("status.clock_unsure", time=time) if unsure else time, warn=unsure)

    def _draw_line(self, status: TillStatus) -> None:
        words = self._words
        if status.under_way is not None:
            # A line over which so much comes is up, whatever the end of the last session said.
            self._set("line", words.work(status.under_way), icon="sync")
        elif status.online:
            self._set("line", words.text("status.online"), icon="online")
        elif status.offline_since is None:
            self._set("line", words.text("status.offline"), icon="offline", warn=True)
        else:
            since = words.moment(status.offline_since, now=self._clock.now())
            self._set("line", words.text("status.offline_since", since=since), icon="offline", warn=True)

    def _draw_counts(self, status: TillStatus) -> None:
        words = self._words
        pending, parked = status.pending_count, status.parked_count
        self._set("pending", words.text("status.pending", count="?" if pending is None else pending))
        self._set("parked", words.text("status.parked", count="?" if parked is None else parked), warn=bool(parked))
        self._show("sync", status.under_way is None)
        if status.last_sync_at is None:
            self._set("sync", words.text("status.never_synced"), warn=True)
        else:
            self._set(
                "sync", words.text("status.synced", when=words.moment(status.last_sync_at, now=self._clock.now()))
            )

        self._draw_copy(status.copy_lag)

    def _draw_copy(self, lag: int | None) -> None:
        """Say how far the second copy is behind, where one is kept."""
        self._show("copy", lag is not None)
        if lag is not None:
            self._set("copy", self._words.text("status.copy_lag", count=lag), icon="pending", warn=lag > 0)

    def _show(self, name: str, visible: bool) -> None:
        for part in (self._icons[name], self.labels[name]):
            part.setVisible(visible)

    def _set(self, name: str, text: str, *, icon: str = "", warn: bool = False) -> None:
        label, tone = self.labels[name], "warning" if warn else ""
        self._icons[name].setPixmap(theme.pixmap(icon or name, AMBER if warn else WHITE, size_px=22))
        label.setText(text)
        if label.property("tone") != tone:
            label.setProperty("tone", tone)
            label.style().polish(label)
