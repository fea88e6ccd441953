"""What the outcome of an input record must be, for the model of the worker and for the soak on a real Kafka.

The records that were fed, with the truth about each (`Made`), are compared with what a read_committed reader has of
them. Each violation is a sentence that begins with the short name of a guarantee of docs/operating.md.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from stream_dedup.worker.outgoing import EVIDENCE, ORIGINAL, REASON, REFUSED, STORY, VERDICT
from tests.lab.model.broker import Committed
from tests.lab.model.items import ODD, Made, source_of
from tests.lab.model.log import Record

_PREFERRED = "sources.prefer"
_WINDOW = 7 * 24 * 3600 * 1000
_SLACK = 3600 * 1000  # near the edge of the window either verdict is right


def header(record: Record, name: str) -> str:
    """The value of a header that the worker has added, behind the record's own."""
    return next((value.decode() for key, value in reversed(record.headers) if key == name and value is not None), "")


def fate(made: Made, came: Sequence[Committed], dead_letters: str, may_die: bool = False) -> list[str]:
    """Check that a record has one outcome at most, with its bytes untouched, in the right topic.

    `may_die`: even a good record may be a dead letter.
    """
    if len(came) > 1:
        return [f"twice: {made} came out {len(came)} times: {[(one.topic, one.partition, one.offset) for one in came]}"]
    if not came:
        return []  # whether it may still come, the caller knows
    one = came[0]
    fed, out = made.record, one.record
    wrong = []
    reason = header(out, REASON)
    if one.topic == dead_letters:
        if made.kind not in ("bad", "odd") and not may_die and (fed.key is not None or fed.value is not None):
            wrong.append(f"innocent: {made} is a dead letter without a cause: {reason}")
    elif made.kind == "bad":
        wrong.append(f"bad: {made} cannot be read, but went to {one.topic}")
    if out.value != fed.value and reason != REFUSED:
        wrong.append(f"bytes: the value of {made} became {out.value!r}")
    if out.key != fed.key or (out.timestamp != fed.timestamp and reason != REFUSED):
        wrong.append(f"bytes: {made} came out with key {out.key!r} and time {out.timestamp}")
    own = [pair for pair in fed.headers if pair[0] != ODD]
    if reason != REFUSED and [pair for pair in out.headers if pair in own] != own:
        wrong.append(f"bytes: the headers of {made} became {out.headers}")
    return wrong


def verdicts(
    made: Mapping[int, Made],
    outcomes: Mapping[int, Sequence[Committed]],
    output: str,
    original_of: Callable[[Committed], Made | None],
    rules: Mapping[str, str] = MappingProxyType({}),
    *,
    is_split: bool = False,
    forgettable: Collection[int] = frozenset(),
) -> list[str]:
    """Check that each verdict follows from the records committed before it, or with it, in the same task.

    `output`: the topic of records that are let through. `original_of` finds the record that a verdict names.
    `rules`: those for sources, by source. `is_split`: each partition is a task. `forgettable`: the numbers of originals
    that may have been forgotten.
    """
    wrong: list[str] = []
    first: dict[tuple[int, int], tuple[Made, Committed]] = {}
    # Task and id -> moments and numbers of the tombstones and new versions, which replace an original.
    replaced: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    ordered = sorted(((came[0].moment, number) for number, came in outcomes.items() if came and number in made))
    for moment, number in ordered:
        one = made[number]
        if one.kind == "tombstone" or header(outcomes[number][0].record, VERDICT) == "update":
            replaced[one.place[1] if is_split else 0, one.id].append((moment, number))
    for moment, number in ordered:
        one, came = made[number], outcomes[number][0]
        task = one.place[1] if is_split else 0
        verdict, rule = header(came.record, VERDICT), rules.get(source_of(one.id), "") if rules else ""
        is_preferred = rule == "prefer" and _PREFERRED in header(came.record, EVIDENCE)
        if verdict == "duplicate" and (came.topic == output) != (rule == "pass"):
            wrong.append(f"rule: {one} is a duplicate of {rule or 'no'} rule, and went to {came.topic}")
        if verdict in ("duplicate", "update"):
            original, named = original_of(came), header(came.record, ORIGINAL)
            found = outcomes.get(original.number) if original is not None else None
            what = "held back for" if verdict == "duplicate" else "taken for a new version of"
            if original is None or not found:
                wrong.append(f"original: {one} was {what} {named}, which never came out")
            elif found[0].topic != output or found[0].moment > moment or _is_later(original, one):
                wrong.append(f"original: {one} was {what} {original}, which was not let through before it")
            elif (is_split and original.place[1] != one.place[1]) or not _is_same(original, one, verdict, is_preferred):
                wrong.append(f"verdict: {one} was {what} {original}, which is another article")
            elif header(came.record, STORY) != header(found[0].record, STORY):
                wrong.append(f"story: {one} has another story than its original {original}")
        elif header(came.record, STORY) != (one.id if verdict == "unique" else ""):
            wrong.append(f"story: {one} was {verdict}, and has the story {header(came.record, STORY)!r}")
        if (verdict == "unique" or is_preferred) and one.fingerprint:
            key = task, one.fingerprint
            if key in first and (verdict == "unique" or rules.get(source_of(first[key][0].id)) == "prefer"):
                before, was = first[key]
                # Within one transaction the order is not known here.
                either = {before.id, one.id} if was.moment == moment else {before.id}
                gone = before.number in forgettable or any(
                    was.moment <= at <= moment and other not in (before.number, one.number)
                    for name in either
                    for at, other in replaced[task, name]
                )
                # A new version goes out although its text is known, so it may have come after this one.
                after = (
                    was.moment == moment
                    and before.place[:2] != one.place[:2]
                    and header(was.record, VERDICT) == "update"
                )
                far = abs(before.record.timestamp - one.record.timestamp) > _WINDOW - _SLACK
                if not gone and not after and not far and not before.is_ahead and not one.is_ahead:
                    wrong.append(f"verdict: {one} was let through although {before} was before")
        if verdict in ("unique", "update") and one.fingerprint:
            first[task, one.fingerprint] = one, came
    return wrong


def _is_later(original: Made, one: Made) -> bool:
    """Whether the original stands behind the record in its own partition; across partitions there is no order."""
    return original.place[:2] == one.place[:2] and original.place[2] >= one.place[2]


def _is_same(original: Made, one: Made, verdict: str, is_preferred: bool) -> bool:
    if not one.fingerprint:
        return True  # a real item, about which nothing is known
    return (
        original.id == one.id if verdict == "update" and not is_preferred else original.fingerprint == one.fingerprint
    )
