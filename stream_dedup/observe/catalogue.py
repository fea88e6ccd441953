"""The metrics: name, type, labels and help text of each. Declare a new one here; metrics.py fills it.

The metrics of a registry and config/metrics.md are made from this list. An alert, a panel of the dashboard or the
status page uses each of them; a test finds unused ones. Names follow the conventions of Prometheus: prefix, base units,
`_total` for counters. Every label has few values, all known in advance except `source`: no id of an item and no text of
an error becomes a label value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from stream_dedup.dedup.clocks import Odd
from stream_dedup.dedup.source_rules import REASONS
from stream_dedup.dedup.verdict import Kind, Stage
from stream_dedup.errors import Fenced, Outdated, Refused, RegistryAway, Stalled, TransactionFailed
from stream_dedup.index.hybrid import BUCKET_LIMIT
from stream_dedup.kafka.cluster import Wait
from stream_dedup.news.decode import TEXT
from stream_dedup.news.names import PRESETS
from stream_dedup.observe.health import Status
from stream_dedup.worker.judge import SECONDS
from stream_dedup.worker.observer import CommitStep, TaskState


@dataclass(frozen=True, eq=False)
class Spec:
    """One metric. Known series begin at 0, so that a rate includes the first increase."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    # name -> list of values, or a description of them
    labels: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()  # upper bounds of a histogram
    # series that exist from the start, at 0; by default the values of the one label that lists them
    known: Sequence[tuple[str, ...]] = ()


def _counter(name: str, help: str, known: Sequence[tuple[str, ...]] = (), **labels: str | Sequence[str]) -> Spec:
    return Spec(name, "counter", help, labels, known=known)


def _gauge(name: str, help: str, **labels: str | Sequence[str]) -> Spec:
    return Spec(name, "gauge", help, labels)


OTHER = "other"
BAD_REASONS = (
    "json", "xml", "entries", "type", "encoding", "compressed", "no-key", "id", "fingerprint", "schema", "empty",
    "answer", "too-large", "too-slow", "refused", "header", "internal",
)  # fmt: skip
"""The first words of a bad item's reason; a test compares them with the code. Any other word counts as OTHER, so no
input can add a label value."""
FIELDS = ("title", "text", "source")
"""The fields that `stream_dedup_missing_fields_total` counts."""
STEPS = tuple(step for step in CommitStep if step is not CommitStep.POLL)
"""The steps whose time is counted; polling is waiting, not work."""
RETRIED = (TransactionFailed, Refused, Stalled, Fenced, Outdated, RegistryAway)
"""Errors after which the worker retries."""
_OUTCOMES = (
    *((kind, stage) for kind in (Kind.DUPLICATE, Kind.UPDATE) for stage in (Stage.HEADLINE, Stage.BODY, Stage.PROSE)),
    (Kind.UNIQUE, Stage.NONE), (Kind.DUPLICATE, Stage.ID), (Kind.DUPLICATE, Stage.EXACT), (Kind.UPDATE, Stage.POLICY),
    (Kind.UNIQUE, Stage.POLICY), (Kind.DUPLICATE, Stage.POLICY),
    (Kind.BAD, Stage.NONE), (Kind.TOMBSTONE, Stage.NONE), (Kind.TOMBSTONE, Stage.POLICY),
)  # fmt: skip
_TASK = "`global`, or the partition's number in scope partition"
# A transaction on a near broker takes some 10 ms; it is aborted after `worker.transaction_timeout` (30 s).
_TRANSACTION = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
# Milliseconds on a live feed; hours and days while a backlog or an archive is processed.
_DELAY = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 43_200.0, 86_400.0)

