"""The dashboard and the rules: valid, up to date, with existing metrics, and with data for each query.

For the data, a real Prometheus scrapes two real members on a real Kafka under load.
"""

import re
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import yaml

from deploy.grafana import build
from deploy.prometheus import build as prometheus_build
from stream_dedup.observe.catalogue import CATALOGUE, Spec
from stream_dedup.tools.demo.embedded import EmbeddedKafka
from tests.harness.feed import Load
from tests.harness.member import Command
from tests.harness.topics import make_settings, ready
from tests.harness.wait import LONG_PATIENCE as PATIENCE
from tests.lab.operate.prometheus import DASHBOARD, DEPLOY, RULES, Prometheus, panel_queries, promtool, shortened
from tests.lab.operate.prometheus import prometheus_there as prometheus_there

DASHBOARD_AND_RULES = DASHBOARD.read_text("utf-8") + RULES.read_text("utf-8")


@pytest.mark.parametrize("spec", CATALOGUE, ids=lambda spec: spec.name)
def test_every_metric_is_used(spec: Spec) -> None:
    assert re.search(rf"\b{spec.name}(_bucket|_sum|_count)?\b", DASHBOARD_AND_RULES), "no panel and no rule uses it"


def test_queries_and_runbooks_name_existing_metrics() -> None:
    histograms = {spec.name + end for spec in CATALOGUE if spec.buckets for end in ("_bucket", "_sum", "_count")}
    queried = {name for query in panel_queries().values() for name in re.findall(r"(?<![:\w])stream_dedup_\w+", query)}
    mentioned = set(re.findall(r"\bstream_dedup_\w+", RULES.read_text("utf-8").replace(":stream_dedup", "")))
    assert len(queried | mentioned) > 30
    assert not (queried | mentioned) - {spec.name for spec in CATALOGUE} - histograms


def test_panels_do_not_overlap() -> None:
    panels = build.dashboard()["panels"]
    occupied: set[tuple[int, int]] = set()
    for panel in panels:
        x, y, width, height = (panel["gridPos"][name] for name in "xywh")
        cells = set(product(range(x, x + width), range(y, y + height)))
        assert x + width <= 24
        assert not cells & occupied, panel["title"]
        occupied |= cells
        assert panel["type"] == "row" or panel["description"]
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_every_alert_has_a_severity_a_runbook_and_a_test_case() -> None:
    cases = (RULES.parent / "rules.test.yml").read_text("utf-8")
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert len(alerts) >= 8
    for alert in alerts:
        assert alert["for"], alert
        assert alert["labels"]["severity"], alert
        assert all(alert["annotations"][part] for part in ("summary", "description", "runbook")), alert
        assert f'alertname="{alert["alert"]}"' in cases
        path, _, anchor = alert["annotations"]["runbook_url"].partition("#")
        headings = re.findall(r"^#+ (.+)$", (DEPLOY.parent / path).read_text("utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings}
        assert anchor == alert["alert"].lower()


def test_promtool_accepts_configuration_and_rules(prometheus_there: None, tmp_path: Path) -> None:
    assert "SUCCESS" in promtool("check", "config", str(RULES.parent / "prometheus.yml"))
    assert "SUCCESS" in promtool("check", "rules", str(RULES))
    short = tmp_path / "rules.yml"
    short.write_text(shortened(RULES.read_text("utf-8")), "utf-8")
    assert "SUCCESS" in promtool("check", "rules", str(short))


def test_the_operator_gets_the_same_rules_with_absolute_runbooks(prometheus_there: None, tmp_path: Path) -> None:
    spec = yaml.safe_load(prometheus_build.prometheus_rule())["spec"]
    rules = tmp_path / "rules.yml"
    rules.write_text(yaml.safe_dump(spec), "utf-8")
    assert "SUCCESS" in promtool("check", "rules", str(rules))
    of_the_file = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    assert [group["name"] for group in spec["groups"]] == [group["name"] for group in of_the_file]
    urls = [
        rule["annotations"]["runbook_url"] for group in spec["groups"] for rule in group["rules"] if "alert" in rule
    ]
    assert all(url.startswith(f"{prometheus_build.RUNBOOKS}deploy/alerts.md#") for url in urls)
    assert prometheus_build.RUNBOOKS.startswith("https://")


@pytest.mark.slow
def test_the_test_cases_of_the_alerts_pass(prometheus_there: None) -> None:
    assert "SUCCESS" in promtool("test", "rules", str(RULES.parent / "rules.test.yml"))


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_query_has_data(
    prometheus_there: None, kafka: EmbeddedKafka, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name, worker={"batch_items": 50}))
    with (
        Command("a", settings, tmp_path) as a,
        Command("b", settings, tmp_path) as b,
        Load(settings, 200),
        Prometheus([a.address, b.address]) as prometheus,
    ):
        a.start().wait_until("ok")
        b.start().wait_until("standby")
        queries = prometheus.queries()
        assert len(queries) > 60
        deadline = time.monotonic() + PATIENCE
        while (without_data := prometheus.without_data(queries)) and time.monotonic() < deadline:
            queries = without_data
            time.sleep(1)
        assert not without_data, f"no data after {PATIENCE} s: {without_data}"
        broken = {name: rule["lastError"] for name, rule in prometheus.rules().items() if rule["health"] != "ok"}
        assert not broken
