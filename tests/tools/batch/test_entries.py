"""One function decides, whichever way items come: the stream however it is cut, `filter`, `pairs`, and `explain`."""

from pathlib import Path
from typing import Any

import pytest

from stream_dedup.dedup.verdict import Kind, Stage
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from stream_dedup.tools.batch.pairs import find_pairs
from stream_dedup.tools.evaluate.explanation import explain
from tests.tools.batch.feed import feed, judge_lines, line, prose, rows, write
from tests.tools.batch.test_pairs import one_site

WIDE = {"window": {"length": "3650d"}}
FAMILIES: dict[str, dict[str, Any]] = {
    "minhash": {},
    "exact": {"fingerprint": {"verify": "exact"}},
    "simhash": {"fingerprint": {"family": "simhash"}},
}
COMPARED = (Stage.EXACT, Stage.HEADLINE, Stage.BODY, Stage.PROSE)


def notices(count: int) -> list[bytes]:
    """Short notices that one site sends again, within the day and days later, and whole articles likewise."""
    lines = []
    for i in range(count):
        words = 12 if i % 2 else 90
        lines.append(line(f"n{i}", prose(-(i % 7) - 1, 8), prose(i % 7, words), i * 5, source="wire.example"))
    return lines


CORPORA = {"feed": feed(250), "one site": one_site(250, 3), "notices": notices(60)}


def similarities(row: dict[str, Any]) -> tuple[float | None, ...]:
    """Those of a pair, or of a verdict to the item that it names."""
    found = row | row.get("evidence", {})
    return tuple(found[name] for name in ("body", "containment", "headline", "distance"))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.slow
def test_every_entry_point_says_the_same(corpus: str, family: str, tmp_path: Path) -> None:
    lines, verdicts = CORPORA[corpus], dict[int, list[dict[str, Any]]]()
    for size in (60, 1, 7):
        settings = load_settings(**WIDE, **FAMILIES[family], worker={"batch_items": size})
        verdicts[size] = [verdict.as_json() for verdict in judge_lines(lines, settings)]
    assert verdicts[60] == verdicts[1] == verdicts[7]
    decoded = [item for one in lines if isinstance(item := Decoder(settings.item)(one, None, None), Item)]
    names = [item.id for item in decoded]
    items = {item.id: item for item in decoded if names.count(item.id) == 1}  # an id is no evidence to `pairs`
    output = tmp_path / "pairs.jsonl"
    find_pairs([write(tmp_path / "in.jsonl", lines)], output, None, settings=settings)
    pairs = {(row["a"], row["b"]): (row["stage"], *similarities(row)) for row in rows(output)}
    compared = missing = 0
    for row in verdicts[60]:
        # What a comparison settled: held back, or an update.
        is_named = row["verdict"] in (Kind.DUPLICATE, Kind.UPDATE) and row["stage"] in COMPARED
        if not is_named or not {row["id"], row["original"]["id"]} <= items.keys():
            continue
        compared += 1
        explained = explain(items[row["original"]["id"]], items[row["id"]], settings)
        assert similarities(explained.verdict.as_json()) == similarities(row)
        # `pairs` lists what is the same article, and not what has nothing new and yet is another article.
        kinship = explained.kinship
        if explained.same_text or kinship is None or kinship.probability >= kinship.threshold:
            pair = row["original"]["id"], row["id"]
            missing += pair not in pairs
            assert pair not in pairs or pairs[pair] == (row["stage"], *similarities(row))
    assert compared > 10
    # `pairs` knows the boilerplate of the whole corpus, and lists no pages that have only that in common.
    assert missing <= (0.1 * compared if corpus == "one site" else 0)
