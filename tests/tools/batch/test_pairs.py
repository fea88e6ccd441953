"""`find_pairs` finds what brute force finds, whatever the memory and the threads."""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from stream_dedup.dedup.clocks import START
from stream_dedup.dedup.corrections import corrections
from stream_dedup.dedup.rule import SAME_ARTICLE, rule_of
from stream_dedup.errors import UsageError
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.runs import nearness_of
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.batch.articles import boilerplate_of, compare_articles, compare_pages
from stream_dedup.tools.batch.corpus import BadLine, fill_missing_times
from stream_dedup.tools.batch.pair_search import cluster_of, unite
from stream_dedup.tools.batch.pairs import PairsProgress, PairsStep, find_pairs
from stream_dedup.tools.inputs.lines import read_lines
from tests.tools.batch.conftest import Outcome, Stopped
from tests.tools.batch.feed import feed, line, prose, rows, story, write


@dataclass
class Found(Outcome):
    """The counts of a run, its pairs and clusters, and the bad lines."""

    bad: list[BadLine]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [(row["a"], row["b"]) for row in rows(self.output)]

    @property
    def story_of(self) -> dict[str, str]:
        return {row["id"]: row["story"] for row in rows(self.second)}


Find = Callable[..., Found]


@pytest.fixture
def find(tmp_path: Path) -> Find:
    """find(*inputs, to=, suffix=, memory=, threads=, progress=, **tables of settings)."""

    def find(*inputs: Path | str, to: str = "out", suffix: str = ".jsonl", **more: Any) -> Found:
        (tmp_path / to).mkdir(exist_ok=True)
        keywords = {name: more.pop(name) for name in ("memory", "bucket_limit", "threads", "progress") if name in more}
        outputs = [tmp_path / to / f"{name}{suffix}" for name in ("pairs", "clusters")]
        bad: list[BadLine] = []
        keywords |= {"settings": load_settings(**more), "bad_line": lambda _, one: bad.append(one)}
        return Found(find_pairs(list(inputs), *outputs, **keywords), *outputs, bad)

    return find


