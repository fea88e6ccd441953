"""The dashboard and the rules: sound, up to date, about metrics that exist, and each query has an answer.

The last is asked of a real Prometheus that scrapes two real members on a real Kafka under load.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.observe.catalogue import CATALOGUE, Spec
from tests.modules import load_module
from tests.operate.prometheus import (
    DASHBOARD,
    DEPLOY,
    RULES,
    Prometheus,
    panel_queries,
    promtool,
    shortened,
)
from tests.operate.prometheus import prometheus_there as prometheus_there
from tests.operate.stage import PATIENCE, Load, Member
from tests.stream.support import make_settings, ready

SHOWN = DASHBOARD.read_text("utf-8") + RULES.read_text("utf-8")


@pytest.fixture(scope="module")
def build() -> ModuleType:
    return load_module(DEPLOY / "grafana" / "build.py")


@pytest.mark.parametrize("spec", CATALOGUE, ids=lambda spec: spec.name)
def test_every_metric_is_used(spec: Spec) -> None:
    assert re.search(rf"\b{spec.name}(_bucket|_sum|_count)?\b", SHOWN), "no panel and no rule shows it: who needs it?"


def test_no_query_asks_for_a_metric_that_is_not() -> None:
    histograms = {spec.name + end for spec in CATALOGUE if spec.buckets for end in ("_bucket", "_sum", "_count")}
    known = {spec.name for spec in CATALOGUE} | histograms
    expressions = [*panel_queries().values(), *re.findall(r"expr: (.*(?:\n {10}.*)*)", RULES.read_text("utf-8"))]
    asked = {name for one in expressions for name in re.findall(r"(?<![:\w])stream_dedup_\w+", one)}
    assert len(asked) > 30
    assert not asked - known


def test_what_runbooks_name_exists() -> None:
    named = set(re.findall(r"\bstream_dedup_\w+", RULES.read_text("utf-8").replace(":stream_dedup", "")))
    histograms = {spec.name + end for spec in CATALOGUE if spec.buckets for end in ("_bucket", "_sum", "_count")}
    assert not named - {spec.name for spec in CATALOGUE} - histograms


def test_the_dashboard_is_what_its_source_says(build: ModuleType) -> None:
    assert DASHBOARD.read_text("utf-8") == build.as_text(), "run: python deploy/grafana/build.py"


def test_panels_stand_side_by_side(build: ModuleType) -> None:
    taken: set[tuple[int, int]] = set()
    numbers = []
    for panel in build.dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
        numbers.append(panel["id"])
        assert panel["type"] == "row" or panel["description"]
    assert len(numbers) == len(set(numbers))


def test_every_alert_tells_what_it_means_and_what_to_do() -> None:
    alerts = RULES.read_text("utf-8").split("- alert: ")[1:]
    assert len(alerts) >= 8
    for alert in alerts:
        for part in ("for:", "severity:", "summary:", "description:", "runbook:"):
            assert part in alert, (alert.splitlines()[0], part)


def test_each_alert_has_a_case_that_fires() -> None:
    cases = (RULES.parent / "rules.test.yml").read_text("utf-8")
    for name in re.findall(r"- alert: (\w+)", RULES.read_text("utf-8")):
        assert f'alertname="{name}"' in cases, name


def test_promtool_accepts_configuration_and_rules(prometheus_there: None, tmp_path: Path) -> None:
    assert "SUCCESS" in promtool("check", "config", str(RULES.parent / "prometheus.yml"))
    assert "SUCCESS" in promtool("check", "rules", str(RULES))
    short = tmp_path / "rules.yml"
    short.write_text(shortened(RULES.read_text("utf-8")), "utf-8")
    assert "SUCCESS" in promtool("check", "rules", str(short))


def test_alerts_fire_when_they_should_and_only_then(prometheus_there: None) -> None:
    assert "SUCCESS" in promtool("test", "rules", str(RULES.parent / "rules.test.yml"))


@pytest.mark.kafka
def test_every_query_has_data(
    prometheus_there: None, kafka: EmbeddedKafka, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_items": 50}))
    with (
        Member("a", settings, tmp_path) as a,
        Member("b", settings, tmp_path) as b,
        Load(settings, 200),
        Prometheus([a.address, b.address]) as prometheus,
    ):
        a.start().wait_until("ok")
        b.start().wait_until("standby")
        queries = prometheus.queries()
        assert len(queries) > 60
        deadline = time.monotonic() + PATIENCE
        while (lacking := prometheus.without_data(queries)) and time.monotonic() < deadline:
            queries = lacking
            time.sleep(1)
        assert not lacking, f"no data after {PATIENCE} s: {lacking}"
        broken = {name: rule["lastError"] for name, rule in prometheus.rules().items() if rule["health"] != "ok"}
        assert not broken
