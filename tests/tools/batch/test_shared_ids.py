"""Ids that name no article, such as one guid on all entries: noticed, said, and the items are judged by their texts."""

import json
from pathlib import Path

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.batch.filter import FilterStep, LineJudge
from stream_dedup.tools.batch.pairs import find_pairs
from tests.tools.batch.conftest import Run, stop
from tests.tools.batch.feed import line, numbered, prose, rows, write


def entry(guid: str, number: int, site: str = "elm.example", more: str = "") -> bytes:
    """The article `number` under a guid."""
    text = prose(number)
    return line(guid, " ".join(text.split()[:8]), f"{text} {more}", number / 60, source=site)


ARTICLES = 40
# Of one site; then copies of each second one by another site, which has ids.
OWN = [
    *(entry(f"{number}", number) for number in range(ARTICLES)),
    *(entry(f"copy{number}", number, "other.example", "Read more.") for number in range(0, ARTICLES, 2)),
]
SHARED = [json.dumps({**json.loads(one), "id": "https://elm.example/"}).encode() for one in OWN[:ARTICLES]]
SHARED += OWN[ARTICLES:]


def fates(path: Path) -> list[tuple[str, int | None]]:
    """Of each row of the verdicts: its verdict, and the line of its original."""
    return [(row["verdict"], row["original"] and row["original"]["offset"]) for row in rows(path)]


def warned(run: Run, *inputs: Path, **more: object) -> list[str]:
    summary = run(*inputs, **more).result.summary
    assert summary is not None
    return [one.text for one in summary.warnings if one.kind == "shared-ids"]


@pytest.mark.parametrize("updates", ["compare", "drop"])
def test_entries_with_one_guid_are_judged_as_with_ids_of_their_own(run: Run, tmp_path: Path, updates: str) -> None:
    policy = {"updates": updates}
    names = [tmp_path / "own.verdicts", tmp_path / "shared.verdicts"]
    assert warned(run, write(tmp_path / "own", OWN), to="1", verdicts=names[0], policy=policy) == []
    shared = write(tmp_path / "shared", SHARED)
    [warning] = warned(run, shared, to="2", verdicts=names[1], policy=policy)
    assert (
        f"40 items share their id with an item of another text, such as 'https://elm.example/' ({shared}:1" in warning
    )
    assert fates(names[1]) == fates(names[0])
    assert [kind for kind, _ in fates(names[0])].count("duplicate") == ARTICLES // 2
    assert rows(names[1])[1]["id"] == "0:2", "as an item without an id"


def test_two_of_three_entries_are_enough(run: Run, tmp_path: Path) -> None:
    bridge = (
        "Bridge over the Elm opens",
        "The new bridge opened to traffic on Monday after two years of work, the mayor said at the ceremony on the "
        "eastern bank, where three hundred people watched in the rain.",
    )
    ferry = (
        "Ferry strike enters third day",
        "Crews of the island ferries stayed ashore for a third day as talks about pay broke down overnight between the "
        "union and the company that runs them.",
    )
    sites = ("elm.example/", bridge), ("elm.example/", ferry), ("other.example/a", bridge)
    lines = [line(f"https://{at}", *texts, n, source=at) for n, (at, texts) in enumerate(sites)]
    verdicts = tmp_path / "verdicts"
    assert len(warned(run, write(tmp_path / "in", lines), verdicts=verdicts)) == 1
    assert fates(verdicts) == [("unique", None), ("unique", None), ("duplicate", 1)]


def test_a_killed_run_goes_on_as_if_it_had_not_been_killed(run: Run, tmp_path: Path) -> None:
    path, state = write(tmp_path / "in", SHARED), tmp_path / "state"
    expected = run(path, to="1").bytes
    stop(run, path, to="2", state=state, step=FilterStep.WRITE, time=5)
    assert run(path, to="2", state=state).bytes[0] == expected[0]


def test_versions_share_their_id_with_reason(run: Run, tmp_path: Path) -> None:
    """A dump with three versions of each article: the ids name the articles."""
    texts = [(n, [prose(70 * n + k, 40) for k in range(part)]) for n in range(9) for part in range(3)]
    lines = [entry(f"{n}", n, more=" ".join(added)) for n, added in texts]
    verdicts = tmp_path / "verdicts"
    assert warned(run, write(tmp_path / "in", lines), verdicts=verdicts) == []
    assert "update" in {row["verdict"] for row in rows(verdicts)}


def test_of_a_pipe_the_first_batch_tells() -> None:
    with Decider(load_settings()) as dedup:
        judge = LineJudge(dedup, 2**60)
        verdicts = judge.judge(list(numbered(SHARED))).verdicts
    assert [str(one.kind) for one in verdicts].count("update") == 0


def test_no_two_clusters_have_one_name(tmp_path: Path) -> None:
    outputs = tmp_path / "pairs.jsonl", tmp_path / "clusters.jsonl"
    found = find_pairs([write(tmp_path / "in", SHARED)], *outputs, settings=Settings(), keep="longest")
    assert found.clusters == ARTICLES // 2
    names = [row["story"] for row in rows(outputs[1])]
    assert len(set(names)) == ARTICLES
    assert names[:3] == ["https://elm.example/", "https://elm.example/ (2)", "https://elm.example/ (3)"]
    assert names[ARTICLES:] == names[:ARTICLES:2], "a copy has the name of its article's cluster"
    assert found.summary is not None
    assert "shared-ids" in {one.kind for one in found.summary.warnings}
