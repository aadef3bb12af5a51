"""Hold the window: pages, banner, status bar, dialogs; draws what the presenters say and routes keys and scans."""

from typing import TypeVar
from zoneinfo import ZoneInfo

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QCloseEvent, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QDialog, QFrame, QHBoxLayout, QMainWindow, QStackedWidget, QVBoxLayout, QWidget

from app.domain.ports import Clock
from app.services.ports import PaymentAnswer
from ui import theme
from ui.counter.approval_dialog import ApprovalDialog
from ui.counter.confirm_dialog import ConfirmDialog
from ui.counter.counter_presenter import CounterPresenter, Page
from ui.counter.desk_view import DeskView
from ui.counter.entry_dialog import EntryDialog
from ui.counter.interrupted_view import InterruptedView
from ui.counter.receipt_view import ReceiptView
from ui.counter.refund_view import RefundView
from ui.counter.rights_presenter import question
from ui.counter.rights_view import RightsPage
from ui.counter.tender_view import TenderView
from ui.counter.terminal import CashierTerminal, Question
from ui.counter.terminal_dialog import TerminalDialog
from ui.scanner import ScanFilter
from ui.status_bar import StatusBar
from ui.tasks import Tasks
from ui.verdict import not_done
from ui.widgets import Label
from ui.words import Words

SMALLEST_PX = (1180, 700)
FIRST_PX = (1366, 768)
# Several changes within one scan are drawn once; far below what an eye or a cashier notices.
DRAW_DELAY_MS = 8
TICK_MS = 1000

PageView = DeskView | TenderView | ReceiptView | RefundView | InterruptedView | RightsPage
AnyDialog = TypeVar("AnyDialog", bound=QDialog)


