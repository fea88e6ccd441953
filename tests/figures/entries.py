"""Compare the entry points of the decision: the stream however it is cut, `pairs`, and `explain`.

In: lines, and what the stream said of them. Out: how many items another entry point judges otherwise. All must be 0.
"""

import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from stream_dedup.batch.judge import judge_lines
from stream_dedup.batch.pairs import find_pairs
from stream_dedup.dedup.rule import NEARLY_ONE_TEXT
from stream_dedup.dedup.verdict import Stage, Verdict
from stream_dedup.evaluate.explain import explain
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings

SIZES = (500, 1, 40, 5000)
_ARTICLE = (Stage.EXACT, Stage.HEADLINE, Stage.LEAD, Stage.BODY)
_VIEWS = ("body", "containment", "lead", "headline", "distance")


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
    """Whether the verdict says "the same article" because of a view or the same words."""
    return verdict.stage in _ARTICLE


def compared_id(verdict: Verdict) -> str:
    """The id of the item that the evidence compares with."""
    assert verdict.evidence is not None
    assert verdict.original is not None
    return verdict.evidence.compared or verdict.original.id


def otherwise_in_pairs(path: Path, verdicts: Iterable[Verdict], settings: Settings) -> int:
    """Of these verdicts, those whose pair `stream-dedup pairs` has not, or with another stage or similarity.

    A headline that one site uses for other texts too guards pairs of this site. `pairs` remembers held-back items as
    well, so it may know more texts under a headline than the stream; what this guard may veto does not count.
    """
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "pairs.jsonl"
        find_pairs([path], output, None, settings=settings)
        rows = [json.loads(line) for line in output.read_bytes().splitlines()]
    found = {(row["a"], row["b"], *_figures(row["stage"], row)) for row in rows}
    said = [(one, one.as_json()) for one in verdicts if not _may_be_section(one)]
    return sum(
        (compared_id(one), one.id, *_figures(one.stage, row | row["evidence"])) not in found for one, row in said
    )


def _may_be_section(verdict: Verdict) -> bool:
    e = verdict.evidence
    assert e is not None
    return bool(e.same_source) and e.headline is not None and e.body is not None and e.body < NEARLY_ONE_TEXT


def _figures(stage: str, row: dict[str, Any]) -> tuple[object, ...]:
    return (str(stage), *(row[view] for view in _VIEWS))


def otherwise_explained(items: Iterable[Item], verdicts: Iterable[Verdict], settings: Settings) -> int:
    """Of these verdicts, those of which `explain`, given the item that the evidence names, has other similarities."""
    by_id = {item.id: item for item in items}
    differing = 0
    for verdict in verdicts:
        explained = explain(by_id[compared_id(verdict)], by_id[verdict.id], settings).verdict
        assert verdict.evidence is not None
        differing += explained.evidence is None or any(
            getattr(verdict.evidence, view) != getattr(explained.evidence, view) for view in _VIEWS
        )
    return differing
