"""Show the basket as a table: two lines of text in a cell, every text made before it is asked for."""

from dataclasses import dataclass

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QColor, QFont, QKeyEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from ui.counter.desk_state import DeskState
from ui.words import Words, campaign_name

COLUMNS = ("number", "goods", "quantity", "price", "discount", "net")
SECOND_LINE = Qt.ItemDataRole.UserRole + 1
ROW_PX = 54
NARROW_PX = 760
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_MUTED = QColor("#4A5A68")

Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class Row:
    """Hold the texts of one line: for each column the first and the second line of its cell."""

    first: tuple[str, ...]
    second: tuple[str, ...]


def rows_of(state: DeskState, words: Words) -> list[Row]:
    """Write the lines of the desk; a line without a price yet shows dashes."""
    priced = {line.number: line for line in state.quote.lines} if state.quote and state.fresh else {}
    reasons = _reasons(state, words) if priced else {}
    rows: list[Row] = []
    for number, item in enumerate(state.basket.items, start=1):
        name = words.name(state.names.get(item.sku, item.sku))
        qty = words.qty(item.qty_milli, by_weight=item.by_weight)
        line = priced.get(number)
        if line is None:
            rows.append(Row((str(number), name, qty, "", "", "…"), ("", item.sku, "", "", "", "")))
            continue
        covered = words.text("desk.covered", count=line.covered_units) if line.covered_units else ""
        off = words.money(-line.discount_minor) if line.discount_minor else ""
        reason = reasons.get(number, "")
        per = words.text("desk.per_kg") if item.by_weight else ""
        rows.append(
            Row(
                (str(number), name, qty, words.money(line.price_minor), off or covered, words.money(line.net_minor)),
                ("", item.sku, "", per, reason if off else "", covered if off else ""),
            )
        )
    return rows


def _reasons(state: DeskState, words: Words) -> dict[int, str]:
    """Name for each line what took something off it."""
    assert state.quote is not None
    found: dict[int, list[str]] = {}
    for stage in state.quote.laid:
        title = words.name(campaign_name(stage.rule, stage.campaign_id))
        for line, share in zip(state.quote.lines, stage.shares_minor, strict=True):
            if share:
                found.setdefault(line.number, []).append(title)
    return {number: words.text("list.and").join(titles) for number, titles in found.items()}


class BasketModel(QAbstractTableModel):
    """Hold finished rows; `data` looks nothing up."""

    def __init__(self, words: Words, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._words, self._rows = words, list[Row]()

    def fill(self, rows: list[Row]) -> None:
        """Show these rows; where only some changed, the view keeps its place."""
        if len(rows) != len(self._rows):
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()
            return
        changed = [i for i, row in enumerate(rows) if row != self._rows[i]]
        self._rows = rows
        if changed:
            self.dataChanged.emit(self.index(changed[0], 0), self.index(changed[-1], len(COLUMNS) - 1))

    def rowCount(self, parent: Index | None = None) -> int:
        """Count the lines."""
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index | None = None) -> int:
        """Count the columns."""
        return 0 if parent is not None and parent.isValid() else len(COLUMNS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return a cell's text, its second line or its alignment; None where there is no such cell."""
        if not index.isValid():
            return None
        row, column = self._rows[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return row.first[column]
        if role == SECOND_LINE:
            return row.second[column]
        if role == Qt.ItemDataRole.ToolTipRole:
            return "\n".join(text for text in (row.first[column], row.second[column]) if text)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _LEFT if COLUMNS[column] in ("goods", "discount") else _RIGHT
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return a column's heading in the language of the moment."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self._words.text(f"desk.column_{COLUMNS[section]}")
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _LEFT if COLUMNS[section] in ("goods", "discount") else _RIGHT
        return None


class TwoLines(QStyledItemDelegate):
    """Draw a cell with a second, smaller line under the first."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw background and both lines; too long a text loses its middle: pack sizes stand at the end of names."""
        style = option.widget.style()
        style.drawPrimitive(QStyle.PrimitiveElement.PE_PanelItemViewItem, option, painter, option.widget)
        first, second = str(index.data() or ""), str(index.data(SECOND_LINE) or "")
        area = option.rect.adjusted(8, 3, -8, -3)
        flags = index.data(Qt.ItemDataRole.TextAlignmentRole)
        painter.save()
        painter.setPen(option.palette.text().color())
        painter.setFont(option.font)
        upper = area.adjusted(0, 0, 0, -area.height() * 2 // 5) if second else area
        metrics = painter.fontMetrics()
        painter.drawText(upper, flags, metrics.elidedText(first, Qt.TextElideMode.ElideMiddle, area.width()))
        if second:
            small = QFont(option.font)
            small.setPixelSize(14)
            painter.setFont(small)
            painter.setPen(_MUTED)
            lower = area.adjusted(0, area.height() * 3 // 5, 0, 0)
            metrics = painter.fontMetrics()
            painter.drawText(lower, flags, metrics.elidedText(second, Qt.TextElideMode.ElideRight, area.width()))
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """Keep every row at touch size."""
        return QSize(super().sizeHint(option, index).width(), ROW_PX)


class BasketTable(QTableView):
    """Show the basket; letters typed into it go on to the window, which puts them into the scan field."""

    def __init__(self, words: Words, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.basket = BasketModel(words, self)
        self.setModel(self.basket)
        self.setItemDelegate(TwoLines(self))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setAlternatingRowColors(True)
        self.setShowGrid(False)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(ROW_PX)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self._numbers_px = dict.fromkeys((0, 2, 3, 5), 0)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setFixedHeight(34)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)

    def _measure(self, rows: list[Row]) -> None:
        """Find out how wide the longest number of each column is."""
        metrics = self.fontMetrics()
        widest = {
            column: metrics.horizontalAdvance(max((row.first[column] for row in rows), key=len, default="")) + 24
            for column in (0, 2, 3, 5)
        }
        if widest != self._numbers_px:
            self._numbers_px = widest
            self._share_width()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Share the width out: the goods and what was taken off them get what the numbers leave."""
        super().resizeEvent(event)
        self._share_width()

    def _share_width(self) -> None:
        width = self.viewport().width()
        least = (46, 84, 88, 96) if width < NARROW_PX else (60, 104, 112, 124)
        for column, px in zip((0, 2, 3, 5), least, strict=True):
            # Goods may end in an ellipsis, a number never: it would be another number.
            self.setColumnWidth(column, max(px, self._numbers_px[column]))
        self.setColumnWidth(4, max(120, int(width * 0.22)))

    def keyboardSearch(self, search: str) -> None:  # noqa: N802 - Qt's name
        """Search nothing: what is typed is a code for the scan field."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Leave every key to the window."""
        event.ignore()

    def show_state(self, state: DeskState, words: Words) -> None:
        """Show the desk's lines and its selected one."""
        rows = rows_of(state, words)
        self.basket.fill(rows)
        self._measure(rows)
        selection = self.selectionModel()
        if state.selected == 0:
            selection.clear()
        elif self.currentIndex().row() != state.selected - 1 or not selection.hasSelection():
            self.selectRow(state.selected - 1)
            self.scrollTo(self.basket.index(state.selected - 1, 0))
