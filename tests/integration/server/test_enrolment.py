"""Enrolment by a one-time code: 15 minutes, five tries, one use, one store; and what headquarters does with tills.

A code has a name, which is told with each try, and a secret, which never is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.domain.refusals import Refusal
from app.services.ports import Offline
from sync.certificate import BadCertificate, Certificate, issue, read
from sync.client import ServerClient, TillShut
from sync.enrolling import Enrolled, new_attempt
from sync.enrolment import ALPHABET, name_of, read_code, show_code
from sync.identity import Identity, identity_of
from tests.fakes.enrolled import ADDRESS, NewTill, new_code
from tests.fakes.headquarters import Headquarters
from tests.fakes.transport import AsgiLine, Fault, FaultyTransport


@pytest.fixture
def headquarters(on_file: Headquarters) -> Headquarters:
    """Take SQLite alone; what is asked of both databases is in `test_signed_requests`."""
    return on_file


@pytest.fixture
def line(headquarters: Headquarters) -> Iterator[FaultyTransport]:
    wire = AsgiLine(headquarters.app)
    yield FaultyTransport(wire)
    wire.close()


@pytest.fixture
def till(headquarters: Headquarters, line: FaultyTransport) -> NewTill:
    return NewTill(headquarters, line)


def _reason(answer: Enrolled | Refusal) -> Any:
    assert isinstance(answer, Refusal), answer
    return answer.facts.get("reason", answer.code.value)


def _speaks(line: httpx.BaseTransport, key: str | Identity) -> None:
    """Ask something that a till may ask; raises what the client raises."""
    with ServerClient(ADDRESS, key, transport=line) as client:
        assert isinstance(client.get("/v1/orders/o1"), Refusal)


def test_a_till_gets_a_certificate_and_the_chains_keys_for_a_code(headquarters: Headquarters, till: NewTill) -> None:
    attempt = new_attempt()

    enrolled = till.ask(new_code(headquarters), attempt)

    assert isinstance(enrolled, Enrolled) and enrolled.secrets.device is not None
    certificate = read(enrolled.secrets.device.certificate, headquarters.services.chain_key.certificates.public_key())
    assert (certificate.till, certificate.store, certificate.epoch) == ("t1", "s1", 1)
    assert certificate.key_id == attempt.enrolment_id
    assert certificate.not_after > headquarters.clock.now().timestamp()
    assert (enrolled.store_id, enrolled.secrets.code_key) == ("s1", headquarters.services.code_key)


def test_an_enrolled_till_speaks_by_its_signature(till: NewTill, line: FaultyTransport) -> None:
    _speaks(line, till.enrol())


def _mistyped(code: str) -> str:
    """Return the code with a wrong secret."""
    return name_of(code) + "0" * 10


def test_a_code_has_fifty_secret_bits_and_is_read_however_it_is_typed(headquarters: Headquarters) -> None:
    code = new_code(headquarters)

    assert len(code.removeprefix(name_of(code))) == 10 and set(code) <= set(ALPHABET)
    typed = show_code(code).lower().replace("0", "o").replace("1", "l")
    assert read_code(f" {typed} ") == code
    assert [read_code(wrong) for wrong in ("", code[:-1], code + "0", code[:-1] + "U")] == [None] * 4


def test_the_code_never_travels(headquarters: Headquarters, line: FaultyTransport) -> None:
    sent: list[bytes] = []

    def listen(request: httpx.Request) -> httpx.Response:
        answer = line.handle_request(request)
        sent.extend((request.read(), answer.read()))
        return answer

    code = new_code(headquarters)
    NewTill(headquarters, httpx.MockTransport(listen)).ask(code)

    assert sent
    secrets = (code, show_code(code), code.removeprefix(name_of(code)), headquarters.services.code_key.hex())
    assert [secret for secret in secrets for text in sent if secret.encode() in text] == []


def test_a_wrong_code_is_refused_and_the_sixth_try_is_not_looked_at(headquarters: Headquarters, till: NewTill) -> None:
    code = new_code(headquarters)

    reasons = [_reason(till.ask(_mistyped(code))) for _ in range(5)]

    assert reasons == ["code_wrong"] * 5
    assert _reason(till.ask(code)) == "code_tries"


def test_the_fifth_try_may_be_the_right_one(headquarters: Headquarters, till: NewTill) -> None:
    code = new_code(headquarters)
    for _ in range(4):
        till.ask(_mistyped(code))

    assert isinstance(till.ask(code), Enrolled)


def test_who_does_not_know_a_codes_name_uses_none_of_its_tries_up_and_learns_nothing_of_it(
    headquarters: Headquarters, till: NewTill, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, write = [], headquarters.services.database.write
    code = new_code(headquarters)
    strange = "00000" + code.removeprefix(name_of(code))
    monkeypatch.setattr(headquarters.services.database, "write", lambda run: writes.append(run) or write(run))

    assert {_reason(till.ask(strange)) for _ in range(20)} == {"code_wrong"}
    assert writes == []  # nor does the writer of everybody hear of it

    assert isinstance(till.ask(code), Enrolled)
    assert _reason(till.ask(strange)) == "code_wrong"


@pytest.mark.parametrize(("seconds", "outcome"), [(899, "ok"), (900, "code_expired")])
def test_a_code_counts_for_fifteen_minutes_of_the_servers_clock(
    headquarters: Headquarters, till: NewTill, seconds: int, outcome: str
) -> None:
    code = new_code(headquarters)
    headquarters.clock.pass_time(seconds=seconds)

    answer = till.ask(code)

    assert (_reason(answer) if isinstance(answer, Refusal) else "ok") == outcome


def test_a_code_is_used_once(headquarters: Headquarters, till: NewTill) -> None:
    code = new_code(headquarters)
    till.ask(code)

    assert _reason(till.ask(code)) == "code_used"


def test_a_newer_code_makes_the_older_worthless(headquarters: Headquarters, till: NewTill) -> None:
    older, newer = new_code(headquarters), new_code(headquarters)

    assert _reason(till.ask(older)) == "code_wrong"
    assert isinstance(till.ask(newer), Enrolled)


@pytest.mark.parametrize("used", [True, False])
def test_a_newer_code_counts_also_where_the_servers_clock_was_set_back(
    headquarters: Headquarters, till: NewTill, used: bool
) -> None:
    older = new_code(headquarters)
    if used:
        till.ask(older)
    headquarters.clock.pass_time(days=-400)

    assert isinstance(till.ask(new_code(headquarters)), Enrolled)


def test_a_code_is_for_its_till_alone(headquarters: Headquarters, line: FaultyTransport) -> None:
    code = new_code(headquarters, "t1")
    new_code(headquarters, "t2")

    assert _reason(NewTill(headquarters, line, "t2").ask(code)) == "code_wrong"
    assert _reason(NewTill(headquarters, line, "t3").ask(code)) == "code_wrong"


def test_a_code_is_made_for_the_store_in_which_the_till_stands(headquarters: Headquarters, till: NewTill) -> None:
    headquarters.call("PUT", "/v1/stores/s2", {}, status=200)
    code = new_code(headquarters)

    answer = headquarters.call("POST", "/v1/tills/t1/enrolment-codes", {"store": "s2"}, status=409)
    assert (answer["outcome"], answer["facts"]["store"]) == ("wrong_store", "s1")

    headquarters.call("PUT", "/v1/tills/t1", {"store": "s2"}, status=200)
    assert _reason(till.ask(code)) == "wrong_store"


def test_an_answer_that_got_lost_is_given_again_however_late(
    headquarters: Headquarters, till: NewTill, line: FaultyTransport
) -> None:
    code, attempt = new_code(headquarters), new_attempt()
    line.plan(Fault.LOSE_ANSWER)
    with pytest.raises(Offline):
        till.ask(code, attempt)
    headquarters.clock.pass_time(hours=5)

    again = [till.ask(code, attempt) for _ in range(7)]

    assert all(isinstance(each, Enrolled) for each in again)
    assert len({each.secrets.device for each in again if isinstance(each, Enrolled)}) == 1


def test_an_enrolment_that_was_answered_gives_no_other_key_its_place(headquarters: Headquarters, till: NewTill) -> None:
    code, attempt = new_code(headquarters), new_attempt()
    till.ask(code, attempt)
    other = new_attempt()
    stolen = type(other)(attempt.enrolment_id, other.private_key)

    assert _reason(till.ask(code, stolen)) == "duplicate_mismatch"


def test_who_does_not_know_the_code_cannot_answer_in_the_servers_place(headquarters: Headquarters) -> None:
    def pretend(request: httpx.Request) -> httpx.Response:
        return httpx.Response(201, json={"outcome": "ok", "sealed": "QUJD" * 40})

    with pytest.raises(Offline, match="foreign_answer"):
        NewTill(headquarters, httpx.MockTransport(pretend)).ask(new_code(headquarters))


def test_the_answer_to_one_question_opens_under_no_other(
    headquarters: Headquarters, till: NewTill, line: FaultyTransport
) -> None:
    code, attempt = new_code(headquarters), new_attempt()
    till.ask(code, attempt)
    line.plan(Fault.STALE_ANSWER)

    with pytest.raises(Offline, match="foreign_answer"):
        till.ask(code, attempt)


def test_the_till_that_was_replaced_hears_so_and_the_new_one_speaks(till: NewTill, line: FaultyTransport) -> None:
    old = till.enrol()
    new = till.enrol()

    with pytest.raises(TillShut, match="till_replaced"):
        _speaks(line, old)
    _speaks(line, new)


def test_a_suspended_till_hears_so_at_once_and_speaks_again_when_it_is_resumed(
    headquarters: Headquarters, till: NewTill, line: FaultyTransport
) -> None:
    identity = till.enrol()
    _speaks(line, identity)

    headquarters.call("POST", "/v1/tills/t1/suspend", {"reason": "looked at"}, status=200)
    with pytest.raises(TillShut, match="till_suspended"):
        _speaks(line, identity)
    assert _reason(till.ask(new_code(headquarters))) == "till_suspended"

    headquarters.call("POST", "/v1/tills/t1/resume", status=200)
    _speaks(line, identity)


def test_a_revoked_till_speaks_again_by_a_new_enrolment_alone(
    headquarters: Headquarters, till: NewTill, line: FaultyTransport
) -> None:
    identity = till.enrol()
    headquarters.call("POST", "/v1/tills/t1/revoke", {"reason": "stolen"}, status=200)

    with pytest.raises(TillShut, match="till_revoked"):
        _speaks(line, identity)
    for event in ("resume", "suspend"):
        body = {"reason": "no"} if event == "suspend" else None
        answer = headquarters.call("POST", f"/v1/tills/t1/{event}", body, status=409)
        assert answer["facts"]["reason"] == "till_revoked"

    _speaks(line, till.enrol())


def test_a_code_from_before_does_not_bring_a_revoked_till_back(headquarters: Headquarters, till: NewTill) -> None:
    """It may have been with the till when that was stolen."""
    till.enrol()
    code = new_code(headquarters)
    for _ in range(2):
        headquarters.call("POST", "/v1/tills/t1/revoke", {"reason": "stolen"}, status=200)

        assert _reason(till.ask(code)) == "code_wrong"
        code = new_code(headquarters)

    assert isinstance(till.ask(code), Enrolled)


def test_a_revoked_till_that_asks_by_a_new_code_for_the_key_that_it_has_speaks_again(
    headquarters: Headquarters, till: NewTill, line: FaultyTransport
) -> None:
    """A till that died, or whose keyring did, before it forgot that it had asked."""
    attempt, first = new_attempt(), new_code(headquarters)
    till.ask(first, attempt)
    headquarters.call("POST", "/v1/tills/t1/revoke", {"reason": "lost"}, status=200)

    late = till.ask(first, attempt)
    assert isinstance(late, Enrolled) and late.secrets.device is not None
    with pytest.raises(TillShut, match="till_revoked"):
        _speaks(line, identity_of(late.secrets.device, headquarters.clock))
    till.ask(new_code(headquarters), attempt)

    _speaks(line, identity_of(late.secrets.device, headquarters.clock))


@pytest.mark.parametrize("event", ["suspend", "resume", "revoke"])
def test_a_till_that_is_not_there_is_not_found(headquarters: Headquarters, event: str) -> None:
    body = None if event == "resume" else {"reason": "lost"}
    headquarters.call("POST", f"/v1/tills/t9/{event}", body, status=404)


def test_a_stolen_database_has_no_code_and_no_key_in_it(on_file: Headquarters, till: NewTill) -> None:
    code = new_code(on_file)
    identity = till.enrol()
    later = new_code(on_file)

    with sqlite3.connect(on_file.database.path or "") as stolen:
        text = "\n".join(stolen.iterdump()).lower()
    stolen.close()

    chain = on_file.services.chain_key
    keys = (chain.secret, chain.codes, *(key.private_bytes_raw() for key in (chain.answers, chain.certificates)))
    known = (code, later, show_code(later), identity.private_key.private_bytes_raw().hex(), *(k.hex() for k in keys))
    assert [secret for secret in known if secret.lower() in text] == []


def test_a_certificate_of_another_chain_or_a_changed_one_is_none(headquarters: Headquarters) -> None:
    ours, theirs = headquarters.services.chain_key.certificates, headquarters.services.chain_key.answers
    certificate = Certificate("k", "t1", "s1", 1, "00", 1)
    body, signature = issue(certificate, ours).split(".")

    assert read(f"{body}.{signature}", ours.public_key()) == certificate
    for wrong in (issue(certificate, theirs), body, f"{body}.{body}", f"{body[:-8]}AAAA{body[-4:]}.{signature}", ""):
        with pytest.raises(BadCertificate):
            read(wrong, ours.public_key())


@pytest.mark.parametrize("field", ["code_name", "enrolment", "public_key", "nonce", "proof"])
def test_an_enrolment_of_the_wrong_shape_is_malformed_and_costs_no_try(headquarters: Headquarters, field: str) -> None:
    code = new_code(headquarters)
    body = {"till": "t1", "code_name": name_of(code), "enrolment": "0" * 32, "public_key": "0" * 64}
    body |= {"nonce": "0" * 64, "proof": "0" * 64}

    for _ in range(6):
        headquarters.call("POST", "/v1/enrolments", {**body, field: "zz"}, key="", status=422)

    assert headquarters.call("POST", "/v1/enrolments", body, key="")["facts"]["reason"] == "code_wrong"