class MainWindow(QMainWindow):
    """Be the till's window; `ui.bootstrap.open_window` makes it.

    `drawn` is emitted after each drawing, when the screen shows what the presenters hold.
    """

    drawn = Signal()

    def __init__(
        self, counter: CounterPresenter, words: Words, *, tasks: Tasks, clock: Clock, terminal: CashierTerminal | None
    ) -> None:
        super().__init__()
        self.counter, self.words, self._tasks, self._terminal = counter, words, tasks, terminal
        self.dialog: QDialog | None = None
        self._page: Page | None = None
        self.scanner = ScanFilter(self)
        self.scanner.scanned.connect(self.scan)
        self.desk, self.tender = DeskView(counter, words, cancel=self.ask_to_cancel), TenderView(counter, words)
        self.receipt, self.refund = ReceiptView(counter, words), RefundView(counter, words)
        self.interrupted, self.rights = InterruptedView(counter, words), RightsPage(counter, words)
        self._pages: dict[Page, PageView] = {
            Page.DESK: self.desk,
            Page.TENDER: self.tender,
            Page.RECEIPT: self.receipt,
            Page.REFUND: self.refund,
            Page.INTERRUPTED: self.interrupted,
            Page.RIGHTS: self.rights,
        }
        self.status_bar = StatusBar(counter, words, clock=clock)
        self._lay_out()
        self._draw_soon = QTimer(self)
        self._draw_soon.setSingleShot(True)
        self._draw_soon.setInterval(DRAW_DELAY_MS)
        self._draw_soon.timeout.connect(self.draw)
        self._tick = QTimer(self)
        self._tick.setInterval(TICK_MS)
        self._tick.timeout.connect(self._ticked)
        self._tick.start()
        words.watch(self.translate)
        if terminal is not None:
            terminal.attend(lambda question: tasks.post(lambda: self._ask_terminal(question)))
        counter.on_change = self.draw_soon
        self.translate()

    def _lay_out(self) -> None:
        self.setMinimumSize(*SMALLEST_PX)
        self.resize(*FIRST_PX)
        self.setWindowIcon(theme.icon("pawtill", theme.TONES["notice"]))
        self.banner, self._banner_text = QFrame(), Label(wrap=True)
        self.banner.setObjectName("banner")
        inside = QHBoxLayout(self.banner)
        inside.setContentsMargins(16, 10, 16, 10)
        picture = Label()
        picture.setPixmap(theme.pixmap("warning", "#FFFFFF", size_px=40))
        inside.addWidget(picture)
        inside.addWidget(self._banner_text, 1)
        self.banner.hide()
        self._stack = QStackedWidget()
        for page in self._pages.values():
            self._stack.addWidget(page)
        self._middle = QHBoxLayout()
        self._middle.setSpacing(0)
        self._middle.addWidget(self._stack, 1)
        central = QWidget()
        central.setObjectName("page")
        whole = QVBoxLayout(central)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(self.banner)
        whole.addLayout(self._middle, 1)
        whole.addWidget(self.status_bar)
        self.setCentralWidget(central)

    def add_side_panel(self, panel: QWidget) -> None:
        """Put a panel at the left edge, beside every page (the demo's things to scan)."""
        self._middle.insertWidget(0, panel)

    # ------------------------------------------------------------------ input

    def scan(self, text: str) -> None:
        """Take a scan; while a question is open, that one is answered first."""
        if isinstance(self.dialog, EntryDialog | ApprovalDialog):
            self.dialog.tell(self.words.text("verdict.answer_first"))
        elif self.dialog is None:
            self.counter.scan(text)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Bring what is typed beside every field into the page's own."""
        field = {Page.DESK: self.desk.scan_field, Page.REFUND: self.refund.number}.get(self.counter.page)
        if field is not None and event.text().isprintable() and event.text().strip() and not field.hasFocus():
            field.setFocus()
            field.insert(event.text())
        else:
            super().keyPressEvent(event)

    def ask_to_cancel(self) -> None:
        """Ask before a basket is thrown away; an empty one goes without a word."""
        if self.counter.page is not Page.DESK or self.dialog is not None:
            return
        if not self.counter.desk.state.basket.items:
            self.counter.cancel_order()
            return
        sure = self.words.text("cancel.text")
        cancel = self.counter.cancel_order
        self._open(ConfirmDialog(self.words, "cancel", text=sure, yes=cancel, yes_key="F10", parent=self))

    def _ask_terminal(self, question: Question) -> None:
        terminal = self._terminal
        assert terminal is not None, "only a terminal asks"

        def answer(given: PaymentAnswer) -> None:
            terminal.answer(question, given)

        self._open(TerminalDialog(question, self.words, answer=answer, parent=self))

    # ------------------------------------------------------------------ dialogs

    def _open(self, dialog: AnyDialog) -> AnyDialog:
        """Open a dialog without waiting for it, its keys watched for scans like the window's own."""
        self.dialog = dialog
        dialog.finished.connect(lambda _result: self._closed(dialog))
        dialog.open()
        self.scanner.watch(dialog.windowHandle())
        return dialog

    def _closed(self, dialog: QDialog) -> None:
        if self.dialog is dialog:
            self.dialog = None
        dialog.deleteLater()
        self.activateWindow()
        self._focus()
        self.draw_soon()

    def _draw_question(self) -> None:
        """Open or close the question for a quantity as the desk's state has it."""
        asked = self.counter.desk.state.asked
        if asked is not None and self.dialog is None and self.counter.page is Page.DESK:
            desk = self.counter.desk
            self._open(EntryDialog(asked, self.words, enter=desk.enter_quantity, drop=desk.drop_question, parent=self))

    def _draw_approval(self) -> None:
        """Open the question for a manager's word, and show what becomes of it."""
        if isinstance(self.dialog, ApprovalDialog):
            self.dialog.draw()
        elif self.counter.approval.state is not None and self.dialog is None:
            self._open(ApprovalDialog(self.counter.approval, self.words, parent=self))

    def _draw_day_question(self) -> None:
        """Ask whether to close the day, with what it gives back."""
        rights = self.counter.rights
        if not rights.state.asked or rights.state.view is None or self.dialog is not None:
            return
        text = "\n\n".join(self.words.say(each) for each in question(rights.state.view))
        self._open(
            ConfirmDialog(
                self.words,
                "close_day",
                text=text,
                yes=rights.close_day,
                no=rights.drop,
                yes_key="F10",
                icon="clock",
                parent=self,
            )
        )

    # ------------------------------------------------------------------ drawing

    def translate(self) -> None:
        """Say everything in the language of the moment."""
        for page in self._pages.values():
            page.translate()
        self.draw_soon()

    def draw_soon(self) -> None:
        """Draw once for all changes of the next milliseconds."""
        if not self._draw_soon.isActive():
            self._draw_soon.start()

    def draw(self) -> None:
        """Draw the page as the presenters have it now."""
        self._adopt_chain()
        trouble = self.counter.trouble
        self.banner.setVisible(trouble is not None)
        if trouble is not None:
            self._banner_text.setText(self.words.say(trouble))
        page = self._pages[self.counter.page]
        page.draw()
        if self.counter.page is not self._page:
            self._page = self.counter.page
            self._stack.setCurrentWidget(page)
            self._focus()
        self.status_bar.draw()
        self._draw_question()
        self._draw_approval()
        self._draw_day_question()
        self.drawn.emit()

    def _adopt_chain(self) -> None:
        """Speak in the chain's currency and the store's time once they are known."""
        chain, words = self.counter.chain, self.words
        if words.currency != chain.currency or str(words.zone) != chain.store_zone:
            words.currency, words.zone = chain.currency, ZoneInfo(chain.store_zone)
        self.setWindowTitle(words.text("app.title", store=chain.store_id, till=chain.till_id))

    def _focus(self) -> None:
        if self.dialog is None:
            self._pages[self.counter.page].setFocus()

    def _ticked(self) -> None:
        self.counter.status.poll()
        self.counter.desk.fetch.tick()
        self.status_bar.draw()

    # ------------------------------------------------------------------ the window itself

    def showEvent(self, event: QShowEvent) -> None:
        """Watch the window's keys from its first showing on."""
        super().showEvent(event)
        self.scanner.watch(self.windowHandle())
        self.draw()
        self._focus()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Close when nothing is under way: what is being decided or given back is waited for on the screen."""
        refund_busy = self.counter.refund.state.busy and self.counter.page is Page.REFUND
        tender_busy = self.counter.tender.state is not None and self.counter.tender.state.busy
        if tender_busy or refund_busy or self.counter.rights.state.busy:
            self.counter.desk.say(not_done("verdict.wait_before_closing"))
            event.ignore()
            return
        self._tick.stop()
        if self._terminal is not None:
            self._terminal.close()
        self._tasks.close()
        event.accept()
