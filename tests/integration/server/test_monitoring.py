"""The dashboard and the alert rules can be loaded, and ask for nothing that is not there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.resources import as_file, files
from typing import Any

import pytest
import yaml

from server import metrics
from server.jobs.report import Job, JobReport
from server.jobs.scheduler import Scheduler
from server.scrape import Scrape
from tests.fakes.headquarters import Headquarters

FOLDER = files("resources.monitoring")
OF_PROMETHEUS = {"le", "job", "instance", "worker"}
"""Labels that Prometheus or the merging of processes adds."""


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(FOLDER.joinpath("grafana-pawtill.json").read_text("utf-8"))
    return loaded


def rules() -> list[dict[str, Any]]:
    loaded = yaml.safe_load(FOLDER.joinpath("prometheus-alerts.yml").read_text("utf-8"))
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def expressions() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", []))
    yield from (rule["expr"] for rule in rules())
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


@pytest.fixture
def known(headquarters: Headquarters) -> dict[str, set[str]]:
    """Return the name of every series that a server may show, with its labels."""
    headquarters.campaign(stock=5)
    found: dict[str, set[str]] = {}
    for name, metric in metrics.registry._names_to_collectors.items():
        found[name] = set(getattr(metric, "_labelnames", ()))
    for family in Scrape(headquarters.services)._gauges():
        found[family.name] = {label for sample in family.samples for label in sample.labels}
    # Without a finding and without Redis there is no sample; tests/integration/admission/test_seen.py shows the second.
    found |= {"pawtill_findings_open": {"kind"}, "pawtill_reserved": {"campaign"}}
    return found


def test_every_metric_of_dashboard_and_rules_exists(known: dict[str, set[str]]) -> None:
    asked = {name for expression in expressions() for name in re.findall(r"pawtill_\w+", expression)}

    assert sorted(asked - set(known)) == []
    assert len(asked) >= 20


def test_every_label_that_is_matched_exists(known: dict[str, set[str]]) -> None:
    missing = [
        (name, label)
        for expression in expressions()
        for name, matchers in re.findall(r"(pawtill_\w+)\{([^}]*)\}", expression)
        for label in re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", matchers)
        if label not in known[name] | OF_PROMETHEUS
    ]

    assert missing == []


def test_every_label_that_is_grouped_by_exists(known: dict[str, set[str]]) -> None:
    missing = [
        (expression, label)
        for expression in expressions()
        for labels in re.findall(r"by \(([^)]*)\)", expression)
        for label in labels.split(", ")
        if not any(
            label in known[name] | OF_PROMETHEUS for name in re.findall(r"pawtill_\w+", expression) if name in known
        )
    ]

    assert missing == []


def test_everything_that_is_counted_is_shown_somewhere(known: dict[str, set[str]]) -> None:
    text = " ".join(expressions())

    unseen = {name for name in known if name.startswith("pawtill_") and _base(name, known) not in text}

    assert unseen == set()


def _base(name: str, known: dict[str, set[str]]) -> str:
    base = re.sub(r"_(total|created|bucket|sum|count)$", "", name)
    return base if base in known else name


def test_every_panel_has_its_place_and_its_number() -> None:
    panels = dashboard()["panels"]

    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_every_alert_says_in_both_languages_what_is_wrong_and_what_to_do() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in {"page", "warning", "info"}
        for text in (rule["annotations"]["summary"], rule["annotations"]["description"]):
            assert re.search("[\u4e00-\u9fff]", text) and re.search("[a-z]{3}", text), rule["alert"]
    assert len({rule["alert"] for rule in rules()}) == len(rules())


def test_every_label_that_an_alert_names_is_still_there_behind_its_expression() -> None:
    lost = [
        (rule["alert"], label)
        for rule in rules()
        for text in rule["annotations"].values()
        for label in re.findall(r"\$labels\.(\w+)", text)
        if label not in _grouped_by(rule["expr"])
    ]

    assert lost == []


def test_an_alert_of_something_that_many_processes_show_is_one_alert() -> None:
    """A number of the chain is shown by every server, under the label of each."""
    single = [rule["alert"] for rule in rules() if not re.match(r"(sum|max|min|histogram_quantile)\b", rule["expr"])]

    assert single == ["PawtillDown"]


def _grouped_by(expression: str) -> set[str]:
    return {label for labels in re.findall(r"by \(([^)]*)\)", expression) for label in labels.split(", ")}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool comes with Prometheus")
def test_the_rules_say_what_they_should_to_numbers_that_go_wrong() -> None:
    with as_file(FOLDER) as folder:
        asked = ["promtool", "test", "rules", "prometheus-alerts.test.yml"]
        told = subprocess.run(asked, check=False, cwd=folder, capture_output=True, text=True)

    assert told.returncode == 0, told.stdout + told.stderr


def test_a_patrol_that_never_came_through_is_counted_as_that(headquarters: Headquarters) -> None:
    job = Job("never_run_so_far", 3600, lambda _services: JobReport("never_run_so_far"))

    Scheduler(headquarters.services, [job])

    shown = metrics.registry.get_sample_value("pawtill_job_runs_total", {"job": job.name, "outcome": "done"})
    drifts = metrics.registry.get_sample_value("pawtill_redis_rebuilds_total", {"reason": "drift"})
    assert (shown, drifts is not None) == (0, True)


def test_every_expression_closes_what_it_opens() -> None:
    for expression in expressions():
        assert [expression.count(each) for each in "([{"] == [expression.count(each) for each in ")]}"], expression
