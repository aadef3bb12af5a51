"""Batch issue: whoever works and dies, and however the list comes, by a filter or as a file, everyone gets one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from server.jobs.issuing import work_off
from server.services import issue_lists, issue_work
from server.services.grants import Wanted, grant
from server.services.issue_work import LEASE, NotOurs
from tests.fakes.headquarters import Headquarters
from tests.integration.server.batch import (
    MEMBERS,
    begin,
    counts,
    failures,
    found,
    names,
    send,
    show,
    steer,
    take,
    work_on,
)


@pytest.fixture
def chain(headquarters: Headquarters) -> Headquarters:
    """Set up twelve members and a campaign c1 of ten coupons."""
    return found(headquarters)


# ------------------------------------------------------------------ workers


def test_two_workers_never_hold_one_chunk(chain: Headquarters) -> None:
    begin(chain, members=names())

    numbers = [take(chain).number for _ in range(4)]

    assert numbers == [1, 2, 3, 4]
    assert chain.services.write(issue_work.lease) is None


def test_what_a_dead_worker_held_goes_on_when_its_lease_is_over(chain: Headquarters) -> None:
    begin(chain, members=names(3))
    dead = take(chain)
    chain.clock.pass_time(seconds=LEASE.total_seconds())

    work_off(chain.services)

    assert counts(chain) == ("DONE", 3, 0)
    with pytest.raises(NotOurs):
        work_on(chain, dead)
    assert chain.stock()["granted"] == 3


def test_a_late_worker_is_refused_while_the_new_one_is_still_at_work(chain: Headquarters) -> None:
    begin(chain, members=names(3))
    late = take(chain)
    chain.clock.pass_time(seconds=LEASE.total_seconds())
    take(chain)

    with pytest.raises(NotOurs):
        work_on(chain, late)

    assert chain.stock()["granted"] == 0


def test_control_it_is_the_fence_alone_that_refuses_a_late_worker(chain: Headquarters) -> None:
    begin(chain, members=names(3))
    late = take(chain)
    chain.clock.pass_time(seconds=LEASE.total_seconds())
    new = take(chain)

    work_on(chain, replace(late, fence=new.fence))

    assert chain.stock()["granted"] == 3


def test_resume_takes_what_a_worker_holds_at_once(chain: Headquarters) -> None:
    begin(chain, members=names(3))
    late = take(chain)

    steer(chain, "resume")
    work_off(chain.services)

    assert counts(chain) == ("DONE", 3, 0)
    with pytest.raises(NotOurs):
        work_on(chain, late)


def test_a_clock_that_was_set_back_holds_no_chunk_for_ever(chain: Headquarters) -> None:
    chain.clock.pass_time(hours=24)
    begin(chain, members=names(3))
    take(chain)
    chain.clock.pass_time(hours=-24)

    work_off(chain.services)

    assert counts(chain) == ("DONE", 3, 0)


def test_claims_between_the_chunks_take_from_the_same_stock(chain: Headquarters) -> None:
    begin(chain, members=names())
    work_off(chain.services, die_after=2)
    wanted = [Wanted(f"claim:{number}", "c1", f"m{number}", "app") for number in (11, 12)]
    claimed = chain.services.write(lambda conn, ctx: grant(conn, ctx, wanted))

    steer(chain, "resume")
    work_off(chain.services)

    assert [answer["outcome"] for answer in claimed] == ["ok", "ok"]
    assert counts(chain) == ("DONE", 8, 4)
    assert chain.stock()["granted"] == 10


def test_the_worker_rests_behind_a_chunk_before_which_others_wrote(headquarters: Headquarters) -> None:
    headquarters.furnish(members=MEMBERS)
    headquarters.campaign(per_member=99)
    begin(headquarters, members=names())
    rests: list[bool] = []

    def rest(seconds: float) -> None:
        rests.append(seconds > 0)
        if len(rests) == 1:
            wanted = [Wanted("claim:live", "c1", "m1", "app")]
            headquarters.services.write(lambda conn, ctx: grant(conn, ctx, wanted))

    work_off(headquarters.services, rest=rest)

    # Four chunks: behind the first and the last there is nothing to compare, or nothing left to do.
    assert rests == [False, True]


# ------------------------------------------------------------------ filters


def _join(chain: Headquarters, member: str, **more: str) -> None:
    chain.call("POST", "/v1/members", {"id": member, "home_store": "s1", **more}, status=200)


@pytest.mark.parametrize(
    ("chosen", "granted"),
    [({}, 15), ({"tiers": ["gold"]}, 2), ({"home_stores": ["s2"]}, 2), ({"tiers": ["gold"], "home_stores": ["s2"]}, 1)],
)
def test_a_filter_chooses_by_tier_and_home_store(chain: Headquarters, chosen: dict[str, Any], granted: int) -> None:
    chain.campaign("all")
    chain.call("PUT", "/v1/stores/s2", {}, status=200)
    _join(chain, "gold-1", tier="gold")
    _join(chain, "gold-2", tier="gold", home_store="s2")
    _join(chain, "basic-2", home_store="s2")

    created = begin(chain, campaign="all", filter=chosen)
    work_off(chain.services)

    assert created["state"] == "LOADING"
    assert counts(chain) == ("DONE", granted, 0)


def test_a_filter_of_many_pages_takes_everyone_once(headquarters: Headquarters) -> None:
    headquarters.furnish(members=130)
    headquarters.campaign()
    begin(headquarters, filter={}, chunk=2)

    work_off(headquarters.services)

    assert counts(headquarters) == ("DONE", 130, 0)
    assert show(headquarters)["total"] == 130


def test_two_workers_who_read_the_same_page_load_it_once(chain: Headquarters) -> None:
    begin(chain, filter={})
    page = chain.services.read(lambda conn, _ctx: issue_lists._page(conn))
    assert page is not None
    issue_lists.load_more(chain.services)

    with pytest.raises(issue_lists.LoadLost):
        chain.services.write(lambda conn, ctx: issue_lists._append_page(conn, ctx, page[0], members=page[1]))

    assert show(chain)["total"] == 12


def test_nothing_is_granted_while_the_list_is_loading(chain: Headquarters) -> None:
    begin(chain, filter={})

    assert chain.services.write(issue_work.lease) is None


# ------------------------------------------------------------------ files


def test_a_file_of_members_makes_the_task_run(chain: Headquarters) -> None:
    waiting = begin(chain)

    sent = send(chain, "/v1/issues/t1/members", b"member\nm1\nm2\n").json()
    work_off(chain.services)

    assert waiting["state"] == "LOADING"
    assert (sent["state"], sent["total"], sent["unreadable"]) == ("RUNNING", 2, [])
    assert counts(chain) == ("DONE", 2, 0)


def test_lines_that_cannot_be_read_are_told_at_once_and_stand_among_the_failures(chain: Headquarters) -> None:
    begin(chain)

    sent = send(chain, "/v1/issues/t1/members", b"m1\n\na b\n=1/2\nm2\nm3").json()
    work_off(chain.services)

    assert sent["unreadable"] == [{"line": 3, "text": "a b"}, {"line": 4, "text": "=1/2"}]
    assert (sent["total"], sent["failed"]) == (5, 2)
    assert counts(chain) == ("DONE", 3, 2)
    assert [row[:3] for row in failures(chain)[1:]] == [
        ["3", "a b", "unreadable_code"],
        ["4", "'=1/2", "unreadable_code"],
    ]


def test_a_file_of_nothing_but_bad_lines_is_done(chain: Headquarters) -> None:
    begin(chain)
    send(chain, "/v1/issues/t1/members", b"a b\n" * 10)

    work_off(chain.services)

    assert counts(chain) == ("DONE", 0, 10)


def test_the_file_of_failures_can_be_sent_as_the_next_task(chain: Headquarters) -> None:
    _join(chain, "-m")
    begin(chain, members=[*names(10), "-m", "m11"])
    work_off(chain.services)
    file = send(chain, "/v1/issues/t1/failures").content
    chain.call("POST", "/v1/campaigns/c1/stock", {"by": 5}, status=200)

    begin(chain, "t2")
    send(chain, "/v1/issues/t2/members", file)
    work_off(chain.services)

    assert (show(chain, "t2")["granted"], show(chain, "t2")["failed"]) == (2, 0)


def test_an_upload_that_broke_off_is_begun_anew(chain: Headquarters) -> None:
    begin(chain)
    load = chain.services.write(lambda conn, _ctx: issue_lists.begin(conn, "t1"))
    assert isinstance(load, int)
    chunk = issue_lists.Chunk(1, ["m1"], [], 1)
    chain.services.write(lambda conn, _ctx: issue_lists.append(conn, "t1", [chunk], load=load, number=1))

    sent = send(chain, "/v1/issues/t1/members", b"m2\nm3\n").json()

    assert sent["total"] == 2
    with pytest.raises(issue_lists.LoadLost):
        chain.services.write(lambda conn, _ctx: issue_lists.append(conn, "t1", [chunk], load=load, number=2))


def test_a_file_for_a_task_that_runs_or_is_not_there_is_refused(chain: Headquarters) -> None:
    begin(chain, members=names())

    running = send(chain, "/v1/issues/t1/members", b"m1\n")
    nothing = send(chain, "/v1/issues/t9/members", b"m1\n")

    assert (running.status_code, running.json()["outcome"]) == (409, "illegal_transition")
    assert nothing.status_code == 404
    assert show(chain)["total"] == 12


def test_a_large_file_is_read_beyond_the_bound_of_other_bodies(chain: Headquarters) -> None:
    begin(chain, chunk=2000)
    lines = b"".join(b"a-member-with-a-long-name-%012d\n" % number for number in range(120_000))
    assert len(lines) > 4 * 1024 * 1024

    sent = send(chain, "/v1/issues/t1/members", lines)

    assert (sent.status_code, sent.json()["total"]) == (200, 120_000)


def test_members_and_a_filter_at_once_are_no_request(chain: Headquarters) -> None:
    assert begin(chain, members=["m1"], filter={}, status=422)["error"] == "invalid_request"


def test_failures_of_an_unknown_task_are_not_found(chain: Headquarters) -> None:
    assert send(chain, "/v1/issues/t9/failures").status_code == 404