ITEMS = _counter(
    "stream_dedup_items_total",
    "Records committed, by verdict and by the stage that decided. `update`: the same article with something new. "
    "If the share of duplicates jumps, look into the duplicates topic. No increase while the lag grows: the worker is "
    "stuck.",
    verdict=list(Kind),
    stage=list(Stage),
    known=_OUTCOMES,
)
BAD = _counter(
    "stream_dedup_bad_items_total",
    "Records sent to the dead-letter topic, by reason. A rise after a deployment upstream means a changed format: "
    "see [item] preset and fields. `internal` is ours: please report it.",
    reason=[*BAD_REASONS, OTHER],
)
MISSING_FIELDS = _counter(
    "stream_dedup_missing_fields_total",
    "Judged items that lack a field: it is missing, empty, or has another name now. They are judged by what they have, "
    "and more copies go out. A jump after a deployment upstream: `check --topic` lists the fields that the records "
    "have, [item] fields names them.",
    field=FIELDS,
)
SHAPES = _counter(
    "stream_dedup_input_shapes_total",
    "Records decoded, by shape; one that is read again counts again. If the share of a shape jumps, a producer writes "
    "another format; see the status page for what is found in it.",
    shape=[*PRESETS, TEXT],
)
SOURCES = _counter(
    "stream_dedup_source_duplicates_total",
    "Duplicates by the source that sent them: the twenty busiest, and the rest. A jump of one source: it sends its "
    "archive again, or its pages have lost their text. A source that is no longer among the busiest loses its series.",
    source="host of the item; `other`: the rest, `none`: the item names none",
)
SOURCE_RULES = _counter(
    "stream_dedup_source_rules_total",
    "Verdicts that a rule of [sources] has changed: `pass`: held back without it, `ignore`: not compared, `prefer`: a "
    "copy that went out as an update. No increase of a rule: no item has a source of its names; `check` lists them.",
    rule=list(REASONS),
)
ODD_TIMES = _counter(
    "stream_dedup_odd_times_total",
    "Records with an odd timestamp: none; ahead of the clock by more than an hour; further than [window] length "
    "from the records around it; behind the watermark by more than that; in the first months of 1970. They are "
    "judged nevertheless, and no other record is affected. Many: correct the producer's clock or unit. `late` is "
    "normal while a backlog or an archive is read.",
    reason=[*(odd.name.lower() for odd in Odd if odd is not Odd.NOTHING), SECONDS],
)
TRANSACTION = Spec(
    "stream_dedup_transaction_seconds",
    "histogram",
    "Time of one committed transaction, from its begin to its commit (steps 4 to 9). It is spent in the cluster: "
    "growth points to the brokers or the network.",
    buckets=_TRANSACTION,
)
STEP_SECONDS = _counter(
    "stream_dedup_step_seconds_total",
    "Time spent in each step of the commit protocol; its rate is a share of one second. Look here first when "
    "throughput is too low.",
    step=[step.name.lower() for step in STEPS],
)
DELAY = Spec(
    "stream_dedup_item_delay_seconds",
    "histogram",
    "Time from a record's timestamp to its commit: how late readers of the output get it. Alert on a high quantile of "
    "a live feed; during the replay of an archive it is the age of the archive.",
    buckets=_DELAY,
)
LAG = _gauge(
    "stream_dedup_lag_records",
    "Records of an input partition that are not yet committed, after its last batch, up to the partition's end at the "
    "last fetch: a sawtooth under overload. Records of open transactions count, and transaction markers until the "
    "worker has passed them. Alert if it grows for minutes. It does not change while the worker is stopped: see "
    "stream_dedup_status.",
    partition="number of the input partition",
)
ERRORS = _counter(
    "stream_dedup_errors_total",
    "Failures of the worker, by kind; the log has the text. Single retries come from a broker's restart or a "
    "rebalance; a steady rate needs attention. A fatal error ends the process: its log says what to do.",
    kind="name of the error's class: `TransactionFailed`, `Stalled`, `Fenced`, ...",
    fate="`retried`, `fatal`",
    known=[(error.__name__, "retried") for error in RETRIED],
)
STUCK = _counter(
    "stream_dedup_stuck_batches_total",
    "Batches that failed three times in a row at the same offsets, and each further failure: Kafka refused them, their "
    "work took so long that the member lost its place, or it ended the process. Outages do not count. The worker "
    "halves the batch until it succeeds or the record is found, which becomes a dead letter; the log (ERROR) has the "
    "offsets. A steady increase: no topic accepts a record, and it blocks its partition.",
    task=_TASK,
)
REBALANCES = _counter(
    "stream_dedup_rebalances_total",
    "Rebalances of the group that this member took part in. Tasks that move pause for a take-over. More than "
    "deployments explain: members are slower than [worker] session_timeout, or lack processor time.",
)
RESTORE_PROGRESS = _gauge(
    "stream_dedup_restore_progress_ratio",
    "Share of the changelog that a task has restored; 1 when it works. Below 1 nothing is let through. No growth: the "
    "cluster does not answer, or another program has an open transaction in the changelog. Slow growth: the window is "
    "long.",
    task=_TASK,
)
ROLE = _gauge(
    "stream_dedup_role",
    "1 for the role of this process. In scope global exactly one member of the group should be active: alert on "
    "sum(stream_dedup_role{role='active'}) != 1 for minutes.",
    role=["active", "standby"],
)
BEHIND_SECONDS = _gauge(
    "stream_dedup_standby_behind_seconds",
    "How old the state of a standby is: the seconds since the changelog ended where it has read to. A second or two is "
    "normal. Growth: it cannot read the changelog, see its log. A take-over would have to read what was added since.",
    task="`global`; scope partition has no standby",
)
TASKS = _gauge(
    "stream_dedup_tasks",
    "Tasks of this member by state. `failing`: the task failed and waits for a retry or reopens; records of its "
    "partitions wait in the input, other tasks go on. For minutes: the log names the task and the reason.",
    state=[*TaskState],
)
STATUS = _gauge(
    "stream_dedup_status",
    "1 for the status that /healthz reports. `degraded`: no broker answers, or the worker waits, see "
    "stream_dedup_waiting_seconds. `stalled`: no broker, no sign of life, or only failures, for twice [worker] "
    "transaction_timeout; see the log, then the brokers.",
    status=[*Status],
)
BROKERS_AWAY = _gauge(
    "stream_dedup_brokers_away_seconds",
    "Seconds since a broker last answered this process, which asks every two seconds; 0 while brokers answer; from 7 "
    "on they count as away. Of an idle worker only this metric and stream_dedup_status show an outage.",
)
BROKERS_DISTRUSTED = _gauge(
    "stream_dedup_brokers_distrusted",
    "Brokers whose certificate was refused in the last half minute; other brokers work, or none does. The log and "
    "/healthz name the address and the cure.",
)
WAITING = _gauge(
    "stream_dedup_waiting_seconds",
    "Seconds for which the worker has waited for this, 0: not at all. `group`: its coordinator, or a rebalance; "
    "`transactions`: their coordinator; `leaders` of partitions; `producers`: one that holds an input partition by an "
    "open transaction; `answers` to a question about the topics; `brokers`: the consumer reaches none, and the watch "
    "does; `records` that are there and are not taken, for no known reason. From 5 s on, of a producer from 60 s, of "
    "records from 30 s, /healthz, the status page and the log say what is missing and what mends it.",
    on=[*Wait],
)
WATERMARK = _gauge(
    "stream_dedup_watermark_timestamp_seconds",
    "Event time that the stream has reached: the level (median of the last nine times) of the partitions that half of "
    "the recent records come from. A single wrong date does not move it. Originals that are older by the window, and "
    "were not read lately, are forgotten. More than an hour ahead of the clock: clocks of producers are wrong.",
    task=_TASK,
)
WINDOW_AGE = _gauge(
    "stream_dedup_window_age_seconds",
    "Event time between the oldest original in the index and the newest item: how far back copies are found. Grows to "
    "[window] length after the first start and stays there. Less after a restart: the changelog has lost its "
    "beginning, check its retention with `topics check`.",
)
ROWS = _gauge(
    "stream_dedup_index_rows",
    "Originals remembered, including those that expired since the last clearing. The memory is this times the size of "
    "one. Growth without end: the window is longer than the memory allows.",
)
EVICTED = _counter(
    "stream_dedup_evicted_originals_total",
    "Originals forgotten early because there were more than [window] max_originals or [worker] memory allow. Late "
    "copies of them are let through. If there are any: shorten [window] length, or give more memory.",
)
RUNS = _gauge(
    "stream_dedup_index_runs",
    "Sorted runs; each makes every lookup a little slower. Above some twenty: merges do not keep up with the input.",
)
MERGE_SECONDS = _counter(
    "stream_dedup_index_merge_seconds_total",
    "Time spent in merges, mostly in parallel with the worker. A rate near 1: merges take a whole core.",
)
CROWDED = _counter(
    "stream_dedup_index_crowded_keys_total",
    f"Keys of items that gave as many originals as are looked up, {BUCKET_LIMIT}; older ones, if any, were left out. "
    "Several for each item: a template, or a flood of items made to collide, for which [fingerprint] salt is the cure.",
)
MEMORY = _gauge(
    "stream_dedup_memory_bytes",
    "Memory of all originals by part; the whole process: process_resident_memory_bytes. Near "
    "stream_dedup_memory_limit_bytes: shorten [window] length, choose a smaller fingerprint (`plan` says how much), or "
    "give more memory. The process far above the sum of the parts while the index does not grow: please report it.",
    part="`signatures` (sketches and times), `keys` (index tables), `ids`, `bodies` (words in order), `boilerplate`",
)
MEMORY_LIMIT = _gauge(
    "stream_dedup_memory_limit_bytes",
    "Memory that this process may use: [worker] memory, by default the container's limit or the machine's memory.",
)
STATE_LOST = _gauge(
    "stream_dedup_state_lost_timestamp_seconds",
    "When this process last found that the changelog was deleted and created again, emptied, or has lost its "
    "beginning; 0: never. Copies of forgotten originals are let through again, at once or after the next take-over; "
    "the log says which, and what to do. Alert on it.",
)
BUILD = _gauge(
    "stream_dedup_build_info",
    "Always 1; the labels have the versions and the group. Join it to see what a deployment changed, and to "
    "tell the groups of one Prometheus job apart.",
    version="of stream-dedup",
    python="of the interpreter",
    group="[kafka] group_id",
)

CATALOGUE = tuple(value for value in list(vars().values()) if isinstance(value, Spec))
"""All metrics above, in their order."""
