"""The figures of the pages: measured under today's code, and measured and written as they should be."""

import gzip
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.index.footprint import MEMORY_SLACK
from stream_dedup.settings import load_settings
from stream_dedup.settings.judging import NOVELTY_PROMISES
from stream_dedup.tools.evaluate.planner import Traffic, evaluate, needed
from tests.lab.figures import edits, measure, results, short, tables
from tests.lab.figures.families import FAMILIES, LABELLED, Tables
from tests.lab.figures.measure import CHINESE, ENGLISH, REUTERS, Corpora
from tests.lab.figures.results import COMMAND, ROOT, File, Section, load, save, scheme_of, section, stale
from tests.lab.figures.short import SHORT
from tests.tools.batch.feed import line

RATES = ("missed", "repeated")
ROWS: dict[str, Tables] = {"default": {}, "exact": {"fingerprint": {"verify": "exact"}}}


def test_the_figures_in_the_pages_were_measured_under_today_s_code() -> None:
    found = stale(load(), measure.rows())
    assert not found, "\n".join(["the figures of the pages are out of date; run: " + COMMAND, *found])


# -- what makes figures stale -------------------------------------------------------------------------------------


def made(**changes: Any) -> Section:
    return replace(section("2026-01-01", {}, ROWS, {}), **changes)


def other_default(table: str, name: str, value: object) -> dict[str, dict[str, Any]]:
    defaults = results.defaults()
    return defaults | {table: defaults[table] | {name: value}}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"versions": results.versions() | {"rule": 0}}, r"version of rule is \d+, measured with 0"),
        ({"versions": results.versions() | {"kernel": 0}}, "version of kernel"),
        ({"defaults": other_default("decision", "novelty", 0.1)}, "decision.novelty is 'balanced', measured with 0.1"),
        ({"defaults": other_default("worker", "batch_items", 1)}, "worker.batch_items"),
        ({"defaults": other_default("policy", "gone", True)}, "policy.gone is None"),
        ({"rows": {"default": {}}}, "section one: exact was never measured"),
        ({"rows": ROWS | {"narrow": {}}}, "narrow: settings is None, measured with"),
        (
            {"rows": ROWS | {"exact": {"fingerprint": {"verify": "sketch"}}}},
            "exact: settings .*exact.*, .* with .*sketch",
        ),
        ({"schemes": {"default": "0" * 16}}, "default: scheme is .*, measured with '0000"),
        ({"files": {"tests/lab/labels/reader_pairs.jsonl": File("0", 728)}}, "reader_pairs.jsonl has changed"),
    ],
)
def test_a_change_since_the_measurement_is_named(changes: dict[str, Any], reason: str) -> None:
    (found,) = stale({"one": made(**changes)}, {"one": ROWS})
    assert re.search(reason, found), found


def test_what_is_not_comparable_is_stale_and_what_came_since_is_not() -> None:
    assert stale({"one": made()}, {"other": ROWS}) == [
        "section other: never measured",
        "section one: no longer measured",
    ]
    defaults = results.defaults()
    del defaults["decision"]["jaccard"]
    assert stale({"one": made(defaults=defaults)}, {"one": ROWS}) == []
    assert "salt" not in json.dumps(defaults), "no secret is written"


