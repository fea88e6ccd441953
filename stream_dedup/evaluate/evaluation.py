"""A whole corpus -> everything that can be measured on it; the figures of `stream-dedup evaluate` come from here.

In: the lines of a JSON Lines file, settings, and pairs that people judged, if there are any. Out: `Evaluation`:
what the decision did and at which stage; agreement with the readers, on both of their questions; agreement with exact
sets; the S-curve, predicted and measured; how the figures move with each threshold. Nothing here decides: the stream's
own code does.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_dedup.batch.judge import judge_lines
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import InputError
from stream_dedup.evaluate.curve import Point, measured_curve
from stream_dedup.evaluate.fidelity import Fidelity, fidelity
from stream_dedup.evaluate.labels import Agreement, Label, agreement, remarks
from stream_dedup.evaluate.novelty import NoveltyReport, novelty_report
from stream_dedup.evaluate.peers import PEERS_JACCARD, held_as_exact, held_by_jaccard
from stream_dedup.evaluate.sets import body_sets, shingle_sets
from stream_dedup.evaluate.sweep import SweepPoint, sweep, sweep_steps
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings

HISTOGRAM_BINS = 20
# A bar that moves every few hundred items moves several times a second.
_EVERY = 256

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All figures. `kinds` and `stages` count items; `stages` by "kind: stage".

    held, passed: HISTOGRAM_BINS counts of items by the body Jaccard to their best candidate, those held back and
    those let through; an item without a candidate, or without a body, is in neither. labels: "all", and "sure"
    where some pairs are unsure; empty without labels. remarks: what seems wrong about the labels. novelty: None unless
    labels say what is new. sweep: empty unless it was asked for.
    """

    lines: int
    kinds: dict[str, int]
    stages: dict[str, int]
    held: list[int]
    passed: list[int]
    labels: dict[str, Agreement]
    remarks: list[str]
    novelty: NoveltyReport | None
    oracle: Fidelity
    curve: list[Point]
    sweep: list[SweepPoint]

    def errors(self) -> dict[str, list[Label]]:
        """The labelled pairs that the decision gets wrong, by what is wrong, the heaviest first."""
        out: dict[str, list[Label]] = {}
        if agreed := self.labels.get("all"):
            out |= {"not found": agreed.not_found, "another article": agreed.another_article}
        if self.novelty:
            out |= {"missed": self.novelty.missed, "repeated": self.novelty.repeated}
        return {what: sorted(pairs, key=lambda label: -label.weight) for what, pairs in out.items() if pairs}

    def as_json(self) -> dict[str, Any]:
        """Plain values; a rate that is undefined is null."""
        out: dict[str, Any] = _plain(self)
        out["items"] = out.pop("kinds")
        out["oracle"]["agreement"] = _plain(self.oracle.agreement)
        out.update(out.pop("labels"))
        return out


def evaluate(
    lines: Sequence[bytes],
    settings: Settings,
    labels: Sequence[Label] = (),
    *,
    threshold: float = 0.8,
    with_sweep: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Evaluation:
    """Measures one corpus. `threshold`: the Jaccard at which the oracle is compared. See `Evaluation`.

    Raises InputError if labels name items that the corpus does not have, and if it has nothing that can be judged.
    """
    total = len(lines)
    verdicts: list[Verdict] = []
    for verdict in judge_lines(lines, settings):
        verdicts.append(verdict)
        if len(verdicts) % _EVERY == 0:
            progress("decide", len(verdicts), total)
    progress("decide", total, total)
    if all(verdict.kind is Kind.BAD for verdict in verdicts):
        raise InputError(_nothing(verdicts))
    by_id = {verdict.id: verdict for verdict in verdicts}
    agreements = {"all": agreement(labels, by_id)} if labels else {}
    sure = [label for label in labels if not label.unsure]
    if sure and len(sure) < len(labels):
        agreements["sure"] = agreement(sure, by_id)
    held, passed = _histograms(verdicts)

    decode = Decoder(settings.item)
    items = [item for line in lines if isinstance(item := decode(line, None, None), Item)]
    make = Fingerprinter(Scheme(settings.fingerprint))
    progress("exact sets", 0, total)
    sets = shingle_sets(body_sets(items, make))
    progress("exact sets", total, total)
    novelty = None
    if any(label.new for label in labels):
        others = {
            f"body Jaccard ≥ {PEERS_JACCARD:g}": held_by_jaccard(items, sets),
            "exact copies": held_as_exact(items, make),
        }
        sites = {item.id: item.source for item in items}
        novelty = novelty_report(labels, by_id, others, sites, settings.decision.novelty)
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress("oracle", done, len(items))

    oracle = fidelity(items, sets, settings, threshold, advance)
    progress("S-curve", 0, 1)
    curve = measured_curve(items, sets, make)
    progress("S-curve", 1, 1)
    points: list[SweepPoint] = []
    if with_sweep:
        steps = sweep_steps(settings)
        for n, step in enumerate(steps):
            progress("sweep", n, len(steps))
            points.append(sweep(lines, settings, labels, *step))
        progress("sweep", len(steps), len(steps))
    return Evaluation(
        total,
        dict(Counter(str(verdict.kind) for verdict in verdicts)),
        dict(Counter(f"{verdict.kind}: {verdict.stage}" for verdict in verdicts).most_common()),
        held,
        passed,
        agreements,
        remarks(labels, by_id),
        novelty,
        oracle,
        curve,
        points,
    )


def _nothing(verdicts: Sequence[Verdict]) -> str:
    """Why a corpus without an item that could be judged has none."""
    if not verdicts:
        return "the corpus is empty: there is nothing to measure"
    why = f" The first: {verdicts[0].reason}" if verdicts[0].reason else ""
    return (
        f"all {len(verdicts):,} items of the corpus are bad: there is nothing to measure; `stream-dedup check FILE` "
        f"shows what is understood of it.{why}"
    )


def _histograms(verdicts: Sequence[Verdict]) -> tuple[list[int], list[int]]:
    known = [(verdict.similarity, verdict.forward) for verdict in verdicts if verdict.similarity is not None]
    counts = []
    for forward in (False, True):
        values = [similarity for similarity, passed in known if passed == forward]
        counts.append(np.histogram(values, HISTOGRAM_BINS, (0.0, 1.0))[0].tolist())
    return counts[0], counts[1]


def _plain(value: Any) -> Any:
    if isinstance(value, Label):
        return {
            "earlier": value.earlier, "later": value.later, "label": value.label, "new": value.new,
            "weight": value.weight,
        }  # fmt: skip
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value
