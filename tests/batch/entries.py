"""Compare the entry points of the decision: the stream however it is cut, `pairs`, and `explain`.

In: lines, and what the stream said of them. Out: how many items another entry point judges otherwise. All must be 0.
"""

import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from stream_dedup.batch.pairs import find_pairs
from stream_dedup.dedup.verdict import Evidence, Kind, Stage, Verdict
from stream_dedup.evaluate.explain import explain
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings
from tests.batch.feed import judge_lines

SIZES = (500, 1, 40, 5000)
_COMPARED = (Stage.EXACT, Stage.HEADLINE, Stage.BODY, Stage.PROSE)
_SIMILARITIES = ("body", "containment", "headline", "distance")


def by_cut(
    lines: Sequence[bytes], settings: Settings, sizes: Sequence[int] = SIZES
) -> tuple[list[Verdict], dict[str, int]]:
    """Judge the lines in batches of each size. Return the verdicts of the first, and by size how many differ from it.

    They differ in kind, stage, original or any number of the evidence.
    """
    verdicts = _judged(lines, settings, sizes[0])
    rows = [verdict.as_json() for verdict in verdicts]
    return verdicts, {
        str(size): sum(
            row != verdict.as_json() for row, verdict in zip(rows, _judged(lines, settings, size), strict=True)
        )
        for size in sizes[1:]
    }


def _judged(lines: Iterable[bytes], settings: Settings, size: int) -> list[Verdict]:
    worker = settings.worker.model_copy(update={"batch_items": size})
    return list(judge_lines(lines, settings.model_copy(update={"worker": worker})))


def names_article(verdict: Verdict) -> bool:
    """Whether a comparison settled the verdict: held back, or an update."""
    return verdict.kind in (Kind.DUPLICATE, Kind.UPDATE) and verdict.stage in _COMPARED


def _evidence(verdict: Verdict) -> tuple[str, Evidence]:
    """The id of the item that a verdict names, and its similarities to it."""
    assert verdict.original is not None
    assert verdict.evidence is not None
    return verdict.original.id, verdict.evidence


def otherwise_explained(
    items: Iterable[Item], verdicts: Iterable[Verdict], settings: Settings
) -> tuple[int, list[Verdict]]:
    """Of these verdicts, count those of which `explain` has other similarities. Return also those that are the same
    article: `pairs` lists these, and not what has nothing new and yet is another article.
    """
    by_id = {item.id: item for item in items}
    differing, same = 0, []
    for verdict in verdicts:
        original, evidence = _evidence(verdict)
        explained = explain(by_id[original], by_id[verdict.id], settings)
        other, kinship = explained.verdict.evidence, explained.kinship
        differing += other is None or any(getattr(evidence, name) != getattr(other, name) for name in _SIMILARITIES)
        if explained.same_text or kinship is None or kinship.probability >= kinship.threshold:
            same.append(verdict)
    return differing, same


def otherwise_in_pairs(path: Path, verdicts: Iterable[Verdict], settings: Settings) -> int:
    """Of these verdicts, which name the same article, count those whose pair `stream-dedup pairs` has not, or with
    another stage or similarity.
    """
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "pairs.jsonl"
        find_pairs([path], output, None, settings=settings)
        rows = [json.loads(line) for line in output.read_bytes().splitlines()]
    found = {(row["a"], row["b"], *_figures(row["stage"], row)) for row in rows}
    said = [(_evidence(one)[0], one.as_json()) for one in verdicts]
    return sum(
        (original, row["id"], *_figures(row["stage"], row | row["evidence"])) not in found for original, row in said
    )


def _figures(stage: str, row: dict[str, Any]) -> tuple[object, ...]:
    return (str(stage), *(row[name] for name in _SIMILARITIES))
