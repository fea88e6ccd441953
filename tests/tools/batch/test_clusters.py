"""A cluster is one article: its members are like the item that is kept, and nothing new is dropped."""

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_dedup.errors import UsageError
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.articles import FOUND
from stream_dedup.tools.batch.clusters import MERITS, clusters_of
from stream_dedup.tools.batch.pair_search import codes_of
from stream_dedup.tools.batch.pairs import PairsResult, find_pairs
from stream_dedup.tools.batch.shown import LARGEST, WITH_NEW, ShownCluster
from tests.tools.batch.feed import feed, line, prose, rows, write
from tests.tools.batch.test_pairs import one_site

FORM = " ".join(f"Sentence {n} of the form of this site asks all readers for a comment below." for n in "abcdefgh")
"""What a site adds to each page."""


def sentences(seed: int, count: int = 8) -> str:
    """An article in sentences of prose."""
    return " ".join(prose(1000 * seed + n, 12).capitalize() + "." for n in range(count))


def clustered(directory: Path, lines: list[bytes], **options: Any) -> tuple[PairsResult, list[dict[str, Any]]]:
    outputs = directory / "pairs.jsonl", directory / "clusters.jsonl"
    result = find_pairs([write(directory / "in", lines)], *outputs, settings=Settings(), **options)
    return result, rows(outputs[1])


def groups(found: list[dict[str, Any]]) -> set[frozenset[str]]:
    """The ids of each cluster."""
    return {frozenset(row["id"] for row in found if row["story"] == story) for story in {row["story"] for row in found}}


@pytest.mark.parametrize("keep", ["earliest", "longest"])
def test_clusters_and_what_is_kept_do_not_depend_on_the_order_of_the_items(tmp_path: Path, keep: str) -> None:
    lines = [one for one in dict.fromkeys(feed(150) + one_site(150, 3)) if b'"published"' in one]
    _, found = clustered(tmp_path, lines, keep=keep)
    random.Random(1).shuffle(lines)
    _, again = clustered(tmp_path, lines, keep=keep)
    assert groups(again) == groups(found)
    assert any(len(group) > 2 for group in groups(found))

    def kept(rows: list[dict[str, Any]]) -> set[tuple[str, str, bool]]:
        return {(row["id"], row["representative"], row["keep"]) for row in rows}

    assert kept(again) == kept(found)


def test_a_form_of_the_site_joins_no_articles(tmp_path: Path) -> None:
    pages = [line(f"p{n}", prose(-n - 1, 8), f"{sentences(n, 2)} {FORM}", n, source="a.example") for n in range(30)]
    copy = line("copy", prose(-1, 8), f"{sentences(0, 2)} Read more.", 40, source="b.example")
    _, found = clustered(tmp_path, [*pages, copy])
    assert {group for group in groups(found) if len(group) > 1} == {frozenset(("p0", "copy"))}


def test_versions_of_a_story_are_one_cluster_although_its_ends_are_less_alike(tmp_path: Path) -> None:
    """A story that grows and sheds its old end: the first version is a pair of the second, not of the last."""
    parts = [sentences(n, 4) for n in range(7)]
    lines = [line(f"v{n}", prose(-1, 8), " ".join(parts[n : n + 5]), n) for n in range(3)]
    result, found = clustered(tmp_path, lines)
    assert groups(found) == {frozenset(("v0", "v1", "v2"))}
    assert result.clusters == 1


def test_the_prices_of_two_days_are_two_articles(tmp_path: Path) -> None:
    """Each list has a few prices that the other lacks, and all its words."""
    goods = prose(3, 20).split()

    def prices(day: str, rise: int) -> str:
        costs = (20 + 3 * n + rise * (n % 5 == 0) for n in range(len(goods)))
        listed = " ".join(f"A kilogram of {good} costs {cost}." for good, cost in zip(goods, costs, strict=True))
        return f"Wholesale prices at the market of the city on {day}, as its committee says. {listed}"

    lines = [
        line("monday", "Prices of vegetables today", prices("Monday", 0), 0, source="a.example"),
        line("copy", "Today's prices of vegetables", prices("Monday", 0), 1, source="b.example"),
        line("tuesday", "Prices of vegetables today", prices("Tuesday", 2), 24, source="b.example"),
    ]
    _, found = clustered(tmp_path, lines)
    assert groups(found) == {frozenset(("monday", "copy")), frozenset(("tuesday",))}


