"""Evaluate the decision on a corpus: compute all figures of `stream-dedup evaluate`.

In: the lines of a file, settings, and labelled pairs, if there are any. Out: `Evaluation`: the verdicts by
stage; agreement with the labels, on both of their questions; agreement with exact sets; the S-curve, predicted and
measured. The verdicts come from the code of the stream. `report.py` shows them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from stream_dedup.batch.filter import judge_batches
from stream_dedup.batch.lines import Line, item_of
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.verdict import Kind, Verdict
from stream_dedup.errors import InputError
from stream_dedup.evaluate.exact import Fidelity, body_sets, fidelity, held_by_jaccard, shingle_sets
from stream_dedup.evaluate.labels import Agreement, Label, agreement, by_first_delivery, remarks
from stream_dedup.evaluate.novelty import Advice, NoveltyReport, novelty_report
from stream_dedup.evaluate.scurve import Point, measured_curve
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings

Progress = Callable[[str, int, int], None]
"""Called with the name of the current step, the work done, and the total work."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All figures of an evaluation. `items` and `stages` count items; the keys of `stages` are "kind: stage".

    agreement: key "all", and "sure" if some labels are unsure; empty without labels. remarks: warnings about the
    labels. novelty, advice: None unless labels have `new`.
    """

    lines: int
    items: dict[str, int]
    stages: dict[str, int]
    agreement: dict[str, Agreement]
    remarks: list[str]
    novelty: NoveltyReport | None
    advice: Advice | None
    exact: Fidelity
    curve: list[Point]

    def errors(self) -> dict[str, list[Label]]:
        """Return the labelled pairs with a wrong decision, by kind of error, the largest weight first."""
        out: dict[str, list[Label]] = {}
        if agreed := self.agreement.get("all"):
            out |= {"not found": agreed.not_found, "another article": agreed.another_article}
        if self.novelty:
            out |= {"missed": self.novelty.missed, "repeated": self.novelty.repeated}
        return {what: sorted(pairs, key=lambda label: -label.weight) for what, pairs in out.items() if pairs}


def evaluate(
    lines: Sequence[Line],
    settings: Settings,
    labels: Sequence[Label] = (),
    *,
    threshold: float = 0.8,
    progress: Progress = lambda what, done, total: None,
) -> Evaluation:
    """Evaluate one corpus. `threshold`: the Jaccard from which exact sets hold an item back.

    A label speaks of the first delivery of an id; those of two deliveries of one id are left out, with a remark. Raises
    InputError if labels name items that the corpus lacks, or if no item of the corpus can be judged.
    """
    total = len(lines)
    verdicts: list[Verdict] = []
    with closing(Deduplicator(settings)) as dedup:
        for batch in judge_batches(dedup, lines):
            verdicts += batch.verdicts
            progress("decide", len(verdicts), total)
    if all(verdict.kind is Kind.BAD for verdict in verdicts):
        raise InputError(_nothing_to_measure(verdicts))
    by_id = by_first_delivery(verdicts)
    warnings = remarks(labels, by_id)
    labels = [label for label in labels if label.earlier != label.later]
    sure = [label for label in labels if not label.unsure]
    agreements = {"all": agreement(labels, by_id)} if labels else {}
    if 0 < len(sure) < len(labels):
        agreements["sure"] = agreement(sure, by_id)

    decode = Decoder(settings.item)
    items = [item for line in lines if isinstance(item := item_of(decode, line), Item)]
    make = Fingerprinter(Scheme(settings.fingerprint))
    progress("exact sets", 0, total)
    sets = shingle_sets(body_sets(items, make))
    others = {f"body Jaccard ≥ {threshold:g}": held_by_jaccard(items, sets, threshold)}
    sites = {item.id: item.source for item in reversed(items)}
    asked = novelty_report(labels, by_id, others, sites, settings.decision.threshold)
    novelty, advice = asked or (None, None)
    exact = fidelity(items, sets, settings, threshold, lambda done: progress("exact sets", done, len(items)))
    progress("S-curve", 0, 1)
    return Evaluation(
        total,
        dict(Counter(str(verdict.kind) for verdict in verdicts)),
        dict(Counter(f"{verdict.kind}: {verdict.stage}" for verdict in verdicts).most_common()),
        agreements,
        warnings,
        novelty,
        advice,
        exact,
        measured_curve(items, sets, make),
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
