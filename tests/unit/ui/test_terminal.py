"""The card terminal beside the till: the till waits for the cashier's answer, and nothing is ever answered twice."""

from __future__ import annotations

import queue
from concurrent.futures import ThreadPoolExecutor

from app.domain.tenders import TenderType
from app.services.ports import NoAnswer, NotPaid, Paid
from ui.counter.terminal import CashierTerminal, Question


def attended() -> tuple[CashierTerminal, queue.Queue[Question], ThreadPoolExecutor]:
    terminal, asked = CashierTerminal(), queue.Queue[Question]()
    terminal.attend(asked.put)
    return terminal, asked, ThreadPoolExecutor(2)


def test_the_till_gets_the_cashiers_answer() -> None:
    terminal, asked, threads = attended()
    answer = threads.submit(terminal.charge, "p1", TenderType.CARD, 10000)
    question = asked.get(timeout=5)

    terminal.answer(question, Paid())

    assert answer.result(timeout=5) == Paid()
    assert (question.kind, question.amount_minor, question.again) == (TenderType.CARD, 10000, False)


def test_a_query_knows_the_amount_of_its_charge() -> None:
    terminal, asked, threads = attended()
    threads.submit(terminal.charge, "p1", TenderType.WALLET, 5000)
    terminal.answer(asked.get(timeout=5), NoAnswer())

    answer = threads.submit(terminal.query, "p1")
    question = asked.get(timeout=5)
    terminal.answer(question, NotPaid())

    assert (question.kind, question.amount_minor, question.again) == (TenderType.WALLET, 5000, True)
    assert answer.result(timeout=5) == NotPaid()


def test_a_payment_of_before_the_restart_is_asked_about_without_its_amount() -> None:
    terminal, asked, threads = attended()
    answer = threads.submit(terminal.query, "old")
    question = asked.get(timeout=5)

    terminal.answer(question, Paid())

    assert question.amount_minor is None and answer.result(timeout=5) == Paid()


def test_an_answer_to_an_earlier_question_changes_nothing() -> None:
    terminal, asked, threads = attended()
    threads.submit(terminal.charge, "p1", TenderType.CARD, 1)
    first = asked.get(timeout=5)
    terminal.answer(first, NotPaid())
    answer = threads.submit(terminal.charge, "p2", TenderType.CARD, 2)
    second = asked.get(timeout=5)

    terminal.answer(first, Paid())
    terminal.answer(second, NoAnswer())

    assert answer.result(timeout=5) == NoAnswer()


def test_without_a_window_nobody_knows() -> None:
    assert CashierTerminal().charge("p1", TenderType.CARD, 1) == NoAnswer()


def test_a_window_that_closes_leaves_the_payment_unknown() -> None:
    terminal, asked, threads = attended()
    answer = threads.submit(terminal.charge, "p1", TenderType.CARD, 1)
    asked.get(timeout=5)

    terminal.close()

    assert answer.result(timeout=5) == NoAnswer() and terminal.query("p1") == NoAnswer()
