"""The audit beside live traffic: it sees one moment, and keeps nobody waiting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from server.services.audit import AuditReport, audit
from tests.fakes.counter import Counter, coupon
from tests.fakes.headquarters import Headquarters

PATIENCE_S = 30


def test_an_audit_sees_one_moment_while_everything_is_written_beside_it(counter: Counter) -> None:
    hq = counter.hq
    hq.campaign("a", stock=9, budget="900.00")
    hq.campaign("z", stock=99, budget="900.00")
    held = counter.basket("held", "A", member="m1", use=(coupon(hq, request="held", campaign="z"),))
    counter.hold(held, status=200)
    moments = 0

    def traffic() -> None:
        """Grant, hold, sell, give back, and raise a stock: one of each for every line that the audit tells."""
        nonlocal moments
        moments += 1
        name = str(moments)
        hq.call("POST", "/v1/members", {"id": f"n{name}", "home_store": "s1", "label": ""}, status=200)
        mine = coupon(hq, request=name, campaign="z", member=f"n{name}")
        counter.hold_and_sell(counter.basket(name, "A", ("B", 2000), member=f"n{name}", use=(mine,)))
        counter.push()
        counter.refund(name, (1, 1000), request=f"back{name}", status=200)
        counter.hold(counter.basket(f"open{name}", "A", promotions=False), value_minor=0, status=200)

    with ThreadPoolExecutor(1) as beside:
        lines: list[str] = []

        def tell(line: str) -> None:
            lines.append(line)
            beside.submit(traffic).result(PATIENCE_S)

        report: AuditReport = hq.services.read(lambda conn, ctx: audit(conn, ctx, tell=tell))

    assert report.clean and lines[-1] == "audit: clean"
    assert moments == len(lines) > 4
    # Told after much was granted and given: as it was when the audit began.
    assert "campaign z: total 99 + over 0 = available 98 + reserved 0 + leased 0 + granted 1 + stranded 0" in lines
    assert next(line for line in lines if line.startswith("budget z")) == (
        "budget z: total 900.00 + over 0.00 = available 890.00 + held 10.00 + reserved 0.00 + leased 0.00"
        " + given 0.00 + stranded 0.00"
    )
    assert hq.stock("z")["granted"] == 1 + moments
    assert hq.services.read(audit).clean


def test_audits_of_a_busy_server_are_clean_each_time(headquarters: Headquarters) -> None:
    headquarters.campaign("c1", stock=500)
    people = [f"n{number}" for number in range(60)]
    for person in people:
        headquarters.call("POST", "/v1/members", {"id": person, "home_store": "s1", "label": ""}, status=200)
    coupon(headquarters, request="first", member=people[0])

    with ThreadPoolExecutor(1) as beside:
        selling = beside.submit(lambda: [coupon(headquarters, request=each, member=each) for each in people[1:]])
        reports = [headquarters.services.read(audit)]
        while not selling.done():
            reports.append(headquarters.services.read(audit))
        selling.result()

    assert all(report.clean for report in reports)
    assert headquarters.stock()["granted"] == len(people)
