"""`pairs --keep` names one item of each cluster, the representative."""

import json
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.errors import UsageError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.batch.clusters import parse_keep
from stream_dedup.tools.batch.pairs import find_pairs
from tests.tools.batch.conftest import invoke
from tests.tools.batch.feed import line, prose, rows, story, write

# One article from three sites and a reprint, in this order; and an article of its own.
ARTICLE = [
    line("wire", prose(-2, 8), prose(1), 5, source="wire.example"),
    line("alone", prose(-3, 8), prose(2), 9, source="paper.example"),
    line("city", prose(-2, 8), prose(1), 2, source="https://www.city.example/news"),
    line("full", prose(-2, 8), f"{prose(1)} {prose(77, 15)}", 7, source="paper.example"),
    line("again", prose(-2, 8), prose(1), 3, source="city.example"),
]


def kept(directory: Path, lines: list[bytes], keep: str, **tables: Any) -> list[str]:
    """The ids of the rows that stay, which is also what each row names as its representative."""
    path = write(directory / "in", lines)
    clusters = directory / "c.jsonl"
    find_pairs([path], directory / "p.jsonl", clusters, settings=load_settings(**tables), keep=keep)
    found = rows(clusters)
    of_cluster = {row["story"]: row["id"] for row in found if row["keep"]}
    assert all(row["representative"] == of_cluster[row["story"]] for row in found)
    assert sum(row["keep"] for row in found) == len(of_cluster)
    return [row["id"] for row in found if row["keep"]]


@pytest.mark.parametrize(
    ("keep", "stays"),
    [
        ("first", "wire"), ("longest", "full"),
        ("earliest", "city"),
        ("source:paper.example,city.example", "full"), ("source:City.example", "city"),
        ("source:other.example,wire.example", "wire"), ("source:other.example", "city"),  # none has it: the earliest
    ],
)  # fmt: skip
def test_the_item_that_stays_is(tmp_path: Path, keep: str, stays: str) -> None:
    assert sorted(kept(tmp_path, ARTICLE, keep)) == sorted([stays, "alone"])


def test_of_equally_long_ones_the_earliest_stays_and_of_equally_early_ones_the_longest(tmp_path: Path) -> None:
    longer = line("c", prose(-2, 8), f"{prose(1)} {prose(77, 15)}", 2)
    assert kept(tmp_path, [story(1, 3, "a"), story(1, 2, "b")], "longest") == ["b"]
    assert kept(tmp_path, [story(1, 2, "b"), longer], "earliest") == ["c"]


def test_an_item_without_a_date_counts_as_of_the_latest_before_it(tmp_path: Path) -> None:
    assert kept(tmp_path, [story(1, 3, "a"), story(1, None, "undated"), story(1, 4, "c")], "earliest") == ["a"]
    assert kept(tmp_path, [story(2, 1), story(1, None, "undated"), story(1, 4, "c")], "earliest") == ["s2", "undated"]


# -- the command -----------------------------------------------------------------------------------------------------


def test_a_source_that_no_item_has_is_named(tmp_path: Path) -> None:
    path, keep = write(tmp_path / "in", ARTICLE), "source:wire.example,wier.example"
    clusters = ["--clusters", tmp_path / "c.jsonl"]
    result = invoke("pairs", path, "--output", tmp_path / "p.jsonl", *clusters, "--keep", keep, "--json")
    assert json.loads(result.stdout)["absent_sources"] == ["wier.example"]
    assert "warning: no item has the source 'wier.example' of --keep" in result.stderr


@pytest.mark.parametrize("keep", ["", "best", "source", "source:", "source: ,", "longest:x", "Earliest"])
def test_another_choice_is_refused_with_those_that_exist(keep: str) -> None:
    with pytest.raises(UsageError, match=r"is none of 'earliest', 'first', 'longest' and 'source:NAME,NAME,\.\.\.'"):
        parse_keep(keep, Scheme(Settings().fingerprint))


def test_what_the_signatures_do_not_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'longest' compares texts"):
        kept(tmp_path, ARTICLE, "longest", fingerprint={"family": "given"}, item={"fields": {"fingerprint": "hash"}})
