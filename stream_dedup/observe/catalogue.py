"""Every metric there is: its name, kind, labels, and what to do with it.

The one list from which metrics.py and collectors.py make the metrics and reference.py writes
config/metrics.md; a test compares it with what a registry really shows. Names follow the conventions of
Prometheus: prefix, base units (seconds, bytes), `_total` for counters. Every label has few values, known
beforehand: an item's id, a host or an error's text never becomes one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Spec:
    """One metric. `labels`: name -> the values it takes, in words. `buckets`: a histogram's upper bounds."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: Mapping[str, str] = field(default_factory=dict)
    buckets: tuple[float, ...] = ()


_LANE = {"lane": "`global`, or the partition's number in scope partition"}

# One to the largest `worker.batch_items`, in the steps 1, 2, 5.
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
# A batch of one item is judged in under a millisecond, 20,000 long ones take seconds.
_JUDGING = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
# A transaction on a near broker takes some 10 ms; at `worker.transaction_timeout` (30 s by default) it is given up.
_TRANSACTION = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
# Milliseconds on a live feed; hours and days when a backlog or an archive is worked off.
_DELAY = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 43_200.0, 86_400.0)
# An empty changelog takes under a second, ten million originals some minutes.
_RESTORE = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)

ITEMS = Spec(
    "stream_dedup_items_total",
    "counter",
    "Records committed, by verdict and by the stage that settled it. The share of duplicates is the product's own "
    "measure: look into the duplicates topic when it jumps. No increase while the lag grows: the worker is stuck.",
    {
        "verdict": "`unique`, `duplicate`, `update`, `bad`, `tombstone`",
        "stage": "`none`, `id`, `exact`, `headline`, `lead`, `body`, `guard`, `policy`",
    },
)
BAD = Spec(
    "stream_dedup_bad_items_total",
    "counter",
    "Records sent to the dead-letter topic, by reason. A rise after a deployment upstream means a changed format: "
    "see [item] preset and fields.",
    {
        "reason": "`json`, `type`, `encoding`, `no-key`, `id`, `fingerprint`, `empty`, `too-large`, `refused`, "
        "`internal` (ours: please report it), `other`"
    },
)
BATCH_ITEMS = Spec(
    "stream_dedup_batch_items",
    "histogram",
    "Records in a transaction. Always at [worker] batch_items: a backlog is being worked off, or more throughput "
    "is needed.",
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
    "Time of one transaction, from its begin to its commit (steps 4 to 9). It is the cluster's time: growth points "
    "at the brokers or the network.",
    buckets=_TRANSACTION,
)
TRANSACTIONS = Spec(
    "stream_dedup_transactions_total",
    "counter",
    "Transactions, by outcome. A failed one is read and judged again, nothing is lost; many of them: see the log "
    "and stream_dedup_errors_total.",
    {"outcome": "`committed`, `failed`"},
)
STEP_SECONDS = Spec(
    "stream_dedup_step_seconds_total",
    "counter",
    "Time spent in each step of the commit protocol; its rate is the share of one second. Where to look first when "
    "throughput is too low.",
    {"step": "`judge`, `begin`, `send`, `changelog`, `offsets`, `flush`, `commit`, `apply`"},
)
DELAY = Spec(
    "stream_dedup_item_delay_seconds",
    "histogram",
    "From a record's timestamp to its commit: how late readers of the output get it. Alert on a high quantile on "
    "a live feed; when an archive is replayed it is the archive's age.",
    buckets=_DELAY,
)
LAG = Spec(
    "stream_dedup_lag_records",
    "gauge",
    "Records of an input partition that are not yet committed, as of its last batch. Alert when it grows for "
    "minutes. It stands still when the worker does: watch /healthz too.",
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
    "Bytes written to the changelog; times the window it is the topic's size, and what a restart has to read.",
)
ERRORS = Spec(
    "stream_dedup_errors_total",
    "counter",
    "What failed in the worker and was tried again, by kind; the log has the text. Single ones are a broker's "
    "restart or a rebalance; a steady rate wants attention.",
    {"kind": "name of the error's class: `TransactionFailed`, `Stalled`, `Fenced`, ..."},
)
OPENINGS = Spec(
    "stream_dedup_lane_openings_total",
    "counter",
    "Lanes opened: a start, a take-over, or a failure mended. More than the deployments explain: see "
    "stream_dedup_errors_total.",
)
LOSSES = Spec(
    "stream_dedup_lane_losses_total",
    "counter",
    "Lanes lost to another member, or closed after a failure.",
)
RESTORE = Spec(
    "stream_dedup_restore_seconds",
    "histogram",
    "Time to open a lane: fence the former owner and read the changelog. This long nothing is let through on a "
    "take-over; a shorter window makes it shorter.",
    buckets=_RESTORE,
)
ROLE = Spec(
    "stream_dedup_role",
    "gauge",
    "1 for the role this process has. In scope global exactly one member of the group should be active: alert on "
    "sum(stream_dedup_role{role='active'}) != 1 for minutes.",
    {"role": "`active`, `standby`"},
)
WATERMARK = Spec(
    "stream_dedup_watermark_timestamp_seconds",
    "gauge",
    "Highest event time so far; what is older than it by the window is forgotten. Ahead of the clock: a producer's "
    "clock is wrong, see [window] future.",
    _LANE,
)
ROWS = Spec(
    "stream_dedup_index_rows",
    "gauge",
    "Originals remembered, those included that expired since the last clearing. Times the size of one it is the "
    "memory; growth without end: the window is longer than the memory allows.",
)
RECENT = Spec(
    "stream_dedup_index_recent_rows",
    "gauge",
    "Originals in the recent tree, not yet in sorted tables; at most [index] recent_limit for each lane.",
)
RUNS = Spec(
    "stream_dedup_index_runs",
    "gauge",
    "Sorted runs; each costs every lookup a little. Above some twenty: merges do not keep up with the input.",
)
INDEX_BYTES = Spec(
    "stream_dedup_index_bytes",
    "gauge",
    "Memory of the index tables, without the originals' sketches and ids; compare with process_resident_memory_bytes.",
)
ROWS_BYTES = Spec(
    "stream_dedup_originals_bytes",
    "gauge",
    "Memory of the originals' records and ids, beside the index tables; `stream-dedup plan` says what to expect.",
)
MERGES = Spec("stream_dedup_index_merges_total", "counter", "Merges of sorted runs.")
MERGE_SECONDS = Spec(
    "stream_dedup_index_merge_seconds_total",
    "counter",
    "Time spent merging, mostly beside the worker. A rate near 1: the index takes a whole core.",
)
BUILD = Spec(
    "stream_dedup_build_info",
    "gauge",
    "Always 1; says which version runs. Join it to see what a deployment changed.",
    {"version": "of stream-dedup", "python": "of the interpreter"},
)

CATALOGUE: tuple[Spec, ...] = (
    ITEMS, BAD, BATCH_ITEMS, DECISION, TRANSACTION, TRANSACTIONS, STEP_SECONDS, DELAY, LAG,
    BYTES_IN, BYTES_OUT, BYTES_CHANGELOG, ERRORS, OPENINGS, LOSSES, RESTORE, ROLE, WATERMARK,
    ROWS, RECENT, RUNS, INDEX_BYTES, ROWS_BYTES, MERGES, MERGE_SECONDS, BUILD,
)  # fmt: skip
