"""Evaluate the decision on a corpus: compute all figures of `stream-dedup evaluate`.

In: the lines of a file, settings, and labelled pairs, if there are any. Out: `Evaluation`: the verdicts by
stage; agreement with the labels, on both of their questions; agreement with exact sets; the S-curve, predicted and
measured; the effect of the threshold. The verdicts come from the code of the stream.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from stream_dedup.batch.judge import item_of, judge_batches
from stream_dedup.batch.lines import Line
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import InputError
from stream_dedup.evaluate.advice import Advice, advise_by_verdicts
from stream_dedup.evaluate.curve import Point, measured_curve
from stream_dedup.evaluate.fidelity import Fidelity, fidelity
from stream_dedup.evaluate.labels import Agreement, Label, agreement, by_first_delivery, remarks
from stream_dedup.evaluate.novelty import NoveltyReport, novelty_report
from stream_dedup.evaluate.peers import PEERS_JACCARD, held_as_exact, held_by_jaccard
from stream_dedup.evaluate.sets import body_sets, shingle_sets
from stream_dedup.evaluate.sweep import SweepPoint, sweep
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings

HISTOGRAM_BINS = 20

Progress = Callable[[str, int, int], None]
"""Called with the name of the current step, the work done, and the total work."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All figures of an evaluation. `kinds` and `stages` count items; the keys of `stages` are "kind: stage".

    held, passed: histograms (HISTOGRAM_BINS) of the body Jaccard to the best candidate, for items held back and items
    let through; items without a candidate or a body are in neither. labels: key "all", and "sure" if some labels are
    unsure; empty without labels. remarks: warnings about the labels. novelty, advice: None unless labels have `new`.
    sweep: empty unless requested.
    """

    lines: int
    kinds: dict[str, int]
    stages: dict[str, int]
    held: list[int]
    passed: list[int]
    labels: dict[str, Agreement]
    remarks: list[str]
    novelty: NoveltyReport | None
    advice: Advice | None
    oracle: Fidelity
    curve: list[Point]
    sweep: list[SweepPoint]

    def errors(self) -> dict[str, list[Label]]:
        """Return the labelled pairs with a wrong decision, by kind of error, the largest weight first."""
        out: dict[str, list[Label]] = {}
        if agreed := self.labels.get("all"):
            out |= {"not found": agreed.not_found, "another article": agreed.another_article}
        if self.novelty:
            out |= {"missed": self.novelty.missed, "repeated": self.novelty.repeated}
        return {what: sorted(pairs, key=lambda label: -label.weight) for what, pairs in out.items() if pairs}

    def as_json(self) -> dict[str, Any]:
        """Return plain values; an undefined rate is null."""
        out: dict[str, Any] = _plain(self)
        out["items"] = out.pop("kinds")
        out["oracle"]["agreement"] = _plain(self.oracle.agreement)
        out.update(out.pop("labels"))
        return out


def evaluate(
    lines: Sequence[Line],
    settings: Settings,
    labels: Sequence[Label] = (),
    *,
    threshold: float = 0.8,
    with_sweep: bool = False,
    progress: Progress = lambda what, done, total: None,
) -> Evaluation:
    """Evaluate one corpus. `threshold`: the Jaccard threshold of the comparison with the oracle.

    A label speaks of the first delivery of an id; those of two deliveries of one id are left out, with a remark. Raises
    InputError if labels name items that the corpus lacks, or if no item of the corpus can be judged.
    """
    total = len(lines)
    verdicts: list[Verdict] = []
    with closing(Deduplicator(settings)) as dedup:
        for _, batch in judge_batches(dedup, lines):
            verdicts += batch.verdicts
            progress("decide", len(verdicts), total)
    if all(verdict.kind is Kind.BAD for verdict in verdicts):
        raise InputError(_nothing_to_measure(verdicts))
    by_id = by_first_delivery(verdicts)
    warnings = remarks(labels, by_id)
    labels = [label for label in labels if label.earlier != label.later]
    agreements = {"all": agreement(labels, by_id)} if labels else {}
    sure = [label for label in labels if not label.unsure]
    if sure and len(sure) < len(labels):
        agreements["sure"] = agreement(sure, by_id)
    held, passed = _histograms(verdicts)

    decode = Decoder(settings.item)
    items = [item for line in lines if isinstance(item := item_of(decode, line), Item)]
    make = Fingerprinter(Scheme(settings.fingerprint))
    progress("exact sets", 0, total)
    sets = shingle_sets(body_sets(items, make))
    progress("exact sets", total, total)
    novelty = advice = None
    if any(label.new for label in labels):
        others = {
            f"body Jaccard ≥ {PEERS_JACCARD:g}": held_by_jaccard(items, sets),
            "exact copies": held_as_exact(items, make),
        }
        sites = {item.id: item.source for item in reversed(items)}
        novelty = novelty_report(labels, by_id, others, sites, settings.decision.threshold)
        advice = advise_by_verdicts(labels, by_id, sites, settings.decision.threshold)
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
        points = sweep(lines, settings, labels, partial(progress, "sweep"))
    return Evaluation(
        total,
        dict(Counter(str(verdict.kind) for verdict in verdicts)),
        dict(Counter(f"{verdict.kind}: {verdict.stage}" for verdict in verdicts).most_common()),
        held,
        passed,
        agreements,
        warnings,
        novelty,
        advice,
        oracle,
        curve,
        points,
    )


def _nothing_to_measure(verdicts: Sequence[Verdict]) -> str:
    """Explain why no item of the corpus can be judged."""
    if not verdicts:
        return "the corpus is empty: there is nothing to measure"
    why = f" The first: {verdicts[0].reason}" if verdicts[0].reason else ""
    return (
        f"all {len(verdicts):,} items of the corpus are bad: there is nothing to measure; `stream-dedup check FILE` "
        f"shows how its records are read.{why}"
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
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value