def test_a_run_replaces_its_sections_alone(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    save({"one": made(figures={"x": 1}), "two": made(figures={"x": 2})}, path)
    merged = save({"two": made(figures={"x": 3})}, path)
    assert {name: one.figures["x"] for name, one in merged.items()} == {"one": 1, "two": 3}


def test_every_family_is_a_scheme_of_its_own() -> None:
    assert len({scheme_of(row) for row in FAMILIES.values()}) == len(FAMILIES)
    assert load_settings(**FAMILIES["`simhash`, k = 3"]).fingerprint.hamming == 3


# -- tables -------------------------------------------------------------------------------------------------------


def test_the_promises_state_what_was_measured() -> None:
    found = load()
    for name, counted in found["edits"].figures.items():
        rates = found["readers"].figures["cross-validated"][name]
        held, missed, again = (tables.share(x, 2) for x in (edits.held_of_news(counted), *map(rates.get, RATES)))
        said = (
            f"Measured: {name} holds back {held} of the edits with news; readers miss {missed} and see {again} again."
        )
        assert NOVELTY_PROMISES[name].endswith(said)


def test_the_sizes_are_those_of_plan() -> None:
    (row,) = [row for row in tables.sizing().splitlines() if row.startswith("| 1 GiB |")]
    assert row in (ROOT / "deploy" / "sizing.md").read_text("utf-8")
    bound = int(row.split("|")[2].replace(",", ""))
    plan = evaluate(Traffic(bound), load_settings().fingerprint)
    assert f"| {tables.mib(plan.memory)} | {tables.mib(plan.peak)} |" in row, "as `stream-dedup plan` says"
    assert 2**29 < needed(MEMORY_SLACK * plan.peak) <= 2**30, "and its memory of the process has room for them"
    assert tables.original_bytes(FAMILIES["`minhash` (default)"]) == pytest.approx(489.4)
    exact = FAMILIES['`minhash`, `verify = "exact"`']
    assert tables.original_bytes(exact, 1000.0) == tables.original_bytes(exact) + 1000


# -- measuring ----------------------------------------------------------------------------------------------------

STORY = "The bridge over the Elm opened on Monday after two years of work, and the mayor thanked all builders."
OTHER = "Harvest prices rose again in the valley, while dealers were waiting for rain that forecasters expect."


def test_sections_are_measured_and_can_be_rendered(tmp_path: Path) -> None:
    """Corpora of three items: a story, another one, and the first again on another site."""
    for corpus in (ENGLISH, CHINESE, REUTERS):
        items = [line(f"{n}", f"Story {n % 2}", text) for n, text in enumerate((STORY, OTHER, STORY))]
        (tmp_path / f"{corpus}.jsonl.gz").write_bytes(gzip.compress(b"\n".join(items)))
    for column in LABELLED:
        labels = [{"earlier": "0", "later": "2", "label": "copy"}, {"earlier": "0", "later": "1", "label": "different"}]
        (tmp_path / column.labels).write_text("\n".join(map(json.dumps, labels)))
    corpora = Corpora(tmp_path, lambda _: None)
    measured = {name: measure.measured(corpora, name) for name in ("families", "exactness")}
    sections = save(measured, tmp_path / "figures.json")
    families = sections["families"]
    assert families.files[f"{ENGLISH}.jsonl.gz"].items == 3
    assert families.files[LABELLED[0].labels].items == 2
    assert stale(sections, {name: measure.rows()[name] for name in sections}) == []
    assert tables.families(families).count("1.0 / 1.0") == 2 * len(LABELLED) * len(FAMILIES)
    assert "| 1.0 |" in tables.proposed(families)
    assert "English pages, 3" in tables.exactness(sections["exactness"])


def test_short_items_are_found_by_letters_despite_typing_errors() -> None:
    """The measurement shows the difference that it is there for, on posts that are made up."""
    chance = random.Random(4)
    words = ["".join(chance.choices("abcdefghijklmnoprstuvw", k=6)) for _ in range(400)]
    posts = [("", " ".join([*chance.choices(words, k=20), f"{n} boats."]), f"source {n}") for n in range(30)]
    rows = ("words (default)", '`shingles = "letters"`')
    found = {row: short.judged(short.Feed("made up", posts), load_settings(**SHORT[row])) for row in rows}
    by_words, by_letters = found.values()
    assert by_words["held"] == by_letters["held"] == by_letters["other_numbers"] == 0
    assert by_words["found"][0] == by_letters["found"][0] == 1
    assert by_words["found"][5] < 0.7
    assert by_letters["found"][5] > 0.85
    assert by_letters["changed"] < 0.1, "another number is news"
    section = Section("", {}, {}, {}, {}, {}, {"posts": {"items": 30, "rows": found}})
    assert tables.short(section).count("| 0.00 % | 0 |") == len(rows)
