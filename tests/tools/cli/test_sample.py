"""`sample`: draw pairs, answer two questions a pair, stop and continue, and read precision and missed."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.errors import InputError, UsageError
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from stream_dedup.settings.judging import NOVELTY_PROMISES
from stream_dedup.tools.cli.measure import _Screen
from stream_dedup.tools.evaluate.sampling import Pair, Sample, from_files
from stream_dedup.tools.terminal import Console
from tests.cli.commands import words
from tests.tools.batch.feed import feed, rows


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that the runner's keys come from a terminal."""
    monkeypatch.setattr("stream_dedup.tools.cli.measure._has_terminal", lambda: True)


class Place:
    """A filtered file, and a sample of it."""

    def __init__(self, folder: Path) -> None:
        self.source, self.held, self.sample = folder / "in.jsonl", folder / "held.jsonl", folder / "sample"
        self.source.write_bytes(b"\n".join(feed(300)))
        words("filter", self.source, "--output", folder / "out", "--duplicates", self.held)

    def label(self, keys: str, *more: str) -> str:
        files = "--duplicates", self.held, "--input", self.source
        return words("sample", self.sample, *files, *more, input=keys)

    @property
    def pairs(self) -> list[dict[str, Any]]:
        return rows(self.sample / "pairs.jsonl")

    @property
    def labels(self) -> list[dict[str, Any]]:
        path = self.sample / "labels.jsonl"
        return rows(path) if path.exists() else []


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_pairs_are_shown_without_the_verdict_and_labelled_in_several_runs(place: Place) -> None:
    shown = place.label("sndq", "--count", "8")
    assert "8 pairs drawn from" in shown
    assert "2 of 8 pairs are labelled. Run the same command again" in shown
    for word in ("duplicate", "verdict", "stage"):
        assert word not in shown, "the verdict would bias the person"
    pairs = place.pairs
    assert [(row["earlier"], row["later"], row["label"], row["new"], row["weight"]) for row in place.labels] == [
        (pair["earlier"]["id"], pair["later"]["id"], label, new, pair["weight"])
        for pair, (label, new) in zip(pairs, (("copy", "no"), ("different", "yes")), strict=False)
    ]
    shown = place.label("sm" * 6)
    assert "3 of 8" in shown
    assert "8 of 8 pairs are labelled." in shown
    assert place.pairs == pairs, "drawn once"
    assert "8 of 8" in place.label(""), "nothing is left to ask"


SURE = ("copy", "no", False)


@pytest.mark.parametrize(
    ("keys", "said", "labels"),
    [
        (
            "x usn ud snx uq",
            "keys: s, d, u, q",
            [("copy", "no", True), ("different", "yes", True), ("copy", "no", False)],
        ),
        ("sun sum suq", "unsure: n or m, which is more likely?", [("copy", "no", True), ("copy", "yes", True)]),
        ("snsq", "1 of 8 pairs are labelled", [SURE]),
    ],
    ids=["unsure of the article", "unsure of the news", "a pair of which one question was answered is asked again"],
)
def test_keys_become_labels(place: Place, keys: str, said: str, labels: list[tuple[str, str, bool]]) -> None:
    assert said in place.label(keys, "--count", "8")
    assert [(row["label"], row["new"], row["unsure"]) for row in place.labels] == labels
    assert f"{len(labels) + 1} of 8 pairs are labelled" in place.label("dq")


