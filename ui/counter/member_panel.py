"""Show the member on the order: tier, balance, punch cards, and what each coupon would do, or why it would not."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.domain.refusals import RefusalCode
from app.services.api import CardView, UsableCoupon
from ui import theme
from ui.counter.desk_presenter import DeskPresenter
from ui.counter.desk_state import DeskState
from ui.widgets import TOUCH_PX, KeyButton, Label, emptied, rule, scrolled, surface
from ui.words import Words, campaign_name

# What cannot be used now is said in words and a calm grey; the colour of a refusal is for what was asked for.
_PICTURES = {
    "accepted": ("accepted", theme.TONES["accepted"]),
    "refused": ("refused", theme.TONES["refused"]),
    "unusable": ("cancel", "#4A5A68"),
    "coupon": ("coupon", theme.TONES["notice"]),
    "punch": ("punch", theme.TONES["notice"]),
}


COUPON = "coupon"

_SAID_BESIDE = frozenset({RefusalCode.NEEDS_ONLINE, RefusalCode.NEEDS_APPROVAL})
"""Reasons that the list says in two words: the desk has a sentence, and a button where there is something to do."""


class MemberPanel(QWidget):
    """Draw the member of the desk's state."""

    def __init__(self, desk: DeskPresenter, words: Words) -> None:
        super().__init__()
        self._desk, self._words = desk, words
        self._drawn: object = None
        self._label, self._facts = Label("heading"), Label("muted", wrap=True)
        self._off = KeyButton(words, "member.remove", desk.remove_member)
        frame, inside = surface()
        head = QHBoxLayout()
        picture = Label()
        picture.setPixmap(theme.pixmap("person", size_px=36))
        names = QVBoxLayout()
        names.setSpacing(0)
        names.addWidget(self._label)
        names.addWidget(self._facts)
        head.addWidget(picture)
        head.addLayout(names, 1)
        head.addWidget(self._off)
        inside.addLayout(head)
        self._list = QVBoxLayout()
        self._list.setContentsMargins(0, 0, 0, 0)
        self._list.setSpacing(4)
        inside.addWidget(scrolled(self._list), 1)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(frame)

    def draw(self, state: DeskState) -> None:
        """Show the member, unless nothing about it changed."""
        shown = (state.member, state.coupons, state.basket.use, state.basket.covers, state.quote, self._words.language)
        if shown == self._drawn:
            return
        self._drawn = shown
        focused = self._focused_coupon()
        self._off.translate()
        self._off.setVisible(state.basket.member_id is not None)
        emptied(self._list)
        member = state.member
        if member is None:
            named = state.basket.member_id is not None
            self._label.setText(self._words.text("member.loading" if named else "member.none"))
            self._facts.setText(self._words.text("member.hint"))
        else:
            self._label.setText(f"{member.label or member.id} · {self._words.tier(member.tier)}")
            self._facts.setText(self._words.text("member.balance", balance_minor=member.balance_minor))
        self._draw_strangers(state)
        for card in member.cards if member else ():
            self._list.addWidget(self._card(card, state))
        if member is not None and not state.coupons:
            self._list.addWidget(_text_row(self._words.text("member.no_coupons")))
        for coupon in state.coupons:
            self._list.addWidget(self._coupon(coupon, state))
        self._focus_coupon(focused)

    def _buttons(self) -> list[KeyButton]:
        """List the coupons' buttons that are shown now; those made anew for the last state are on their way out."""
        return [button for button in self.findChildren(KeyButton) if button.property(COUPON) and not button.isHidden()]

    def _focused_coupon(self) -> object:
        return next((button.property(COUPON) for button in self._buttons() if button.hasFocus()), None)

    def _focus_coupon(self, coupon_id: object) -> None:
        """Give the focus back to the coupon that had it: its button was made anew."""
        for button in self._buttons():
            if coupon_id is not None and button.property(COUPON) == coupon_id:
                button.setFocus()

    def _draw_strangers(self, state: DeskState) -> None:
        """Show coupons on the order that are nobody's or not (yet) in the member's list."""
        listed = {coupon.coupon.id for coupon in state.coupons}
        refused = state.quote.refused if state.quote else {}
        for coupon_id in state.basket.use:
            if coupon_id in listed:
                continue
            reason = refused.get(coupon_id)
            if reason is None:
                line = self._taken_off(coupon_id, state)
            else:
                sentence = self._words.refusal(reason, names=state.names)
                line = sentence.title if reason.code is RefusalCode.NEEDS_APPROVAL else sentence.text
            self._list.addWidget(
                _row(
                    "refused" if reason else "accepted",
                    self._words.name(state.names.get(coupon_id, coupon_id)),
                    line,
                    button=self._toggle(coupon_id, used=True),
                )
            )

    def _coupon(self, coupon: UsableCoupon, state: DeskState) -> QFrame:
        coupon_id = coupon.coupon.id
        title = self._words.name(campaign_name(coupon.coupon.rule, coupon.coupon.campaign_id))
        on_order = coupon_id in state.basket.use
        reason = state.quote.refused.get(coupon_id) if on_order and state.quote else coupon.refusal
        if reason is not None:
            sentence = self._words.refusal(reason, names=state.names)
            # Offline many coupons have the same reason: a list of it in full would hide the coupons' names.
            line = sentence.title if reason.code in _SAID_BESIDE else sentence.text
            button = self._toggle(coupon_id, used=True) if on_order else None
            return _row(
                "refused" if on_order else "unusable",
                title,
                line,
                button=button,
            )
        if on_order:
            line = self._taken_off(coupon_id, state)
            return _row("accepted", title, line, button=self._toggle(coupon_id, used=True))
        line = self._words.text("member.would_take", off_minor=coupon.discount_minor)
        return _row("coupon", title, line, button=self._toggle(coupon_id, used=False))

    def _taken_off(self, coupon_id: str, state: DeskState) -> str:
        laid = state.quote.laid if state.quote else ()
        off_minor = sum(stage.discount_minor for stage in laid if stage.coupon_id == coupon_id)
        return self._words.text("member.takes", off_minor=off_minor)

    def _toggle(self, coupon_id: str, *, used: bool) -> QPushButton:
        button = KeyButton(
            self._words,
            "member.coupon_off" if used else "member.coupon_use",
            lambda: self._desk.toggle_coupon(coupon_id),
        )
        button.setProperty(COUPON, coupon_id)
        return button

    def _card(self, card: CardView, state: DeskState) -> QFrame:
        used = sum(cover.card_id == card.id for cover in state.basket.covers)
        key = "member.card_used" if used else "member.card"
        line = self._words.text(key, uses_left=card.uses_left, used=used)
        if used:
            button = KeyButton(self._words, "member.card_off", lambda: self._desk.uncover(card.id))
        else:
            button = KeyButton(self._words, "member.card_use", lambda: self._desk.cover(card.id, service=card.service))
        title = self._words.name(state.names.get(card.service, card.service_title))
        return _row("accepted" if used else "punch", title, line, button=button)


