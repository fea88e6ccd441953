"""Check the guarantees of docs/operating.md in a world that has come to rest.

In: a `World` after its trouble. Out: sentences in its `violations`, each beginning with the short name of the
guarantee. Every check looks at what a read_committed reader of the topics sees; of the worker's own data only its
index is used, and compared with the changelog.
"""

from collections import defaultdict
from typing import TYPE_CHECKING

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.news.item import Item
from stream_dedup.stream.context import WorkerContext
from stream_dedup.stream.observer import Observer
from stream_dedup.stream.state_store import StateStore
from tests.model.broker import Committed
from tests.model.items import ODD, Made, number_of
from tests.model.log import Record

if TYPE_CHECKING:
    from tests.model.world import World

_WINDOW = 7 * 24 * 3600 * 1000
_SLACK = 3600 * 1000  # near the edge of the window either verdict is right
_SOURCE, _VERDICT, _ORIGINAL = "dedup-source", "dedup-verdict", "dedup-original"
# After this a standby has read the last block, and a frozen member has learnt what happened meanwhile.
_REST = 6.0


def header(record: Record, name: str) -> str:
    """The value of a header that the worker has added, behind the record's own."""
    return next((value.decode() for key, value in reversed(record.headers) if key == name and value is not None), "")


def identified(world: "World", record: Record) -> int:
    """The number of the made-up record that came out, by its header or else by its place in the input."""
    number = number_of(record)
    if number < 0:
        _, partition, offset = header(record, _SOURCE).rsplit("/", 2)
        incarnation = world.broker.topics[world.settings.topics.input].incarnation
        place = incarnation, int(partition), int(offset)
        number = next((made.number for made in world.made.values() if made.place == place), -1)
    return number


def missing(world: "World") -> list[int]:
    """The numbers of input records without an outcome yet. Cheap, since it is called all the time."""
    topics = world.settings.topics
    for topic in (topics.output, topics.duplicates, topics.dead_letters):
        committed = world.broker.committed[topic]
        for one in committed[len(world.looked.setdefault(topic, [])) :]:
            number = identified(world, one.record)
            world.looked[topic].append(number)
            world.seen.add(number)
    return [number for number, made in world.made.items() if number not in world.seen and not made.waived]


def check(world: "World") -> None:
    """Check every guarantee at the end."""
    violations = world.violations
    ended = [life for life in world.dead if life.error is not None and not life.may_end]
    if ended and not world.excuses:
        violations.append(f"ended: a worker ended by itself without a cause: {ended[0].error!r}")
    late = missing(world)
    if late and not (ended and world.excuses) and not violations:
        first = [world.made[number] for number in late[:3]]
        violations.append(f"progress: {len(late)} of {len(world.made)} records have no outcome: {first}")
    violations += _skipped(world, late)
    outcomes = _outcomes(world)
    violations += [violation for made in world.made.values() for violation in _fate(world, made, outcomes[made.number])]
    unknown = set(outcomes) - set(world.made)
    if unknown:
        violations.append(f"aborted: records that were never committed to the input came out: {sorted(unknown)[:5]}")
    violations += _verdicts(world, outcomes)
    violations += world.thrown[:1]
    if not late and not ended:
        violations += _indexes(world)


def _skipped(world: "World", late: list[int]) -> list[str]:
    """Records without an outcome although a later record of their partition has one. Nothing excuses this."""
    last_done: dict[tuple[int, int], int] = {}
    for number in world.seen & world.made.keys():
        incarnation, partition, offset = world.made[number].place
        last_done[incarnation, partition] = max(offset, last_done.get((incarnation, partition), -1))
    lost = [world.made[number] for number in late]
    lost = [made for made in lost if made.place[2] < last_done.get(made.place[:2], -1)]
    return [f"lost: {len(lost)} records were skipped: {lost[:3]}"] if lost else []


def _outcomes(world: "World") -> dict[int, list[Committed]]:
    topics = world.settings.topics
    missing(world)
    found: dict[int, list[Committed]] = defaultdict(list)
    for topic in (topics.output, topics.duplicates, topics.dead_letters):
        for number, one in zip(world.looked[topic], world.broker.committed[topic], strict=True):
            found[number].append(one)
    return found


