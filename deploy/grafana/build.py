"""The source of Grafana's dashboard dashboards/stream-dedup.json; `make reference` writes it.

Grafana's JSON is long and repetitive; here each panel is a few lines.
`$job` is the Prometheus job of a group; `$__rate_interval` is Grafana's own. The first row shows whether the group is
healthy; the rows below follow the path of an item.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TARGET = "deploy/grafana/dashboards/stream-dedup.json"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH = 24  # of Grafana's grid


@dataclass(frozen=True)
class Panel:
    """`queries`: (PromQL, legend). `red`: from this value on a stat is red (below it, if `least`)."""

    title: str
    help: str
    queries: list[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    stacked: bool = False
    red: float | None = None
    least: bool = False


@dataclass(frozen=True)
class Row:
    title: str
    height: int
    panels: list[Panel]


def quantiles(metric: str) -> list[tuple[str, str]]:
    """Median and tail of a histogram."""
    return [
        (f'histogram_quantile({q}, sum by (le) (rate({metric}_bucket{{job=~"$job"}}[$__rate_interval])))', name)
        for q, name in (("0.5", "half"), ("0.95", "95 %"), ("0.99", "99 %"))
    ]


def rate(metric: str, by: str, more: str = "") -> str:
    return f'sum by ({by}) (rate({metric}{{job=~"$job"{more}}}[$__rate_interval]))'


def total(metric: str, more: str = "") -> str:
    return f'sum({metric}{{job=~"$job"{more}}})'


WELL = Row("Is it well?", 4, [
    Panel("Active", "Members that work. 0: nothing is let through, see the log of any member.",
          [(total("stream_dedup_role", ', role="active"'), "")], kind="stat", width=3, red=1, least=True),
    Panel("Standing by", "Members that would take over (scope global). 0: start the second one again.",
          [(total("stream_dedup_role", ', role="standby"'), "")], kind="stat", width=3),
    Panel("Stalled", "Members without brokers, without a sign of life or with only failures.",
          [(total("stream_dedup_status", ', status="stalled"'), "")], kind="stat", width=3, red=1),
    Panel("Alerts", "Alerts that fire now. The text of each says what to do.",
          [('count(ALERTS{alertname=~"StreamDedup.*", alertstate="firing"}) or vector(0)', "")],
          kind="stat", width=3, red=1),
    Panel("Waiting", "Records of the input not yet committed.",
          [('sum(job:stream_dedup_lag_records:sum{job=~"$job"})', "")], kind="stat", width=3, red=10000),
    Panel("Delay", "95 of 100 items are committed within this time after their record's timestamp.",
          [('max(job:stream_dedup_item_delay_seconds:p95_5m{job=~"$job"})', "")], "s", "stat", 3, red=60),
    Panel("Held back", "Share of duplicates over half an hour.",
          [('avg(job:stream_dedup_duplicate_share:ratio_increase30m{job=~"$job"})', "")], "percentunit", "stat", 3),
    Panel("Memory", "Share of its limit, of the member that uses most.",
          [('max(instance:stream_dedup_memory_taken:ratio{job=~"$job"})', "")], "percentunit", "stat", 3, red=0.85),
])  # fmt: skip

HOLDS_BACK = Row("What it holds back", 8, [
    Panel("Items by verdict", "All committed records, a second.",
          [('sum by (verdict) (job:stream_dedup_items:rate5m{job=~"$job"})', "{{verdict}}")], "ops", stacked=True),
    Panel("Share held back, and as usual", "Far from usual: see sources and stages, then the duplicates topic.",
          [('job:stream_dedup_duplicate_share:ratio_increase30m{job=~"$job"}', "now"),
           ('job:stream_dedup_duplicate_share:avg1d{job=~"$job"}', "the day before")], "percentunit"),
    Panel("Duplicates by stage",
          "Same id or words; or nothing new, and what is most alike: headline, body, or neither.",
          [(rate("stream_dedup_items_total", "stage", ', verdict="duplicate"'), "{{stage}}")], "ops", stacked=True),
    Panel("Duplicates by source", "The sources that send most copies, and the rest.",
          [(f'topk(10, {rate("stream_dedup_source_duplicates_total", "source")})', "{{source}}")], "ops"),
    Panel("Dead letters by reason", "Records that could not be judged; their bytes are in the dead-letter topic.",
          [(rate("stream_dedup_bad_items_total", "reason"), "{{reason}}")], "ops", stacked=True),
    Panel("Items that lack a field", "Share without title, text or source. A jump: it was renamed, or is empty.",
          [('job:stream_dedup_missing_field_share:ratio_increase30m{job=~"$job"}', "{{field}}")], "percentunit"),
    Panel("Shapes of the records", "Share in the last half hour. A new one: another format.",
          [('job:stream_dedup_input_shape_share:ratio_increase30m{job=~"$job"} > 0', "{{shape}}")], "percentunit",
          stacked=True),
    Panel("Let through by [sources]", "Copies of sources that pass or are preferred, and ignored items.",
          [(rate("stream_dedup_source_rules_total", "rule"), "{{rule}}")], "ops", stacked=True),
    Panel("Odd times", "Records whose timestamp is missing, ahead, unlike those around it, or late.",
          [(rate("stream_dedup_odd_times_total", "reason"), "{{reason}}")], "ops", stacked=True),
])  # fmt: skip

SPEED = Row("How fast", 8, [
    Panel("Delay from the record's timestamp to its commit", "How late readers get it.",
          quantiles("stream_dedup_item_delay_seconds"), "s"),
    Panel("Waiting, by partition", "Growth for minutes: input arrives faster than it is processed.",
          [('sum by (partition) (stream_dedup_lag_records{job=~"$job"})', "{{partition}}")], stacked=True),
    Panel("Where a second goes", "Share of the time in each step of the commit protocol.",
          [(rate("stream_dedup_step_seconds_total", "step"), "{{step}}")], "percentunit", stacked=True),
    Panel("Records in a transaction", "Always at [worker] batch_items: a backlog.",
          [(f'{rate("stream_dedup_items_total", "job")} / '
            f'({rate("stream_dedup_transaction_seconds_count", "job")} > 0)', "on average")]),
])  # fmt: skip

KAFKA = Row("Kafka", 8, [
    Panel("Time of a transaction", "From begin to commit, spent in the cluster.",
          quantiles("stream_dedup_transaction_seconds"), "s"),
    Panel("Brokers away", "Seconds since a broker last answered a member; 0 while they answer. Idle members show an "
          "outage here first.",
          [('stream_dedup_brokers_away_seconds{job=~"$job"}', "{{instance}}")], "s", red=7),
    Panel("Distrusted brokers", "Brokers whose certificate a member refuses; its log and /healthz have the cure.",
          [('stream_dedup_brokers_distrusted{job=~"$job"}', "{{instance}}")], red=1),
    Panel("Errors by kind", "Retried or fatal; the log has the text.",
          [(rate("stream_dedup_errors_total", "kind, fate"), "{{kind}} {{fate}}")], "ops"),
    Panel("Stuck batches",
          "Refused three times in a row at the same offsets, and each further refusal, in five minutes.",
          [('sum by (instance, task) (increase(stream_dedup_stuck_batches_total{job=~"$job"}[5m]))',
            "{{instance}} {{task}}")], red=1),
    Panel("Rebalances", "Of the group, in five minutes. More than deployments explain: members are too slow.",
          [('sum by (instance) (increase(stream_dedup_rebalances_total{job=~"$job"}[5m]))', "{{instance}}")]),
    Panel("Changelog restored", "Below 1 nothing is let through.",
          [('stream_dedup_restore_progress_ratio{job=~"$job"}', "{{instance}} {{task}}")], "percentunit"),
    Panel("Standby behind", "How old the state of the standby is. Growth: it cannot read the changelog.",
          [('stream_dedup_standby_behind_seconds{job=~"$job"}', "{{instance}} {{task}}")], "s"),
    Panel("Tasks", "By state. Failing: see the log.",
          [('sum by (state) (stream_dedup_tasks{job=~"$job"})', "{{state}}")]),
])  # fmt: skip

INDEX = Row("Index and memory", 8, [
    Panel("Originals", "Originals in the index.", [('stream_dedup_index_rows{job=~"$job"}', "{{instance}}")]),
    Panel("Forgotten early", "Originals beyond [window] max_originals, in five minutes. There should be none.",
          [('sum by (instance) (increase(stream_dedup_evicted_originals_total{job=~"$job"}[5m]))', "{{instance}}")]),
    Panel("Runs", "Above some twenty: merges do not keep up.",
          [('stream_dedup_index_runs{job=~"$job"}', "{{instance}}")]),
    Panel("Merging", "Share of a core.",
          [('instance:stream_dedup_merging:ratio_rate10m{job=~"$job"}', "{{instance}}")], "percentunit"),
    Panel("Memory by part", "Of the member that uses most; the rest is Python and batches.",
          [('max by (part) (stream_dedup_memory_bytes{job=~"$job"})', "{{part}}"),
           ('max(process_resident_memory_bytes{job=~"$job"})', "process"),
           ('min(stream_dedup_memory_limit_bytes{job=~"$job"})', "limit")], "bytes"),
    Panel("Age of the oldest original", "Grows to [window] length and stays there.",
          [('stream_dedup_window_age_seconds{job=~"$job"}', "{{instance}}")], "s"),
    Panel("Changelog incomplete", "1: a member has found that it was recreated, emptied or truncated; see its log.",
          [('stream_dedup_state_lost_timestamp_seconds{job=~"$job"} > bool 0', "{{instance}}")]),
    Panel("Event time reached, behind the clock", "Negative: clocks of producers are ahead.",
          [('time() - stream_dedup_watermark_timestamp_seconds{job=~"$job"}', "{{task}}")], "s"),
    Panel("Crowded keys", "Keys a second that reach the limit of 24 originals: templates, or items made to collide.",
          [(rate("stream_dedup_index_crowded_keys_total", "instance"), "{{instance}}")]),
    Panel("Members", "The status that /healthz reports for each.",
          [('sum by (instance, status) (stream_dedup_status{job=~"$job"} == 1)', "{{instance}} {{status}}")]),
    Panel("Versions", "Which members run which version.",
          [('count by (version, python, group) (stream_dedup_build_info{job=~"$job"})',
            "{{version}} on Python {{python}}, group {{group}}")]),
])  # fmt: skip

ROWS = [WELL, HOLDS_BACK, SPEED, KAFKA, INDEX]


def dashboard() -> dict[str, Any]:
    """The whole dashboard as Grafana (10 or newer) reads it."""
    return {
        "uid": "stream-dedup",
        "title": "stream-dedup",
        "tags": ["kafka", "news"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_datasource(), _job()]},
        "panels": list(_panels()),
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _job() -> dict[str, Any]:
    values = "label_values(stream_dedup_build_info, job)"
    return {
        "name": "job", "label": "Group", "type": "query", "datasource": _SOURCE,
        "query": {"query": values, "refId": "job"}, "definition": values, "refresh": 2,
        "includeAll": True, "multi": True, "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def _panels() -> Iterator[dict[str, Any]]:
    number, y = 0, 0
    for row in ROWS:
        number += 1
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "panels": [],
               "gridPos": {"x": 0, "y": y, "w": _WIDTH, "h": 1}}  # fmt: skip
        x, y = 0, y + 1
        for panel in row.panels:
            if x + panel.width > _WIDTH:
                x, y = 0, y + row.height
            number += 1
            yield _panel(panel, number, {"x": x, "y": y, "w": panel.width, "h": row.height})
            x += panel.width
        y += row.height


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0} if panel.kind == "timeseries" else {"unit": panel.unit}
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "fillOpacity": 30 if panel.stacked else 8,
            "stacking": {"mode": "normal" if panel.stacked else "none"},
        }
    if panel.red is not None:
        at_first, then = ("red", "green") if panel.least else ("green", "red")
        defaults["thresholds"] = {
            "mode": "absolute",
            "steps": [{"color": at_first, "value": None}, {"color": then, "value": panel.red}],
        }
    return {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.help, "datasource": _SOURCE,
        "gridPos": place, "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _options(panel),
        "targets": [
            {"refId": chr(ord("A") + i), "datasource": _SOURCE, "expr": expr, "legendFormat": legend or "__auto",
             "format": "time_series", "instant": panel.kind == "stat",
             "range": panel.kind != "stat"}
            for i, (expr, legend) in enumerate(panel.queries)
        ],
    }  # fmt: skip


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "stat":
        return {"colorMode": "value", "graphMode": "area", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}


def as_text() -> str:
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"
