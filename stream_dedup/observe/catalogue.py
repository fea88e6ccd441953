"""The catalogue of metrics: name, type, labels and help text of each; a new metric is declared here.

metrics.py and collectors.py make the metrics from this list, and reference.py writes config/metrics.md; a test compares
it with the output of a registry. Names follow the conventions of Prometheus: prefix, base units (seconds, bytes),
`_total` for counters. Every label has few values, and all but `source` (sources.py) are known in advance: no id of an
item and no text of an error becomes a label value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Spec:
    """One metric. `labels`: name -> its values, in words. `buckets`: upper bounds of a histogram."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: Mapping[str, str] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()


_TASK = {"task": "`global`, or the partition's number in scope partition"}

# For similarities.
_RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
# One to the largest `worker.batch_items`, in the steps 1, 2, 5.
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
# A batch of one item is judged in under a millisecond, 20,000 long ones take seconds.
_JUDGING = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
# A transaction on a near broker takes some 10 ms; it is aborted after `worker.transaction_timeout` (30 s).
_TRANSACTION = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
# Milliseconds on a live feed; hours and days while a backlog or an archive is processed.
_DELAY = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 43_200.0, 86_400.0)
# An empty changelog takes under a second, ten million originals some minutes.
_RESTORE = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)

ITEMS = Spec(
    "stream_dedup_items_total",
    "counter",
    "Records committed, by verdict and by the stage that decided. `update`: the same article with something new. "
    "If the share of duplicates jumps, look into the duplicates topic. No increase while the lag grows: the worker is "
    "stuck.",
    {
        "verdict": "`unique`, `duplicate`, `update`, `bad`, `tombstone`",
        "stage": "`none`, `id`, `exact`, `headline`, `body`, `prose`, `policy`",
    },
)
BAD = Spec(
    "stream_dedup_bad_items_total",
    "counter",
    "Records sent to the dead-letter topic, by reason. A rise after a deployment upstream means a changed format: "
    "see [item] preset and fields.",
    {
        "reason": "`json`, `type`, `encoding`, `compressed`, `no-key`, `id`, `fingerprint`, `empty`, `too-large`, "
        "`refused`, `header`, `internal` (ours: please report it), `other`"
    },
)
MISSING_FIELDS = Spec(
    "stream_dedup_missing_fields_total",
    "counter",
    "Judged items that lack a field: it is missing, empty, or has another name now. They are judged by what they have, "
    "and more copies go out. A jump after a deployment upstream: `check --topic` lists the fields that the records "
    "have, [item] fields names them.",
    {"field": "`title`, `text`, `source` (source and url)"},
)
SHAPES = Spec(
    "stream_dedup_input_shapes_total",
    "counter",
    "Records decoded, by shape; one that is read again counts again. If the share of a shape jumps, a producer writes "
    "another format; see the status page for what is found in it.",
    {"shape": "a preset of [item], or `text`"},
)
SIMILARITY = Spec(
    "stream_dedup_similarity_ratio",
    "histogram",
    "Jaccard similarity of an item's body and that of its original, or of the most similar item, by verdict. High for "
    "`unique`: templates, whose items differ in a few words, or copies that are let through.",
    {"verdict": "`duplicate`, `update`, `unique`"},
    buckets=_RATIOS,
)
CONTAINMENT = Spec(
    "stream_dedup_containment_ratio",
    "histogram",
    "Share of the smaller of the two bodies, the item's and its closest candidate's, that is in the larger one, by "
    "verdict. High for `unique`: copies inside other pages are let through.",
    {"verdict": "`duplicate`, `update`, `unique`"},
    buckets=_RATIOS,
)
SOURCES = Spec(
    "stream_dedup_source_duplicates_total",
    "counter",
    "Duplicates by the source that sent them: the twenty busiest, and the rest. A jump of one source: it sends its "
    "archive again, or its pages have lost their text. A source that is no longer among the busiest loses its series.",
    {"source": "host of the item; `other`: the rest, `none`: the item names none"},
)
BATCH_ITEMS = Spec(
    "stream_dedup_batch_items",
    "histogram",
    "Items in a transaction. Always at [worker] batch_items: the worker processes a backlog, or throughput is too low.",
    buckets=_SIZES,
)
DECISION = Spec(
    "stream_dedup_decision_seconds",
    "histogram",
    "Time to decode and judge one batch (step 2). Growth at a steady batch size: look at the index (runs, rows) or "
    "at a template that fills buckets ([index] bucket_limit).",
    buckets=_JUDGING,
)
TRANSACTION = Spec(
    "stream_dedup_transaction_seconds",
    "histogram",
    "Time of one transaction, from its begin to its commit (steps 4 to 9). It is spent in the cluster: growth points "
    "to the brokers or the network.",
    buckets=_TRANSACTION,
)
TRANSACTIONS = Spec(
    "stream_dedup_transactions_total",
    "counter",
    "Transactions, by outcome. The records of a failed one are read and judged again, and nothing is lost. Many "
    "failures: see the log and stream_dedup_errors_total.",
    {"outcome": "`committed`, `failed`"},
)
STEP_SECONDS = Spec(
    "stream_dedup_step_seconds_total",
    "counter",
    "Time spent in each step of the commit protocol; its rate is a share of one second. Look here first when "
    "throughput is too low.",
    {"step": "`judge`, `begin`, `send`, `changelog`, `offsets`, `flush`, `commit`, `apply`"},
)
DELAY = Spec(
    "stream_dedup_item_delay_seconds",
    "histogram",
    "Time from a record's timestamp to its commit: how late readers of the output get it. Alert on a high quantile of "
    "a live feed; during the replay of an archive it is the age of the archive.",
    buckets=_DELAY,
)
LAG = Spec(
    "stream_dedup_lag_records",
    "gauge",
    "Records of an input partition that are not yet committed, after its last batch, up to the partition's end at the "
    "last fetch: a sawtooth under overload. Transaction markers of producers count until the worker has passed them. "
    "Alert if it grows for minutes. It does not change while the worker is stopped: see stream_dedup_status.",
    {"partition": "number of the input partition"},
)
BYTES_IN = Spec(
    "stream_dedup_received_bytes_total", "counter", "Bytes of the values read from the input topic and committed."
)
BYTES_OUT = Spec(
    "stream_dedup_sent_bytes_total",
    "counter",
    "Bytes of the values written to the output, duplicates and dead-letter topics.",
)
BYTES_CHANGELOG = Spec(
    "stream_dedup_changelog_bytes_total",
    "counter",
    "Bytes written to the changelog; the rate times the window is the size of the topic. Small batches are written "
    "twice, as blocks and merged; a restart reads the merged blocks and the last blocks.",
)
ERRORS = Spec(
    "stream_dedup_errors_total",
    "counter",
    "Failures of the worker, by kind; the log has the text. Single retries come from a broker's restart or a "
    "rebalance; a steady rate needs attention. A fatal error ends the process: its log says what to do.",
    {"kind": "name of the error's class: `TransactionFailed`, `Stalled`, `Fenced`, ...", "fate": "`retried`, `fatal`"},
)
STUCK = Spec(
    "stream_dedup_stuck_batches_total",
    "counter",
    "Batches that Kafka refused three times in a row at the same offsets, and each further refusal. Outages and "
    "fencing do not count. The worker halves the batch until it succeeds or the refused record is found, which "
    "becomes a dead letter; the log (ERROR) has the offsets. A steady increase: no topic accepts a record, and it "
    "blocks its partition.",
    _TASK,
)
REBALANCES = Spec(
    "stream_dedup_rebalances_total",
    "counter",
    "Rebalances of the group that this member took part in. Tasks that move pause for a take-over. More than "
    "deployments explain: members are slower than [worker] session_timeout, or lack processor time.",
)
OPENINGS = Spec(
    "stream_dedup_task_openings_total",
    "counter",
    "Tasks opened, at a start, at a take-over, or after a failure. More than deployments explain: see "
    "stream_dedup_errors_total.",
)
LOSSES = Spec(
    "stream_dedup_task_losses_total",
    "counter",
    "Tasks lost to another member, or closed after a failure.",
)
RESTORE_PROGRESS = Spec(
    "stream_dedup_restore_progress_ratio",
    "gauge",
    "Share of the changelog that a task has restored; 1 when it works. Below 1 nothing is let through. No growth: the "
    "cluster does not answer, or another program has an open transaction in the changelog. Slow growth: the window is "
    "long.",
    _TASK,
)
RESTORE = Spec(
    "stream_dedup_restore_seconds",
    "histogram",
    "Time to open a task: fence the former owner and read the changelog. Nothing is let through for this long at a "
    "take-over; a shorter window shortens it.",
    buckets=_RESTORE,
)
ROLE = Spec(
    "stream_dedup_role",
    "gauge",
    "1 for the role of this process. In scope global exactly one member of the group should be active: alert on "
    "sum(stream_dedup_role{role='active'}) != 1 for minutes.",
    {"role": "`active`, `standby`"},
)
BEHIND_BLOCKS = Spec(
    "stream_dedup_standby_behind_blocks",
    "gauge",
    "How far a standby is behind the changelog that it follows: committed offsets that it has not read, each a block "
    "or the end of a transaction, at the last second in which the brokers answered. A take-over reads them first.",
    {"task": "`global`; scope partition has no standby"},
)
BEHIND_SECONDS = Spec(
    "stream_dedup_standby_behind_seconds",
    "gauge",
    "Seconds since a standby was at the end of the changelog. Above 0 while it starts and under load. Growth: it "
    "cannot read the changelog, see its log. A take-over would have to read what was added since.",
    {"task": "`global`; scope partition has no standby"},
)
TASKS = Spec(
    "stream_dedup_tasks",
    "gauge",
    "Tasks of this member by state. `failing`: the task failed and waits for a retry or reopens; records of its "
    "partitions wait in the input, other tasks go on. For minutes: the log names the task and the reason.",
    {"state": "`open`, `opening`, `failing`"},
)
GIVEN_UP = Spec(
    "stream_dedup_roles_given_up_total",
    "counter",
    "How often this member could open no task, in three attempts and a session timeout, and left the group for a while "
    "so that another member works. Its log says why; if every member does it, look at the brokers.",
)
STATUS = Spec(
    "stream_dedup_status",
    "gauge",
    "1 for the status that /healthz reports. `degraded`: no broker answers. `stalled`: no broker, no sign of life, or "
    "only failures, for twice [worker] transaction_timeout; see the log, then the brokers.",
    {"status": "`starting`, `ok`, `standby`, `degraded`, `stalled`"},
)
BROKERS_AWAY = Spec(
    "stream_dedup_brokers_away_seconds",
    "gauge",
    "Seconds since a broker last answered this process, which asks every two seconds; 0 while brokers answer; from 7 "
    "on they count as away. Of an idle worker only this metric and stream_dedup_status show an outage.",
)
BROKERS_DISTRUSTED = Spec(
    "stream_dedup_brokers_distrusted",
    "gauge",
    "Brokers whose certificate was refused in the last half minute; other brokers work, or none does. The log and "
    "/healthz name the address and the cure.",
)
WATERMARK = Spec(
    "stream_dedup_watermark_timestamp_seconds",
    "gauge",
    "Event time that the stream has reached: the level (median of the last nine times) of the partitions that half of "
    "the recent records come from. A single wrong date does not move it. Originals that are older by the window, and "
    "were not read lately, are forgotten. Ahead of the clock: clocks of producers are wrong, see [window] future.",
    _TASK,
)
ODD_TIMES = Spec(
    "stream_dedup_odd_times_total",
    "counter",
    "Records with an odd timestamp, by reason. They are judged nevertheless, and no other record is affected. Many: "
    "correct the producer's clock or unit (1970: seconds instead of milliseconds). `late` is normal while a backlog or "
    "an archive is read.",
    {
        "reason": "`missing`: none; `future`: ahead of the clock by more than [window] future; `alone`: further than "
        "[window] length from the records around it; `late`: behind the watermark by more than [window] length; "
        "`seconds`: in the first months of 1970, like the records around it"
    },
)
EVICTED = Spec(
    "stream_dedup_evicted_originals_total",
    "counter",
    "Originals forgotten early because there were more than [window] max_originals or [worker] memory allow. Late "
    "copies of them are let through. If there are any: shorten [window] length, or give more memory.",
)
ROWS = Spec(
    "stream_dedup_index_rows",
    "gauge",
    "Originals remembered, including those that expired since the last clearing. The memory is this times the size of "
    "one. Growth without end: the window is longer than the memory allows.",
)
RECENT = Spec(
    "stream_dedup_index_recent_rows",
    "gauge",
    "Originals in the recent tree, not yet in sorted tables; at most [index] recent_limit for each task.",
)
RUNS = Spec(
    "stream_dedup_index_runs",
    "gauge",
    "Sorted runs; each makes every lookup a little slower. Above some twenty: merges do not keep up with the input.",
)
WINDOW_AGE = Spec(
    "stream_dedup_window_age_seconds",
    "gauge",
    "Event time between the oldest original in the index and the newest item: how far back copies are found. Grows to "
    "[window] length after the first start and stays there. Less after a restart: the changelog has lost its "
    "beginning, check its retention with `topics check`.",
)
FILTER_ASKED = Spec(
    "stream_dedup_index_filter_keys_total",
    "counter",
    "Keys looked up while the recent tree was not empty.",
)
FILTER_PASSED = Spec(
    "stream_dedup_index_filter_passed_total",
    "counter",
    "Keys of stream_dedup_index_filter_keys_total that the filter of the recent tree let pass. More than a few per "
    "cent for unlike items: lower [index] recent_limit.",
)
CROWDED = Spec(
    "stream_dedup_index_crowded_keys_total",
    "counter",
    "Keys of items that gave as many originals as [index] bucket_limit allows; older ones, if any, were left out. "
    "Several for each item: a template, or a flood of items made to collide, for which [fingerprint] salt is the cure.",
)
MEMORY = Spec(
    "stream_dedup_memory_bytes",
    "gauge",
    "Memory by part. Near stream_dedup_memory_limit_bytes: shorten [window] length, choose a smaller fingerprint "
    "(`plan` says how much), or give more memory. `process` far above the sum of the others while the index does not "
    "grow: please report it.",
    {
        "part": "`signatures` (sketches and times), `keys` (index tables), `ids`, `bodies` (if they are kept) and "
        "`boilerplate`, each of all originals; `process`: the resident memory"
    },
)
MEMORY_LIMIT = Spec(
    "stream_dedup_memory_limit_bytes",
    "gauge",
    "Memory that this process may use: [worker] memory, by default the container's limit or the machine's memory.",
)
MERGES = Spec("stream_dedup_index_merges_total", "counter", "Merges of sorted runs.")
MERGE_SECONDS = Spec(
    "stream_dedup_index_merge_seconds_total",
    "counter",
    "Time spent in merges, mostly in parallel with the worker. A rate near 1: merges take a whole core.",
)
STATE_LOST = Spec(
    "stream_dedup_state_lost_timestamp_seconds",
    "gauge",
    "When this process last found that the changelog was deleted and created again, emptied, or has lost its "
    "beginning; 0: never. Copies of forgotten originals are let through again, at once or after the next take-over; "
    "the log says which, and what to do. Alert on it.",
)
FOREIGN = Spec(
    "stream_dedup_changelog_foreign_records_total",
    "counter",
    "Records of other programs that a reading of the changelog has skipped; each restore counts those that are there.",
)
BUILD = Spec(
    "stream_dedup_build_info",
    "gauge",
    "Always 1; the labels have the versions and the group. Join it to see what a deployment changed, and to "
    "tell the groups of one Prometheus job apart.",
    {
        "version": "of stream-dedup",
        "python": "of the interpreter",
        "group": "[kafka] group_id",
    },
)

CATALOGUE: tuple[Spec, ...] = (
    ITEMS, BAD, MISSING_FIELDS, SHAPES, SIMILARITY, CONTAINMENT, SOURCES, BATCH_ITEMS, DECISION,
    TRANSACTION, TRANSACTIONS, STEP_SECONDS, DELAY, LAG, BYTES_IN, BYTES_OUT, BYTES_CHANGELOG, ERRORS, STUCK,
    REBALANCES, OPENINGS, LOSSES,
    RESTORE, RESTORE_PROGRESS, ROLE, BEHIND_BLOCKS, BEHIND_SECONDS, TASKS, GIVEN_UP, STATUS, BROKERS_AWAY,
    BROKERS_DISTRUSTED, WATERMARK, ODD_TIMES, WINDOW_AGE, ROWS, EVICTED, RECENT, RUNS, MERGES, MERGE_SECONDS,
    FILTER_ASKED, FILTER_PASSED, CROWDED, MEMORY, MEMORY_LIMIT, STATE_LOST, FOREIGN, BUILD,
)  # fmt: skip
