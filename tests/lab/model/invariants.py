"""Check the guarantees of docs/operating.md in a world that has come to rest.

Each violation is a sentence that begins with the short name of the guarantee. Every check looks at what a
read_committed reader of the topics sees. Of the worker's own data only its index is used, and compared with the
changelog. outcomes.py says what a record's outcome must be, for the soak too.
"""

from collections import defaultdict
from typing import TYPE_CHECKING

from stream_dedup.dedup.decider import Decider
from stream_dedup.errors import ChangelogError
from stream_dedup.kafka.runtime import no_deadline
from stream_dedup.news.item import Item
from stream_dedup.worker.context import WorkerContext
from stream_dedup.worker.observer import Observer
from stream_dedup.worker.outgoing import ORIGINAL, SOURCE
from stream_dedup.worker.state_store import StateStore
from tests.lab.model.broker import Committed
from tests.lab.model.items import Made, number_of
from tests.lab.model.log import Record
from tests.lab.model.outcomes import fate, header, verdicts

if TYPE_CHECKING:
    from tests.lab.model.world import World

# After this a standby has read the last block, and a member that froze, or whose call hung, has learnt what happened
# meanwhile.
_REST = 6.0


def identified(world: "World", record: Record) -> int:
    """The number of the made-up record that came out, by its header or else by its place in the input."""
    number = number_of(record)
    if number < 0:
        _, partition, offset = header(record, SOURCE).rsplit("/", 2)
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
    ended = [life for life in world.dead if life.failure is not None]
    if ended and not world.excuses:
        violations.append(f"ended: a worker ended by itself without a cause: {ended[0].failure!r}")
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
    may_die = made.number in world.refused or (world.plan.compact and made.record.key is None)
    return fate(made, came, world.settings.topics.dead_letters, may_die)


def _verdicts(world: "World", outcomes: dict[int, list[Committed]]) -> list[str]:
    by_id = {made.id: made for made in world.made.values() if made.kind != "tombstone"}

    def original_of(came: Committed) -> Made | None:
        return by_id.get(header(came.record, ORIGINAL))

    is_split = world.plan.scope == "partition"
    topics, rules = world.settings.topics, world.settings.sources.rules
    return verdicts(world.made, outcomes, topics.output, original_of, rules, is_split=is_split)


def _indexes(world: "World") -> list[str]:
    """Each member's index gives the same verdicts as one restored from the changelog."""
    broker, settings = world.broker, world.settings
    living = [life.process for life in world.lives if life is not None]
    awake = max((max(one.frozen_until, one.hung_until) for one in living), default=0.0)
    world.simulation.sleep(max(0.0, awake - world.simulation.now) + _REST)
    if missing(world):
        return []
    probes = [
        Item(f"probe-{n}", "", "", "", broker.now_ms(), 0, 0, fingerprint=one)
        for n, one in enumerate(sorted({one for one, _ in world.source.fingerprints}))
    ]
    context = WorkerContext(settings, Observer(), world.runtime, Decider, no_deadline)
    count = len(broker.topics[settings.topics.input].logs)
    names = [str(one) for one in range(count)] if world.plan.scope == "partition" else ["global"]
    fresh = []
    for index, name in enumerate(names):
        store = StateStore(context, name, index)
        try:
            store.complete(lambda done, total: None)
            fresh.append(_verdicts_of(store.dedup, probes))
        except ChangelogError as error:
            return [f"index: none can be restored from the changelog: {error}"]
        finally:
            store.close()
    return [
        f"index: {life.process.name} (tasks {sorted(life.opened)}) has an index of {len(index)} originals that differs "
        "from the changelog"
        for life in world.lives
        if life is not None and life.process.dead_since is None
        for index in life.indexes
        if not index.is_closed and _verdicts_of(index, probes) not in fresh
    ]


def _verdicts_of(dedup: Decider, probes: list[Item]) -> list[object]:
    found = dedup.judge(probes)
    return [(verdict.kind, verdict.original and verdict.original.id, verdict.story) for verdict in found.verdicts]
