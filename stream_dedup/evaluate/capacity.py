"""Size a deployment for a rate: processes of each role, memory, network, disk, restore and catching up.

In: a `Load` (rate, window, item size, share held back, ...) and the settings. Out: a `Capacity`, which
`stream-dedup plan --rate` prints. Pure; nothing is run. It answers up to which rate a single worker suffices, what
split mode needs beyond, and what limits its one judge: processor, memory, restore time or row numbers. costs.py says
what an item costs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from stream_dedup.errors import ConfigError
from stream_dedup.evaluate.costs import (
    BATCHES_HELD,
    CHANGELOG_BYTES,
    CHANGELOG_WRITES,
    CORES_USED,
    EVIDENCE_BYTES,
    FINGERPRINT_BYTES,
    HEADER_BYTES,
    PUBLISH_BUFFER,
    VERDICT_BYTES,
    RoleCosts,
    candidates,
    has_views,
    judge_us,
    restore_seconds,
    role_costs,
)
from stream_dedup.fingerprint.packed_sets import expected_bytes
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import MEMORY_SLACK, footprint, peak_bytes
from stream_dedup.settings import Settings
from stream_dedup.settings.memory import PROCESS_BYTES, needed

# Share of its limit that a process may use at the peak. The model is within a factor of 1.5 of measurement, and a cost
# 1.5 times the predicted one still fits (0.6 × 1.5 = 0.9). The rest also catches up after an outage, which takes
# u / (1 - u) times its length, and takes the share of a member that restarts.
UTILISATION = 0.6
# Room for more members later: partitions of a live input can only be added with care.
_PARTITIONS_FOR_EACH = 2
_PARTITION_BYTES = 10e6  # what one partition carries easily in a second
# A node with more is rare; --memory says otherwise.
DEFAULT_MEMORY = 64 * 2**30
# If judge and standby are lost together, the output stops for so long. Alerts on lag commonly wait as long.
_LONGEST_RESTORE = 600.0
_MOST_ORIGINALS = 2**31  # the bound of window.max_originals; pairs have 32 bits for a row (hybrid.py)
_DAY = 86400.0
_FASTEST = 1e9  # items a second; more than any limit below allows


@dataclass(frozen=True, slots=True)
class Load:
    """What a deployment must carry: `rate` items a second on average, `peak` times as many at the busiest hour.

    window, outage, retention: seconds. `retention`: of the fingerprints and verdicts. `held_back`: share of the items.
    `memory`: bytes that one process may take. `replicas`: replication factor of all topics. id_bytes, body_shingles: as
    in planner.py.
    """

    rate: float
    window: float
    peak: float = 2.0
    item_bytes: float = 4200.0
    held_back: float = 0.25
    replicas: int = 3
    outage: float = 600.0
    retention: float = _DAY
    memory: float = DEFAULT_MEMORY
    id_bytes: float = 40.0
    body_shingles: float = 500.0

    @property
    def originals(self) -> int:
        """Originals remembered at the average rate: items let through in a window."""
        return max(math.ceil(self.rate * self.window * (1.0 - self.held_back)), 1)


@dataclass(frozen=True, slots=True)
class Role:
    """Processes of one role. `rate`: items a second at which one process is busy all the time; `load`: its share of
    that at the peak; `standbys`: more processes of the same memory that take no share."""

    name: str
    processes: int
    standbys: int
    cost_us: float
    rate: float
    load: float
    memory: int


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes of one topic on average: written by clients, read by this deployment, sent between brokers, kept on all
    disks (0: decided by others)."""

    topic: str
    written: float
    read: float
    replicated: float
    disk: float


