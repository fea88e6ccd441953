"""Every metric there is: its name, kind, labels, and what to do with it.

The one list from which metrics.py and collectors.py make the metrics and reference.py writes
config/metrics.md; a test compares it with what a registry really shows. Names follow the conventions of
Prometheus: prefix, base units (seconds, bytes), `_total` for counters. Every label has few values, and all but one
(`source`, see sources.py) are known beforehand: an item's id or an error's text never becomes one.
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


_TASK = {"task": "`global`, or the partition's number in scope partition"}

# Of similarities; the thresholds lie between .5 and .95.
_RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
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
    "Records committed, by verdict and by the stage that settled it. `update`: the same article with something new. "
    "The share of duplicates is the product's own measure: look into the duplicates topic when it jumps. No increase "
    "while the lag grows: the worker is stuck.",
    {
        "verdict": "`unique`, `duplicate`, `update`, `bad`, `tombstone`",
        "stage": "`none`, `id`, `exact`, `headline`, `lead`, `body`, `prose`, `guard`, `policy`",
    },
)
BAD = Spec(
    "stream_dedup_bad_items_total",
    "counter",
    "Records sent to the dead-letter topic, by reason. A rise after a deployment upstream means a changed format: "
    "see [item] preset and fields.",
    {
        "reason": "`json`, `type`, `encoding`, `no-key`, `id`, `fingerprint`, `empty`, `too-large`, `refused`, "
        "`header`, `internal` (ours: please report it), `other`"
    },
)
GUARDS = Spec(
    "stream_dedup_guarded_items_total",
    "counter",
    "Items let through because a guard said no to a rule, by its reason. A jump: a site has a new template, or its "
    "copies now look like one; look at such items with `stream-dedup explain`.",
    {"reason": "`section`, `digest`, `boilerplate`, `next_day`, `other_body`, `template`, `other_headline`, `other`"},
)
SIMILARITY = Spec(
    "stream_dedup_similarity_ratio",
    "histogram",
    "Jaccard of an item's body and its closest candidate's, by verdict. Much of `unique` just below "
    "[decision] body, or of `duplicate` just above: the threshold cuts through your copies; measure with `evaluate`.",
    {"verdict": "`duplicate`, `update`, `unique`"},
    buckets=_RATIOS,
)
CONTAINMENT = Spec(
    "stream_dedup_containment_ratio",
    "histogram",
    "Share of the smaller body that the closest candidate's has, by verdict. High at `unique`: copies inside other "
    "pages are let through; see stream_dedup_guarded_items_total for the reason.",
    {"verdict": "`duplicate`, `update`, `unique`"},
    buckets=_RATIOS,
)
SOURCES = Spec(
    "stream_dedup_source_duplicates_total",
    "counter",
    "Duplicates by the source that sent them, the twenty busiest and the rest. One source that jumps: it sends its "
    "archive again, or its pages have lost their text. A series goes when its source is no longer among the busiest.",
    {"source": "host of the item; `other`: the rest, `none`: the item names none"},
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
    "Records of an input partition that are not yet committed, as of its last batch, up to where the partition ended "
    "at the last fetch: a sawtooth under overload. Markers of the producers' transactions count until they are passed. "
    "Alert when it grows for minutes. It stands still when the worker does: stream_dedup_status says that.",
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
    "Bytes written to the changelog; times the window it is the topic's size. Small batches are written twice, as "
    "blocks and folded together; a restart reads the folds, and of the blocks the last ones.",
)
ERRORS = Spec(
    "stream_dedup_errors_total",
    "counter",
    "What failed in the worker, by kind; the log has the text. Single retries are a broker's restart or a rebalance; "
    "a steady rate wants attention. A fatal one ends the process: its log says what to do.",
    {"kind": "name of the error's class: `TransactionFailed`, `Stalled`, `Fenced`, ...", "fate": "`retried`, `fatal`"},
)
STUCK = Spec(
    "stream_dedup_stuck_batches_total",
    "counter",
    "Batches that Kafka refused three times in a row at the same offsets, and each time after that. Outages and fences "
    "do not count. The batch is halved until it goes through or the record at fault is found, which becomes a dead "
    "letter; the log (ERROR) has the offsets. A steady increase: a record can go nowhere, and holds up its partition.",
    _TASK,
)
REBALANCES = Spec(
    "stream_dedup_rebalances_total",
    "counter",
    "How often the group gave this member partitions anew. Each costs a take-over's pause where tasks move; more than "
    "deployments explain: members are slower than [worker] session_timeout, or starved.",
)
OPENINGS = Spec(
    "stream_dedup_task_openings_total",
    "counter",
    "Tasks opened: a start, a take-over, or a failure mended. More than the deployments explain: see "
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
    "How much of the changelog a task has read back; 1 when it works. Below 1 nothing is let through: standing still, "
    "it is the cluster or a foreign transaction in the changelog; growing slowly, the window is long.",
    _TASK,
)
RESTORE = Spec(
    "stream_dedup_restore_seconds",
    "histogram",
    "Time to open a task: fence the former owner and read the changelog. This long nothing is let through on a "
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
BEHIND_BLOCKS = Spec(
    "stream_dedup_standby_behind_blocks",
    "gauge",
    "How far a standby is behind the changelog that it follows: committed offsets it has not read, a block or the end "
    "of a transaction each, as of the last second in which it could ask. A take-over reads them first.",
    {"task": "`global`: in scope partition nobody stands by"},
)
BEHIND_SECONDS = Spec(
    "stream_dedup_standby_behind_seconds",
    "gauge",
    "Seconds since a standby had read all that the changelog held. Some while it starts and under load; growing: it "
    "cannot read the changelog, see its log. A take-over would cost the reading of what came since.",
    {"task": "`global`: in scope partition nobody stands by"},
)
TASKS = Spec(
    "stream_dedup_tasks",
    "gauge",
    "Tasks of this member by state. `failing`: it failed, and waits or is opened anew; what its partitions bring waits "
    "in the input, other tasks go on. For minutes: see the log, which names the task and the reason.",
    {"state": "`open`, `opening`, `failing`"},
)
GIVEN_UP = Spec(
    "stream_dedup_roles_given_up_total",
    "counter",
    "How often this member could open no task, in three tries and a session's time, and left the group for a while so "
    "that another one works. Its log says why; if every member does it, look at the brokers.",
)
STATUS = Spec(
    "stream_dedup_status",
    "gauge",
    "1 for what /healthz says. `degraded`: no broker answers. `stalled`: no broker, no sign of life, or nothing but "
    "failures, for twice [worker] transaction_timeout; see the log, then the brokers.",
    {"status": "`starting`, `ok`, `standby`, `degraded`, `stalled`"},
)
BROKERS_AWAY = Spec(
    "stream_dedup_brokers_away_seconds",
    "gauge",
    "Seconds since a broker last answered this process, asked every two seconds; 0 while they answer, from 7 on they "
    "count as away. An idle worker shows an outage here and in stream_dedup_status, as nothing else fails.",
)
WATERMARK = Spec(
    "stream_dedup_watermark_timestamp_seconds",
    "gauge",
    "Event time that the stream has reached: the level (median of the last nine times) that the partitions of half of "
    "the recent records are at. A single wrong date does not move it. What is older by the window, and was not read "
    "lately, is forgotten. Ahead of the clock: producers' clocks are wrong, see [window] future.",
    _TASK,
)
ODD_TIMES = Spec(
    "stream_dedup_odd_times_total",
    "counter",
    "Records whose timestamp is odd, by reason. They are judged all the same, and no other record suffers. Many: mend "
    "the producer's clock or unit (1970: seconds for milliseconds). `late` while a backlog or an archive is read is "
    "right.",
    {
        "reason": "`missing`: none; `future`: ahead of the clock by more than [window] future; `alone`: further than "
        "[window] length from those around it; `late`: behind the watermark by more than [window] length; `seconds`: "
        "in the first months of 1970, as those around it"
    },
)
EVICTED = Spec(
    "stream_dedup_evicted_originals_total",
    "counter",
    "Originals forgotten before their time because there were more than [window] max_originals. Any: a shorter "
    "[window] length, or more of both memory and max_originals; late copies are let through meanwhile.",
)
ROWS = Spec(
    "stream_dedup_index_rows",
    "gauge",
    "Originals remembered, and their variants (held-back copies that were cut or re-headlined); those included that "
    "expired since the last clearing. Times the size of one it is the "
    "memory; growth without end: the window is longer than the memory allows.",
)
RECENT = Spec(
    "stream_dedup_index_recent_rows",
    "gauge",
    "Originals in the recent tree, not yet in sorted tables; at most [index] recent_limit for each task.",
)
RUNS = Spec(
    "stream_dedup_index_runs",
    "gauge",
    "Sorted runs; each costs every lookup a little. Above some twenty: merges do not keep up with the input.",
)
WINDOW_AGE = Spec(
    "stream_dedup_window_age_seconds",
    "gauge",
    "Event time between the oldest original held and the newest item: how far back copies are found. Grows to "
    "[window] length after the first start and stays there; less after a restart: the changelog has lost its "
    "beginning, check its retention with `topics check`.",
)
FILTER_ASKED = Spec(
    "stream_dedup_index_filter_keys_total",
    "counter",
    "Keys looked up while the recent tree held something.",
)
FILTER_PASSED = Spec(
    "stream_dedup_index_filter_passed_total",
    "counter",
    "Keys of these that the tree's filter let through to it. Over a few per cent on unlike items: make "
    "[index] recent_limit smaller.",
)
MEMORY = Spec(
    "stream_dedup_memory_bytes",
    "gauge",
    "Memory by part. Near stream_dedup_memory_limit_bytes: a shorter [window] length, a smaller fingerprint (`plan` "
    "says how much), or more memory. `process` far above the rest at a steady size of the index: please report it.",
    {
        "part": "`signatures` (sketches and times), `keys` (index tables), `ids`, `bodies` (where they are kept) and "
        "`boilerplate`, each of all originals; `process`: all that is resident"
    },
)
MEMORY_LIMIT = Spec(
    "stream_dedup_memory_limit_bytes",
    "gauge",
    "What this process may take: [observe] memory_limit, else the container's limit, else the machine's memory.",
)
MERGES = Spec("stream_dedup_index_merges_total", "counter", "Merges of sorted runs.")
MERGE_SECONDS = Spec(
    "stream_dedup_index_merge_seconds_total",
    "counter",
    "Time spent merging, mostly beside the worker. A rate near 1: the index takes a whole core.",
)
STATE_LOST = Spec(
    "stream_dedup_state_lost_timestamp_seconds",
    "gauge",
    "When this process last found that the changelog no longer holds what it should: deleted and created anew, "
    "emptied, or without its beginning; 0: never. Copies of what is forgotten go out once more, at once or after the "
    "next take-over; the log says which, and what to do. Alert on it.",
)
BUILD = Spec(
    "stream_dedup_build_info",
    "gauge",
    "Always 1; says which version runs. Join it to see what a deployment changed.",
    {"version": "of stream-dedup", "python": "of the interpreter"},
)

CATALOGUE: tuple[Spec, ...] = (
    ITEMS, BAD, GUARDS, SIMILARITY, CONTAINMENT, SOURCES, BATCH_ITEMS, DECISION, TRANSACTION, TRANSACTIONS,
    STEP_SECONDS, DELAY, LAG, BYTES_IN, BYTES_OUT, BYTES_CHANGELOG, ERRORS, STUCK, REBALANCES, OPENINGS, LOSSES,
    RESTORE, RESTORE_PROGRESS, ROLE, BEHIND_BLOCKS, BEHIND_SECONDS, TASKS, GIVEN_UP, STATUS, BROKERS_AWAY,
    WATERMARK, ODD_TIMES, WINDOW_AGE, ROWS, EVICTED, RECENT, RUNS, MERGES, MERGE_SECONDS,
    FILTER_ASKED, FILTER_PASSED, MEMORY, MEMORY_LIMIT, STATE_LOST, BUILD,
)  # fmt: skip