def _fate(world: "World", made: Made, came: list[Committed]) -> list[str]:
    """A record has exactly one outcome, with its bytes untouched, in the right topic."""
    topics = world.settings.topics
    if len(came) > 1:
        return [f"twice: {made} came out {len(came)} times: {[(one.topic, one.partition, one.offset) for one in came]}"]
    if not came:
        return []  # reported as progress
    one = came[0]
    fed, out = made.record, one.record
    wrong = []
    reason = header(out, "dedup-reason")
    if one.topic == topics.dead_letters:
        is_right = (
            made.kind in ("bad", "odd")
            or made.number in world.refused
            or (world.plan.compact and fed.key is None)
            or (fed.key is None and fed.value is None)
        )
        if not is_right:
            wrong.append(f"innocent: {made} is a dead letter without a cause: {reason}")
    elif made.kind == "bad":
        wrong.append(f"bad: {made} cannot be read, but went to {one.topic}")
    if out.value != fed.value and reason != "refused":
        wrong.append(f"bytes: the value of {made} became {out.value!r}")
    if out.key != fed.key or (out.timestamp != fed.timestamp and reason != "refused"):
        wrong.append(f"bytes: {made} came out with key {out.key!r} and time {out.timestamp}")
    own = [pair for pair in fed.headers if pair[0] != ODD]
    if reason != "refused" and [pair for pair in out.headers if pair in own] != own:
        wrong.append(f"bytes: the headers of {made} became {out.headers}")
    return wrong


def _verdicts(world: "World", outcomes: dict[int, list[Committed]]) -> list[str]:
    """Each verdict follows from the records committed before it, or with it, in the same task."""
    wrong: list[str] = []
    by_id = {made.id: made for made in world.made.values() if made.kind != "tombstone"}
    first: dict[tuple[int, int], tuple[Made, Committed]] = {}
    forgotten: dict[tuple[int, str], list[int]] = defaultdict(list)  # task and id -> moments of tombstones
    is_split = world.plan.scope == "partition"
    ordered = sorted(((came[0].moment, number) for number, came in outcomes.items() if came and number in world.made))
    for moment, number in ordered:
        made = world.made[number]
        if made.kind == "tombstone":
            forgotten[made.place[1] if is_split else 0, made.id].append(moment)
    for moment, number in ordered:
        made, came = world.made[number], outcomes[number][0]
        task = made.place[1] if is_split else 0
        verdict = header(came.record, _VERDICT)
        if verdict == "duplicate":
            original = by_id.get(header(came.record, _ORIGINAL))
            fate = outcomes.get(original.number) if original is not None else None
            if original is None or not fate:
                wrong.append(
                    f"original: {made} was held back for {header(came.record, _ORIGINAL)}, which never came out"
                )
            elif fate[0].topic != world.settings.topics.output or fate[0].moment > moment:
                wrong.append(f"original: {made} was held back for {original}, which was not let through before it")
            elif original.fingerprint != made.fingerprint or (is_split and original.place[1] != made.place[1]):
                wrong.append(f"verdict: {made} was held back for {original}, which is another article")
        elif verdict == "unique" and made.fingerprint:
            key = task, made.fingerprint
            if key in first:
                before, was = first[key]
                # Within one transaction the order is not known here.
                either = [before.id, made.id] if was.moment == moment else [before.id]
                gone = any(was.moment <= one <= moment for name in either for one in forgotten[task, name])
                far = abs(before.record.timestamp - made.record.timestamp) > _WINDOW - _SLACK
                if not gone and not far and not before.is_ahead and not made.is_ahead:
                    wrong.append(f"verdict: {made} was let through although {before} was before")
            first[key] = made, came
    return wrong


def _indexes(world: "World") -> list[str]:
    """Each member's index gives the same verdicts as one restored from the changelog."""
    broker, settings = world.broker, world.settings
    awake = max((life.process.frozen_until for life in world.lives if life is not None), default=0.0)
    world.simulation.sleep(max(0.0, awake - world.simulation.now) + _REST)
    if missing(world):
        return []
    probes = [
        Item(f"probe-{n}", "", "", "", broker.now_ms(), 0, 0, fingerprint=one)
        for n, one in enumerate(sorted({one for one, _ in world.source.fingerprints}))
    ]
    context = WorkerContext(settings, Observer(), world.simulation.wall, Deduplicator, lambda: float("inf"))
    count = len(broker.topics[settings.topics.input].logs)
    names = [str(one) for one in range(count)] if world.plan.scope == "partition" else ["global"]
    fresh = []
    for index, name in enumerate(names):
        store = StateStore(context, name, index)
        try:
            store.complete(lambda done, total: None)
            fresh.append(_verdicts_of(store.dedup, probes))
        finally:
            store.close()
    return [
        f"index: {life.process.name} (tasks {sorted(life.tasks)}) has an index of {len(index)} originals that differs "
        "from the changelog"
        for life in world.lives
        if life is not None and life.process.dead_since is None
        for index in life.indexes
        if not index.is_closed and _verdicts_of(index, probes) not in fresh
    ]


def _verdicts_of(dedup: Deduplicator, probes: list[Item]) -> list[object]:
    found = dedup.judge(probes)
    return [(verdict.kind, verdict.original and verdict.original.id) for verdict in found.verdicts]