def found_of(*scores: float, joins: bool = True) -> NDArray[np.void]:
    """FOUND of pairs with these scores."""
    found = np.zeros(len(scores), FOUND)
    found["score"], found["later_joins"], found["earlier_joins"] = scores, joins, joins
    return found


def representatives(pairs: dict[tuple[int, int], float], size: int, met: bool = True) -> list[int]:
    """The representatives of items 0, 1, ..., the best first, given the scores of (later, earlier) pairs.

    met: whether a representative is recognised in items that were not near it.
    """
    merits = {name: np.arange(size) for name in MERITS}
    ends = np.array(sorted(pairs)).T
    chunk = codes_of(ends[0], ends[1]), found_of(*(pairs[pair] for pair in sorted(pairs)))
    found = clusters_of([chunk], merits, lambda codes: found_of(*[0.0] * len(codes), joins=met))
    return [int(row) for row in found.representatives]


def test_of_copies_that_have_the_same_news_beside_the_representative_one_stays(tmp_path: Path) -> None:
    title, text = prose(-1, 8), sentences(1)
    fuller = f"{text} {sentences(2, 3)}"
    lines = [line("first", title, text, 0), *(line(f"fuller{n}", title, fuller, 1 + n) for n in range(3))]
    lines.append(line("fullest", title, f"{fuller} {sentences(3, 3)}", 5))
    _, found = clustered(tmp_path, lines)
    assert {row["id"]: (row["representative"], row["new"], row["keep"]) for row in found} == {
        "first": ("first", False, True), "fuller0": ("first", True, True), "fuller1": ("first", False, False),
        "fuller2": ("first", False, False), "fullest": ("first", True, True),
    }  # fmt: skip
    _, dropped = clustered(tmp_path, lines, drop_new=True)
    assert [row["id"] for row in dropped if row["keep"]] == ["first"]


def test_a_copy_under_a_headline_of_other_words_stays_unless_it_may_be_dropped(tmp_path: Path) -> None:
    text = sentences(1)
    lines = [line("first", prose(-1, 8), text, 0), line("other", prose(-2, 8), f"{text} Read more.", 1)]
    result, found = clustered(tmp_path, lines)
    assert groups(found) == {frozenset(("first", "other"))}
    assert ([row["keep"] for row in found], result.doubtful) == ([True, True], [(prose(-2, 8), prose(-1, 8))])
    _, dropped = clustered(tmp_path, lines, drop_new=True)
    assert [row["keep"] for row in dropped] == [True, False]


def test_a_chain_of_pairs_is_no_cluster() -> None:
    chain = {(n, n - 1): 0.4 for n in range(1, 5)}
    assert representatives(chain, 5) == [0, 0, 2, 2, 4]


def test_sure_pairs_join_what_is_not_near_if_the_representative_is_recognised_there() -> None:
    sure = {(1, 0): 5.0, (2, 1): 4.0}
    assert representatives(sure, 3) == [0, 0, 0]
    assert representatives(sure, 3, met=False) == [0, 0, 2]


def test_one_doubtful_pair_does_not_part_a_cluster_and_one_sure_pair_does_not_make_it() -> None:
    alike = {(1, 0): 2.0, (2, 0): 2.0, (2, 1): 2.0, (3, 0): -0.5, (3, 1): 1.0, (3, 2): 1.0}
    assert representatives(alike, 4) == [0, 0, 0, 0]
    unlike = alike | {(3, 0): -2.0, (3, 1): -2.0, (3, 2): 1.5}
    assert representatives(unlike, 4) == [0, 0, 0, 3]