@dataclass(frozen=True, slots=True)
class Outage:
    """After `seconds` without a member of `role`: items that wait, and the time to catch up (None: never)."""

    role: str
    seconds: float
    items: int
    catch_up: float | None


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound of a judge. `value` of `bound` is used; `rate`: the largest average rate within it, with this window,
    None: beyond what the model computes."""

    name: str
    value: float
    bound: float
    rate: float | None

    @property
    def is_exceeded(self) -> bool:
        return self.value > self.bound


@dataclass(frozen=True, slots=True)
class Deployment:
    """One way to run it: a single worker, or split mode."""

    name: str
    roles: list[Role]
    flows: list[Flow]
    outages: list[Outage]
    cores: float

    @property
    def memory(self) -> int:
        return sum((role.processes + role.standbys) * role.memory for role in self.roles)


@dataclass(frozen=True, slots=True)
class Capacity:
    """The answer to a `Load`. `choice`: what carries the rate: "single", "split", or "none" if one judge is too slow.

    split_from: the average rate from which on a single worker is too slow, with this window; seconds_to_restore: from a
    start with an empty index to the first commit. found, compared: unrelated originals that share a key with an item,
    and those of them that are compared with it; fastest_judge: items a second of a judge if there were none of them.
    """

    load: Load
    originals: int
    found: float
    compared: float
    fastest_judge: float
    single: Deployment
    split: Deployment
    split_from: float
    choice: Literal["single", "split", "none"]
    partitions: int
    seconds_to_restore: float
    limits: list[Limit]
    warnings: list[str]

    @property
    def deployment(self) -> Deployment:
        """The deployment of the choice; split mode if its judge is too slow, too."""
        return self.single if self.choice == "single" else self.split


# -- the plan -------------------------------------------------------------------------------------------------


def capacity(load: Load, settings: Settings) -> Capacity:
    """Size a single worker and split mode for a load. Raises ConfigError for a load that is no load.

    >>> from stream_dedup.settings import load_settings
    >>> small = capacity(Load(rate=500, window=7 * 86400), load_settings())
    >>> small.choice, [role.processes for role in small.split.roles]
    ('single', [1, 1, 1])
    """
    _check(load)
    found, compared = candidates(load.originals, settings)
    costs = _costs(load, settings)
    single, split = _single(load, settings, costs), _split(load, settings, costs)
    limits = _limits(load, settings)
    judge = split.roles[1]
    choice: Literal["single", "split", "none"] = "split" if judge.load <= UTILISATION else "none"
    if single.roles[0].load <= UTILISATION:
        choice = "single"
    members = 1 if choice == "single" else max(role.processes for role in split.roles)
    throughput = math.ceil(load.rate * load.peak * load.item_bytes / _PARTITION_BYTES)
    return Capacity(
        load,
        load.originals,
        found,
        compared,
        1e6 / _costs(load, settings, alone=True).judge,
        single,
        split,
        _largest_rate(load, lambda some: _worker_load(some, settings) <= UTILISATION) or 0.0,
        choice,
        max(1 if choice == "single" else _PARTITIONS_FOR_EACH * members, throughput),
        restore_seconds(load.originals).total,
        limits,
        _warnings(load, settings, limits, choice),
    )


def _check(load: Load) -> None:
    for name, ok, expected in (
        ("rate", 0 < load.rate <= _FASTEST, f"more than 0 and at most {_FASTEST:.0e} items a second"),
        ("window", load.window > 0, "longer than 0s"),
        ("peak", load.peak >= 1, "at least 1: the peak is not below the average"),
        ("item-bytes", load.item_bytes >= 1, "at least 1"),
        ("held-back", 0 <= load.held_back < 1, "from 0 to less than 1"),
        ("replicas", load.replicas >= 1, "at least 1"),
        ("outage", load.outage > 0, "longer than 0s"),
        ("retention", load.retention > 0, "longer than 0s"),
        ("memory", load.memory > 0, "more than 0"),
    ):
        if not (ok and math.isfinite(getattr(load, name.replace("-", "_")))):
            raise ConfigError(f"--{name} must be {expected}")


def _costs(load: Load, settings: Settings, *, alone: bool = False) -> RoleCosts:
    """Costs of an item; `alone`: no unrelated original shares a key with it."""
    found, compared = (0.0, 0.0) if alone else candidates(load.originals, settings)
    tables = Scheme(settings.fingerprint).tables
    return role_costs(load.item_bytes, sum(judge_us(load.originals, compared, load.held_back, found, tables)))


def _role(name: str, load: Load, cost: float, cores: float, memory: float, *, one: bool = False) -> Role:
    rate = cores / cost * 1e6
    peak = load.rate * load.peak
    processes = 1 if one else max(math.ceil(peak / (UTILISATION * rate)), 1)
    return Role(name, processes, int(one), cost, rate, peak / (processes * rate), math.ceil(memory))


def judge_memory(load: Load, settings: Settings) -> float:
    """Return the [worker] memory of a process that holds the index, so that the originals fit beside its batches."""
    scheme = Scheme(settings.fingerprint)
    bodies = expected_bytes(load.body_shingles) if scheme.is_exact else 0.0
    takes = footprint(scheme, load.originals, load.id_bytes, bodies)
    return needed(MEMORY_SLACK * peak_bytes(load.originals, takes))


def _batch_bytes(load: Load, settings: Settings) -> float:
    worker = settings.worker
    return BATCHES_HELD * min(worker.batch_items * load.item_bytes, worker.batch_bytes)


def _worker_load(load: Load, settings: Settings) -> float:
    return load.rate * load.peak * _costs(load, settings).worker / (CORES_USED * 1e6)


def _single(load: Load, settings: Settings, costs: RoleCosts) -> Deployment:
    role = _role("all", load, costs.worker, CORES_USED, judge_memory(load, settings), one=True)
    outages = [_outage(load, role)]
    return Deployment("single worker", [role], _flows(load, split=False), outages, load.rate * costs.worker / 1e6)


def _split(load: Load, settings: Settings, costs: RoleCosts) -> Deployment:
    batch = PROCESS_BYTES + _batch_bytes(load, settings)
    roles = [
        _role("fingerprint", load, costs.fingerprint, CORES_USED, batch),
        # Its merges run in a thread of their own; one core for both is the safe side.
        _role("judge", load, costs.judge, 1.0, judge_memory(load, settings), one=True),
        _role("publish", load, costs.publish, CORES_USED, batch + PUBLISH_BUFFER),
    ]
    cores = load.rate * (costs.fingerprint + costs.judge + costs.publish) / 1e6
    return Deployment("split", roles, _flows(load, split=True), [_outage(load, role) for role in roles], cores)


def _outage(load: Load, role: Role) -> Outage:
    """All processes of a role stand still for a while, and then work as fast as they can, at the average rate."""
    waiting, spare = load.rate * load.outage, role.processes * role.rate - load.rate
    return Outage(role.name, load.outage, round(waiting), waiting / spare if spare > 0 else None)


def _flows(load: Load, *, split: bool) -> list[Flow]:
    """Bytes a second of each topic. The standby of a single worker and of the judge read the changelog."""

    def flow(topic: str, share: float, size: float, readers: int, kept: float) -> Flow:
        written = load.rate * share * size
        return Flow(topic, written, readers * written, (load.replicas - 1) * written, load.replicas * kept * written)

    passed = 1.0 - load.held_back
    changelog = passed, CHANGELOG_BYTES * CHANGELOG_WRITES, 1, load.window + load.retention + _DAY
    between = [
        flow("fingerprints", 1.0, FINGERPRINT_BYTES, 1, load.retention),
        flow("verdicts", 1.0, VERDICT_BYTES, 1, load.retention),
    ]
    return [
        flow("input", 1.0, load.item_bytes, 2 if split else 1, load.retention),
        *(between if split else []),
        flow("changelog", *changelog),
        flow("output", passed, load.item_bytes + HEADER_BYTES, 0, 0.0),
        flow("duplicates", load.held_back, load.item_bytes + EVIDENCE_BYTES, 0, 0.0),
    ]


# -- limits of one judge --------------------------------------------------------------------------------------


def _limits(load: Load, settings: Settings) -> list[Limit]:
    """Return the bounds of one judge."""
    bounds: list[tuple[str, Callable[[Load], float], float]] = [
        ("processor", lambda some: some.rate * some.peak * _costs(some, settings).judge / 1e6, UTILISATION),
        ("memory", lambda some: judge_memory(some, settings), load.memory),
        ("restore", lambda some: restore_seconds(some.originals).total, _LONGEST_RESTORE),
        ("originals", lambda some: some.originals, _MOST_ORIGINALS),
    ]
    return [
        Limit(name, value(load), bound, _largest_rate(load, lambda some, v=value, b=bound: v(some) <= b))  # type: ignore[misc]
        for name, value, bound in bounds
    ]


def _largest_rate(load: Load, fits: Callable[[Load], bool]) -> float | None:
    """Return the largest average rate that fits, with all else of the load, to 0.1 %; None if every rate fits."""
    low, high = 1e-6, _FASTEST
    if fits(replace(load, rate=high)):
        return None
    if not fits(replace(load, rate=low)):
        return 0.0
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(replace(load, rate=middle)) else (low, middle)
    return low


def _warnings(load: Load, settings: Settings, limits: list[Limit], choice: str) -> list[str]:
    """Return a sentence for each limit that is exceeded, and for each setting that does not go with the load."""
    gib, minute = 2**30, 60
    texts: dict[str, Callable[[Limit], str]] = {
        "processor": lambda x: (
            f"one judge needs {x.value:.2f} cores at the peak; it has one, and {x.bound:g} of it with headroom"
        ),
        "memory": lambda x: (
            f"the index takes {x.value / gib:,.0f} GiB, in the standby too, more than {x.bound / gib:,.0f} GiB"
        ),
        "restore": lambda x: (
            f"a restore of the index takes {x.value / minute:,.0f} minutes, more than "
            f"{x.bound / minute:,.0f}: the output stops for so long if judge and standby are lost together"
        ),
        "originals": lambda x: f"{x.value:,.0f} originals are more than [window] max_originals may be ({x.bound:,.0f})",
    }
    found = []
    for limit in limits:
        if limit.is_exceeded and not (limit.name == "processor" and choice == "single"):
            upto = "" if limit.rate is None else f". With this window up to {_short(limit.rate)} items a second fit"
            found.append(texts[limit.name](limit) + upto)
    configured = settings.window.max_originals
    if configured is not None and configured < load.originals <= _MOST_ORIGINALS:
        found.append(
            f"[window] max_originals is {configured:,}: the first originals would be forgotten within the window; "
            f"set it to at least {load.originals:,}"
        )
    length = settings.window.length.total_seconds()
    if not math.isclose(length, load.window):
        found.append(f"[window] length is {_hours(length)} h in the settings, not {_hours(load.window)} h")
    if not has_views(settings.fingerprint):
        found.append(
            "how many unrelated originals share a key with an item is not known for these [fingerprint] settings: the "
            "costs are those of as many as [index] bucket_limit allows"
        )
    if settings.fingerprint.verify == "exact":
        found.append("verify = 'exact' compares whole bodies, which takes more time than this model has")
    return found


def _hours(seconds: float) -> str:
    """Format hours.

    >>> _hours(604_800.0), _hours(600.0)
    ('168', '0.167')
    """
    return f"{seconds / 3600:,.3g}" if seconds < 360_000 else f"{seconds / 3600:,.0f}"


def _short(rate: float) -> str:
    """Round a rate down to two digits.

    >>> _short(1507.2), _short(4.57), _short(0.123)
    ('1,500', '4.5', '0.12')
    """
    step = 10.0 ** (math.floor(math.log10(rate)) - 1) if rate > 0 else 1.0
    down = math.floor(rate / step + 1e-9) * step
    return f"{down:,.0f}" if down >= 10 else f"{down:.2g}"
