"""Dress the application: one style, one style sheet, a font that has Chinese, icons in the colour of their words."""

from functools import cache
from importlib.resources import files

from PySide6.QtCore import QByteArray, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QFontDatabase, QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication, QStyleFactory

INK = "#1B2733"
TONES = {
    "accepted": "#00604A",
    "refused": "#963300",
    "notice": "#0A4F96",
    "warning": "#6B4700",
    "waiting": "#0A4F96",
}
ICON_PX = 28

# In the order of preference: what Linux, Windows and macOS bring; the first that is there is used for both languages,
# so that the lines keep their height when the language changes.
CHINESE_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Microsoft YaHei UI",
    "Microsoft YaHei",
    "PingFang SC",
    "Hiragino Sans GB",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
)


def dress(application: QApplication) -> None:
    """Give the application its style, font and style sheet; may be called again."""
    application.setStyle(QStyleFactory.create("Fusion"))
    font = QFont(application.font())
    family = chinese_family()
    if family is not None:
        font.setFamilies([family])
    font.setPixelSize(17)
    application.setFont(font)
    application.setStyleSheet(files("resources").joinpath("styles/counter.qss").read_text(encoding="utf-8"))


def chinese_family() -> str | None:
    """Return the font to use: a known one, else any that claims simplified Chinese; None where the machine has none."""
    families = set(QFontDatabase.families())
    known = next((name for name in CHINESE_FONTS if name in families), None)
    if known is not None:
        return known
    return next(iter(QFontDatabase.families(QFontDatabase.WritingSystem.SimplifiedChinese)), None)


@cache
def icon(name: str, colour: str = INK) -> QIcon:
    """Return the icon of `resources/icons` in a colour, sharp at single and double density."""
    drawn = QIcon()
    for scale in (1, 2):
        drawn.addPixmap(pixmap(name, colour, size_px=ICON_PX * scale))
    # Fusion would grey a disabled icon to nothing next to its word; keep it readable.
    drawn.addPixmap(pixmap(name, "#7A8894", size_px=ICON_PX), QIcon.Mode.Disabled)
    return drawn


@cache
def pixmap(name: str, colour: str = INK, *, size_px: int = ICON_PX) -> QPixmap:
    """Draw an icon of `resources/icons`; a name that is not there is our bug (FileNotFoundError)."""
    source = files("resources").joinpath(f"icons/{name}.svg").read_text(encoding="utf-8")
    renderer = QSvgRenderer(QByteArray(source.replace("currentColor", colour).encode()))
    assert renderer.isValid(), f"icon {name} cannot be drawn"
    drawn = QPixmap(QSize(size_px, size_px))
    drawn.fill(Qt.GlobalColor.transparent)
    painter = QPainter(drawn)
    renderer.render(painter, QRectF(0, 0, size_px, size_px))
    painter.end()
    return drawn