def test_what_has_something_new_stays_unless_it_may_be_dropped(tmp_path: Path) -> None:
    title, text = prose(-1, 8), sentences(1)
    lines = [
        line("first", title, text, 0),
        line("copy", title, text, 1),
        line("fuller", title, f"{text} {sentences(2, 3)}", 2),
    ]
    result, found = clustered(tmp_path, lines, keep="earliest")
    assert {row["id"]: (row["representative"], row["new"], row["keep"]) for row in found} == {
        "first": ("first", False, True), "copy": ("first", False, False), "fuller": ("first", True, True)
    }  # fmt: skip
    assert (result.clusters, result.clustered, result.new) == (1, 3, 1)
    _, dropped = clustered(tmp_path, lines, keep="earliest", drop_new=True)
    assert [row["id"] for row in dropped if row["keep"]] == ["first"]
    _, longest = clustered(tmp_path, lines, keep="longest")
    assert [(row["id"], row["new"]) for row in longest if row["keep"]] == [("fuller", False)]


class Seen:
    """A report that retains what it is told."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def html(self, clusters: Sequence[ShownCluster], sizes: Sequence[int], new: int) -> str:
        self.clusters, self.sizes, self.new = clusters, sizes, new
        return "the page"


def test_a_report_gets_whole_texts_those_with_something_new_first(tmp_path: Path) -> None:
    title, text = prose(-1, 8), sentences(1)
    two = [line("p1", prose(-2, 8), sentences(3), 0), line("p2", prose(-2, 8), sentences(3), 1)]
    more = [
        line("first", title, text, 2),
        line("copy", title, text, 3),
        line("fuller", title, f"{text} {sentences(2, 3)}", 4),
    ]
    seen = Seen(tmp_path / "report.html")
    clustered(tmp_path, [*two, *more, line("alone", prose(-9, 8), sentences(9), 5)], report=seen)
    assert seen.path.read_text() == "the page"
    assert [
        (one.why, one.items, one.kept.id, [(item.id, new) for item, new in one.others]) for one in seen.clusters
    ] == [
        (WITH_NEW, 3, "first", [("fuller", True), ("copy", False)]),
        (LARGEST, 2, "p1", [("p2", False)]),
    ]
    assert seen.clusters[0].kept.text == text
    assert (sorted(seen.sizes), seen.new) == ([2, 3], 1)


def test_a_report_needs_inputs_that_can_be_read_twice(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="reads the inputs twice, and - is no file"):
        find_pairs(["-"], tmp_path / "p.jsonl", None, settings=Settings(), report=Seen(tmp_path / "report.html"))


def test_dropping_needs_rows_that_say_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--drop-new says what the rows of --clusters keep"):
        find_pairs([write(tmp_path / "in", [])], tmp_path / "p.jsonl", None, settings=Settings(), drop_new=True)


def test_a_row_says_what_a_person_asks(tmp_path: Path) -> None:
    url = "https://www.elm.example/bridge"
    _, found = clustered(
        tmp_path, [line("a", "Bridge | The Elm", sentences(1), 0, url=url), line("b", "", sentences(2), None)]
    )
    read = [{name: row[name] for name in ("title", "source", "url", "published")} for row in found]
    assert read[0] | {"published": None} == {
        "title": "Bridge | The Elm", "source": "a.example", "url": url, "published": None
    }  # fmt: skip
    assert read[0]["published"].endswith("Z")
    assert (read[1]["url"], read[1]["published"]) == ("", None)


def test_the_largest_clusters_are_named_with_their_headlines(tmp_path: Path) -> None:
    copies = [line(f"{k}{n}", prose(-k, 8), sentences(k), n) for k in (1, 2) for n in range(4 - k)]
    result, _ = clustered(tmp_path, copies)
    assert [(one.items, one.headlines, one.title) for one in result.largest] == [
        (3, 1, prose(-1, 8)),
        (2, 1, prose(-2, 8)),
    ]
    assert not any(one.is_doubtful for one in result.largest)


def test_a_cluster_of_many_headlines_is_doubtful(tmp_path: Path) -> None:
    titles = [prose(-n, 8) for n in range(9)]
    copies = [line(f"c{n}", title, sentences(1), n, source=f"{n}.example") for n, title in enumerate(titles)]
    result, _ = clustered(tmp_path, copies)
    assert result.largest[0].is_doubtful
    assert all(one.items >= other.items for one, other in pairwise(result.largest))