def one_site(items: int, seed: int) -> list[bytes]:
    """Pages of three sites with menus, sections, cuts and copies: what tells templates from copies."""
    chance = random.Random(seed)
    lines = []
    for i in range(items):
        number = chance.randrange(max(1, i // 3 + 1))
        text = prose(number, 80)
        if chance.random() < 0.3:
            text = text[: len(text) // 2]
        if chance.random() < 0.3:
            text += " " + prose(i + 5000, 10)
        title = chance.choice([prose(-number - 1, 8), prose(-i - 9000, 8), "Latest news from the valley of elms", ""])
        lines.append(line(f"i{i}", title, text, i / 4, source=f"{chance.choice('abc')}.example"))
    return lines


def brute_force(lines: list[bytes], settings: Settings) -> list[tuple[str, str]]:
    """Every two items that share a key and are one article, compared at once, without files, buckets and ranges."""
    decode = Decoder(settings.item)
    items = [item for one in lines if isinstance(item := decode(one, None, None), Item)]
    scheme = Scheme(settings.fingerprint)
    made = Fingerprinter(scheme)(items)
    items = [items[i] for i in np.flatnonzero(~made.is_empty)]
    prints = Fingerprinter(scheme)(items)
    fill_missing_times(prints.signatures["time"], START)
    buckets = nearness_of(scheme.dont_care_bits, scheme.table_of, 0).buckets(prints.keys.T).T
    table_of = scheme.table_of[:-1]
    keys = [{(t, key) for t, key in zip(table_of, line, strict=False) if key} for line in buckets.tolist()]
    candidates = np.array([(a, b) for b in range(len(items)) for a in range(b) if keys[a] & keys[b]], np.int64)
    rule = rule_of(settings.decision, has_words=scheme.has_bodies)
    near = compare_pages(prints, candidates[:, 1], candidates[:, 0], rule)
    earlier, later = candidates[near.is_near].T
    boilerplate = None
    if not rule.is_plain and prints.texts is not None:
        roots = cluster_of(unite(np.arange(len(items)), *candidates[near.is_copy].T))
        originals = [
            min(np.flatnonzero(roots == root), key=lambda i: prints.signatures["digest"][i]) for root in set(roots)
        ]
        firsts, lasts = prints.texts.firsts[:, 0], prints.texts.lasts[:, 0]
        passages = Counter(
            hash for i in originals for hash in set(prints.texts.passages["hash"][firsts[i] : lasts[i]].tolist())
        )
        often = sorted(hash for hash, count in passages.items() if count >= 3)
        boilerplate = boilerplate_of(np.array(often, np.uint32))
    marks = corrections(items)
    is_pair = compare_articles(prints, later, earlier, rule, boilerplate, marks)["score"] >= SAME_ARTICLE
    return [(items[a].id, items[b].id) for a, b in zip(earlier[is_pair], later[is_pair], strict=True)]


JACCARD = {"decision": {"jaccard": 0.8}}
SIMHASH = {"fingerprint": {"family": "simhash"}}


# -- results --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tables",
    [
        {}, JACCARD, JACCARD | {"fingerprint": {"verify": "exact"}}, SIMHASH,
        {"fingerprint": {"family": "simhash", "hamming": 6}},
    ],
    ids=["novelty", "jaccard", "whole bodies", "simhash", "more bits"],
)  # fmt: skip
@pytest.mark.parametrize("corpus", [feed(300), one_site(300, 3)], ids=["feed", "three sites"])
def test_it_finds_what_brute_force_finds(
    find: Find, tmp_path: Path, corpus: list[bytes], tables: dict[str, dict[str, Any]]
) -> None:
    expected = brute_force(corpus, load_settings(**tables))
    assert len(expected) >= 15
    assert find(write(tmp_path / "in", corpus), **tables).pairs == expected


def test_a_row_has_its_stage_and_similarities(find: Find, tmp_path: Path) -> None:
    run = find(write(tmp_path / "in", [story(1, name="a"), story(2, name="x"), story(1, 1, name="b")]))
    similarities = {"body": 1.0, "containment": 1.0, "headline": 1.0, "distance": None}
    assert rows(run.output) == [{"a": "a", "b": "b", "stage": "exact", **similarities}]


def test_a_cluster_is_no_chain(find: Find, tmp_path: Path) -> None:
    words = prose(1, 100).split()
    chain = [line(f"c{i}", "", " ".join(words[15 * i : 15 * i + 60]), i) for i in range(3)]
    run = find(write(tmp_path / "in", [story(7, name="other"), *chain]), decision={"jaccard": 0.4})
    assert run.pairs == [("c0", "c1"), ("c1", "c2")]  # c0 and c2 are no pair
    assert run.story_of == {"other": "other", "c0": "c0", "c1": "c0", "c2": "c2"}
    assert (run.result.clusters, run.result.clustered) == (1, 2)


def test_the_same_id_twice_is_two_items(find: Find, tmp_path: Path) -> None:
    run = find(write(tmp_path / "in", [story(1, name="a"), story(1, name="a"), story(2, name="a")]))
    assert run.pairs == [("a", "a")]
    assert [row["id"] for row in rows(run.second)] == ["a", "a", "a"]


# -- inputs ----------------------------------------------------------------------------------------------------------


def test_bad_lines_are_reported_with_their_numbers_and_counted(find: Find, tmp_path: Path) -> None:
    first = write(tmp_path / "1", [b"", story(1, name="a"), b'{"id": ', b'{"id": "e", "title": "...", "text": "!"}'])
    second = write(tmp_path / "2", [story(1, name="b"), b"[1]"])
    run = find(first, second)
    bad = [(one.input, one.number, one.reason.split(":")[0]) for one in run.bad]
    assert bad == [(0, 3, "json"), (0, 4, "empty"), (1, 2, "type")]
    assert (run.result.items, run.result.bad) == (2, 3)
    assert run.pairs == [("a", "b")]


@pytest.mark.parametrize("lines", [[], [b"no JSON"]])
def test_a_corpus_without_items_has_no_pairs(find: Find, tmp_path: Path, lines: list[bytes]) -> None:
    run = find(write(tmp_path / "in", lines))
    assert run.bytes == (b"", b"")
    assert run.result.bad == len(lines)


def test_outputs_that_would_destroy_something_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--output and --clusters are both"):
        find_pairs([write(tmp_path / "in", [])], tmp_path / "c", tmp_path / "c", settings=load_settings())


# -- memory, threads, hot buckets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [1, 2**16, 2**19, 2**22])
@pytest.mark.parametrize("threads", [1, 3])
def test_memory_and_threads_change_nothing(find: Find, tmp_path: Path, memory: int, threads: int) -> None:
    path = write(tmp_path / "in", feed(50) + one_site(30, 1))
    whole = find(path, to="whole")
    small = find(path, memory=memory, threads=threads)
    assert small.bytes == whole.bytes
    assert [one.number for one in small.bad] == [one.number for one in whole.bad]
    same = {"hot": 0, "left_out": 0, "seconds": 0, "summary": None}
    assert replace(small.result, **same) == replace(whole.result, **same)


@pytest.mark.parametrize("memory", [1, 2**30])
def test_in_a_hot_bucket_each_item_is_compared_with_the_newest(find: Find, tmp_path: Path, memory: int) -> None:
    path = write(tmp_path / "in", [story(1, name=f"c{i}") for i in range(50)])
    run = find(path, bucket_limit=8, memory=memory)
    expected = [(f"c{a}", f"c{b}") for b in range(50) for a in range(max(0, b - 8), b)]
    assert run.pairs == expected
    sizes = Counter(row["representative"] for row in rows(run.second)).values()
    assert min(sizes) > 8, "the family falls into few clusters, each of at least those that were compared"
    tables = Scheme(load_settings().fingerprint).key_columns - 1
    assert run.result.hot == tables
    assert run.result.left_out == tables * (50 * 49 // 2 - len(expected))


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    lines = feed(400)
    return [write(tmp_path / "1.jsonl", lines[:150]), write(tmp_path / "2.jsonl", lines[150:])]


def test_a_run_that_ends_early_leaves_no_file(find: Find, inputs: list[Path], tmp_path: Path) -> None:
    """The temporary files have no names, so nothing is left however a run ends."""

    def stop(progress: PairsProgress) -> None:
        if progress.step is PairsStep.COMPARE:
            assert not list((tmp_path / "out").iterdir())
            raise Stopped

    with pytest.raises(Stopped):
        find(*inputs, progress=stop, memory=2**19)
    assert not list((tmp_path / "out").iterdir())
    assert find(*inputs, memory=2**19).bytes == find(*inputs, to="undisturbed").bytes


# -- formats---------------------------------------------------------------------------------------------------------


def test_parquet_has_the_same_rows(find: Find, inputs: list[Path]) -> None:
    lines, packed = find(*inputs, to="lines", **SIMHASH), find(*inputs, suffix=".parquet", **SIMHASH)
    assert parquet.read_table(packed.output).to_pylist() == rows(lines.output)
    assert parquet.read_table(packed.second).to_pylist() == rows(lines.second)
    assert parquet.read_schema(packed.output).names == list(rows(lines.output)[0])


def test_tables_are_read_and_packed_outputs_written(find: Find, tmp_path: Path) -> None:
    text = prose(1)
    (tmp_path / "in.csv").write_text(f'id,title,text\n1,"a\nb",{text}\n2,"a\nb",{text}\n3,c,{prose(2)}\n4,few\n')
    run = find(tmp_path / "in.csv", suffix=".jsonl.gz")
    assert (run.result.items, run.result.pairs, run.result.bad) == (3, 1, 1)
    assert [(one.number, one.reason) for one in run.bad] == [(5, "row: a row of 2 cells under a header of 3")]
    assert [json.loads(one)["b"] for one in read_lines(run.output)] == ["2"]
    assert [json.loads(one)["story"] for one in read_lines(run.second)] == ["1", "1", "3"]
    with pytest.raises(UsageError, match=r"--output cannot be written as .*pairs\.avro"):
        find(tmp_path / "in.csv", suffix=".avro")
