"""What is counted, under which names, and that no label can grow without bound."""

from __future__ import annotations

import uuid

import pytest

from server import metrics
from server.hot_campaigns import OTHER


def value(name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


def test_a_claim_is_counted_by_campaign_and_outcome_and_its_time_only_where_it_is_durable() -> None:
    campaign = metrics.hot.named()[0] if len(metrics.hot.named()) == metrics.NAMED_MAX else uuid.uuid4().hex
    before = value("pawtill_grant_seconds_count")

    metrics.claim_answered(campaign, "granted", 0.02)
    metrics.claim_answered(campaign, "out_of_stock")

    assert value("pawtill_claims_total", campaign=campaign, outcome="granted") >= 1
    assert value("pawtill_claims_total", campaign=campaign, outcome="out_of_stock") >= 1
    assert value("pawtill_grant_seconds_count") == before + 1


def test_ten_thousand_campaigns_make_no_more_than_fifty_labels_and_other() -> None:
    for number in range(10_000):
        metrics.claim_answered(f"many-{number}", "granted")

    labels = {
        sample.labels["campaign"]
        for metric in metrics.registry.collect()
        if metric.name == "pawtill_claims"
        for sample in metric.samples
    }
    assert len(labels) <= metrics.NAMED_MAX + 1
    assert OTHER in labels


def test_folding_keeps_the_largest_and_loses_no_unit() -> None:
    counts = {f"c{number}": number for number in range(1, 201)}

    folded = metrics.fold(counts)

    assert len(folded) == metrics.NAMED_MAX + 1
    assert sum(folded.values()) == sum(counts.values())
    assert folded["c200"] == 200 and "c1" not in folded


def test_redis_is_in_one_state_at_a_time() -> None:
    metrics.redis_state("down")
    metrics.redis_state("ready")

    assert {state: value("pawtill_redis_state", state=state) for state in metrics.REDIS_STATES} == {
        state: float(state == "ready") for state in metrics.REDIS_STATES
    }


def test_a_state_that_nobody_knows_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="no state of Redis"):
        metrics.redis_state("sleepy")


def test_a_method_that_somebody_invents_is_no_label() -> None:
    metrics.request_answered("PROPFIND", None, status=404, seconds=0.001)

    assert value("pawtill_http_requests_total", method=OTHER, route="none", status="404") >= 1