def _row(icon: str, title: str, line: str, *, button: QPushButton | None = None) -> QFrame:
    row = QFrame()
    inside = QHBoxLayout(row)
    inside.setContentsMargins(0, 2, 0, 2)
    inside.setSpacing(8)
    picture = Label()
    drawn, tone = _PICTURES[icon]
    picture.setPixmap(theme.pixmap(drawn, tone, size_px=26))
    picture.setFixedSize(QSize(28, TOUCH_PX))
    texts = QVBoxLayout()
    texts.setSpacing(0)
    name = Label(wrap=True)
    name.setText(title)
    below = Label("muted", wrap=True)
    below.setText(line)
    texts.addWidget(name)
    texts.addWidget(below)
    inside.addWidget(picture, 0, Qt.AlignmentFlag.AlignTop)
    inside.addLayout(texts, 1)
    if button is not None:
        inside.addWidget(button, 0, Qt.AlignmentFlag.AlignVCenter)
    whole = QFrame()
    outer = QVBoxLayout(whole)
    outer.setContentsMargins(0, 0, 0, 0)
    outer.setSpacing(2)
    outer.addWidget(rule())
    outer.addWidget(row)
    return whole


def _text_row(text: str) -> Label:
    label = Label("muted", wrap=True)
    label.setText(text)
    return label