def test_without_a_terminal_it_fails_at_once_and_draws_nothing(place: Place) -> None:
    command = [sys.executable, "-c", "from stream_dedup.cli.main import main; main()", "sample", str(place.sample)]
    files = ["--duplicates", str(place.held), "--input", str(place.source)]
    done = subprocess.run(  # a session of its own has no terminal
        [*command, *files],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "needs a terminal" in done.stderr
    assert "kubectl exec -it" in done.stderr
    assert not place.sample.exists()


def test_a_complete_sample_is_reported_without_a_terminal(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.label("sn" * 4, "--count", "4")
    monkeypatch.setattr("stream_dedup.tools.cli.measure._has_terminal", lambda: False)
    assert "4 of 4 pairs are labelled." in place.label("")


def test_a_closed_terminal_keeps_the_labels(place: Place) -> None:
    with pytest.raises((InputError, EOFError)):
        place.label("sns", "--count", "8")
    assert len(place.labels) == 1


def test_the_precision_is_weighted_to_all_items_held_back(place: Place) -> None:
    place.label("q", "--count", "60")
    pairs = place.pairs
    held = [pair for pair in pairs if pair["decision"]["verdict"] != "unique"]
    unique = [pair for pair in pairs if pair["decision"]["verdict"] == "unique"]
    assert {pair["stratum"].split(",")[0] for pair in unique} == {"unique none"}, "they are drawn, too"
    truth = {pair["later"]["id"]: n % 3 > 0 for n, pair in enumerate(held)}
    fresh = {pair["later"]["id"] for pair in held[::5]}
    answers = {True: "sm", False: "sn"}
    keys = "".join(
        answers[pair["later"]["id"] in fresh] if truth.get(pair["later"]["id"], False) else "d" for pair in pairs
    )
    shown = place.label(keys)
    weights = {pair["later"]["id"]: pair["weight"] for pair in held}
    total = sum(weights.values())
    precision = sum(weights[name] for name in truth if truth[name]) / total
    kept_back = {pair["later"]["id"] for pair in held if not pair["forward"]}
    lost = sum(weights[name] for name in kept_back if not truth[name] or name in fresh)
    missed = lost / sum(weights[name] for name in kept_back)
    population = "items held back" + " or named updates" * any(pair["forward"] for pair in held)
    assert f"precision of all {population}, estimated with weights: {precision:.3f}" in shown
    assert f"have something new or are another article: {missed:.3f} (" in shown
    assert re.search(rf"of ({len(held)}|{len(kept_back)}) pairs", shown)
    assert f"but another article (why: stream-dedup explain ID ID --in {place.sample}/corpus.jsonl): " in shown
    counted = sum(weights[name] for name in kept_back)
    assert counted == pytest.approx(len([row for row in rows(place.held) if row["verdict"] != "bad"]))


def test_a_long_pair_is_shown_in_pages_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80", "LINES": "10"}.items():
        monkeypatch.setenv(name, value)
    keys = iter(["x", " ", "b", " ", " ", "s"])
    monkeypatch.setattr("click.getchar", lambda: next(keys))
    screen = _Screen([[(f"line {number}", "")] for number in range(1, 16)], Console())
    assert screen.ask("which?", "sdq") == "s"
    screens = capsys.readouterr().out.split("\x1b[2J\x1b[H")[1:]
    lines = [[line for line in one.splitlines() if line.startswith("line ")] for one in screens]
    pages = [[f"line {number}" for number in range(first, min(first + 6, 16))] for first in (1, 7, 13)]
    assert lines == [pages[0], pages[1], pages[0], pages[1], pages[2]]
    assert "page 1 of 3: space next" in screens[0]
    assert "keys: s, d, q, space, b" in screens[0]
    assert all(one.count("\n") <= 10 for one in screens)


def test_a_pair_that_was_drawn_twice_is_asked_twice_and_each_answer_has_its_weight(tmp_path: Path) -> None:
    place = Place(tmp_path)
    text = "The bridge over the Elm opened on Monday after two years of work, the mayor of the town said at noon."
    first, again = ({"id": name, "title": "Elm bridge opens", "text": text} for name in "ab")
    changed = again | {"title": "Elm bridge opens after two years", "text": text.replace("noon", "one o'clock")}
    place.source.write_text("\n".join(map(json.dumps, (first, again, changed))), "utf-8")
    words("filter", place.source, "--output", tmp_path / "out", "--duplicates", place.held, "--force")
    assert [(row["id"], row["original"]["id"]) for row in rows(place.held)] == [("b", "a")] * 2
    assert "1 of 2 pairs are labelled" in place.label("snq")
    shown = place.label("d")
    assert "2 of 2 pairs are labelled" in shown
    same, other = (pair["weight"] for pair in place.pairs)
    assert f"precision of all items held back, estimated with weights: {same / (same + other):.3f}" in shown


def test_sixty_labels_recommend_a_name_with_what_it_promises_misses_and_repeats(place: Place) -> None:
    """On this feed something is new in nothing whose novelty is below .7."""
    sides = [Item(f"{n}", "", "", f"{n % 12}.example", 0) for n in range(120)]
    pairs, keys = [], ""
    for n in range(60):
        novelty = (n + 0.5) / 60
        decision = {
            "verdict": "duplicate" if novelty < 0.4 else "update",
            "stage": "body",
            "evidence": {"novelty": novelty},
        }
        pairs.append(Pair(sides[n], sides[60 + n], decision, novelty >= 0.4, "body, at", 1.0))
        keys += "sm" if novelty >= 0.7 else "sn"
    Sample.write(place.sample, pairs, [], {})
    few = words("sample", place.sample, input=keys[:60] + "q")
    assert "No value of decision.novelty is recommended from 30 labelled pairs, 0 with something new" in few
    assert "that takes 10 pairs more, 8 pairs more with something new." in few
    shown = words("sample", place.sample, input=keys[60:])
    assert '[decision] novelty = "eager"' in shown
    said = "Recommended from 60 labelled pairs, 18 with something new: decision.novelty = 0.5 eager."
    assert f"{said} It promises: {NOVELTY_PROMISES['eager']}" in shown
    for name, note in (("0.25 cautious", ""), ("0.4 balanced", " default, present"), ("0.5 eager", " recommended")):
        assert re.search(name + r" \d+ 0.000 \(0.000-0.\d+\) 0.\d+ \(0.\d+-0.\d+\)" + note, shown), name


def test_a_changed_sample_is_refused_before_any_question(place: Place) -> None:
    place.label("snsnq", "--count", "8")
    labels, pairs = place.sample / "labels.jsonl", place.sample / "pairs.jsonl"
    labels.write_bytes(b"".join(reversed(labels.read_bytes().splitlines(keepends=True))))
    with pytest.raises(InputError, match="must be in the order of the pairs"):
        place.label("q")
    pairs.write_text(re.sub(r'"evidence":\{[^}]*\}', '"evidence":"x"', pairs.read_text()))
    with pytest.raises(InputError, match="is no sample"):
        place.label("")


@pytest.mark.parametrize("name", ["corpus.jsonl", "labels.jsonl"])
def test_a_directory_with_files_of_another_work_is_refused(place: Place, name: str) -> None:
    place.sample.mkdir()
    (place.sample / name).write_text("of another work")
    with pytest.raises(UsageError, match=f"holds {name}, but no sample, and it is kept: name another directory"):
        place.label("q")
    assert (place.sample / name).read_text() == "of another work"


def test_a_sample_is_drawn_from_what_filter_takes(place: Place, tmp_path: Path) -> None:
    """Without a duplicates file the inputs are judged here: a packed file in a directory, too."""
    folder = tmp_path / "feed"
    folder.mkdir()
    (folder / "in.jsonl.gz").write_bytes(gzip.compress(place.source.read_bytes()))
    both = [
        from_files(names, held, load_settings(), 60, 1)
        for names, held in (([str(place.source)], place.held), ([str(folder / "in.jsonl.gz")], None))
    ]
    pairs = [{(pair.earlier.id, pair.later.id, pair.forward) for pair in found.pairs} for found in both]
    assert pairs[0] == pairs[1]
    assert {forward for _, _, forward in pairs[1]} == {True, False}
    Sample.write(place.sample, both[1].pairs, both[1].corpus, {})
    with pytest.raises(UsageError, match="cannot be read twice"):
        words("sample", tmp_path / "other", "--input", "-")


def test_files_that_do_not_belong_together_are_refused(place: Place, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="go with --input FILE"):
        words("sample", place.sample, "--duplicates", place.held)
    other = tmp_path / "other.jsonl"
    other.write_bytes(place.source.read_bytes())
    with pytest.raises(InputError, match=r"speaks of .*in\.jsonl; name it with --input"):
        words("sample", place.sample, "--duplicates", place.held, "--input", other)
    place.held.write_text('{"id": 1}\n', "utf-8")
    with pytest.raises(InputError, match="no row of a duplicates file"):
        place.label("q")
    place.held.write_text("", "utf-8")
    place.source.write_bytes(feed(3)[0])
    with pytest.raises(InputError, match="nothing to draw from"):
        place.label("q")
