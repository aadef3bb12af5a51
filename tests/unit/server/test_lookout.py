"""What hangs is asked once, and only who came first waits for it."""

from __future__ import annotations

import threading

import pytest

from server.lookout import PATIENCE_S, Lookout


def test_what_hangs_is_asked_once_and_its_answer_is_everybodys() -> None:
    go_on, asked = threading.Event(), []

    def ask() -> str:
        asked.append(threading.current_thread().name)
        go_on.wait(30)
        return "well"

    lookout = Lookout(ask)
    first, second = lookout.look(), lookout.look()
    assert not first.done()
    go_on.set()

    assert (first.result(30), second.result(30)) == ("well", "well")
    assert asked == ["pawtill-lookout"]
    assert lookout.look().result(30) == "well"
    assert len(asked) == 2


def test_who_comes_later_waits_for_the_rest_of_the_patience_alone() -> None:
    go_on, now_s = threading.Event(), [100.0]
    lookout = Lookout(lambda: go_on.wait(30), monotonic=lambda: now_s[0])

    first = lookout.look()
    at_once = lookout.left_s()
    now_s[0] += PATIENCE_S + 1
    lookout.look()
    later = lookout.left_s()
    go_on.set()

    assert (at_once, later) == (PATIENCE_S, 0)
    assert first.result(30)


def test_what_goes_wrong_is_told_and_the_next_question_is_asked_anew() -> None:
    outcomes = iter([ValueError("no"), None])

    def ask() -> str:
        error = next(outcomes)
        if error is not None:
            raise error
        return "well"

    lookout = Lookout(ask)
    with pytest.raises(ValueError, match="no"):
        lookout.look().result(30)

    assert lookout.look().result(30) == "well"
