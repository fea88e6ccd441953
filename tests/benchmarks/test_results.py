"""The results that are kept: what stands in them, what an earlier run lends to a later one, and the page."""

import json
from pathlib import Path

from tests.benchmarks.results import CLAIMS, Results, Section, claims, load, markdown, rows, save

MACHINE = {"processor": "P", "cores": "2", "memory": "8 GiB", "python": "3.12.1", "numpy": "2.4", "gaoya": "0.2"}


def run(date: str = "2026-01-02", machine: dict[str, str] | None = None, **sections: dict[str, float]) -> Results:
    return Results(machine or MACHINE, {name: Section(date, "quick", one) for name, one in sections.items()})


def test_latest_is_one_flat_object_with_each_section_s_date(tmp_path: Path) -> None:
    save(run(engine={"engine_vs_gaoya": 2.34567}), tmp_path, "2026-01-02T0304")
    assert json.loads((tmp_path / "latest.json").read_text("utf-8")) == MACHINE | {
        "measured_engine": "2026-01-02, quick",
        "engine_vs_gaoya": 2.3457,
    }
    assert (tmp_path / "2026-01-02T0304.json").is_file()


def test_a_section_that_is_left_out_keeps_its_figures_and_its_date(tmp_path: Path) -> None:
    save(run(engine={"a": 1.0}, worker={"b": 1.0}), tmp_path, "2026-01-02T0304")
    newest = save(run("2026-01-03", engine={"c": 2.0}), tmp_path, "2026-01-03T0304")
    assert newest.sections["worker"] == Section("2026-01-02", "quick", {"b": 1.0})
    assert newest.sections["engine"] == Section("2026-01-03", "quick", {"c": 2.0})
    assert load(tmp_path) == newest


def test_figures_of_another_machine_are_not_kept(tmp_path: Path) -> None:
    save(run(worker={"b": 1.0}), tmp_path, "2026-01-02T0304")
    newest = save(run(machine=MACHINE | {"cores": "64"}, engine={"c": 2.0}), tmp_path, "2026-01-03T0304")
    assert list(newest.sections) == ["engine"]


def test_a_peer_s_other_version_does_not_make_another_machine(tmp_path: Path) -> None:
    save(run(worker={"b": 1.0}), tmp_path, "2026-01-02T0304")
    newest = save(run(machine=MACHINE | {"gaoya": "0.3"}, engine={"c": 2.0}), tmp_path, "2026-01-03T0304")
    assert set(newest.sections) == {"engine", "worker"}


def test_a_claim_is_reached_missed_or_not_measured() -> None:
    found = {row[0]: row[2:] for row in claims(run(x={"engine_vs_gaoya": 3.5, "restore_s_per_million": 4.0}))}
    assert found["engine_vs_gaoya"] == ("3.50", "at least 3", "yes")
    assert found["restore_s_per_million"] == ("4", "at most 3", "no")
    assert found["pairs_vs_text_dedup"] == ("not measured", "at least 10", "")
    assert len(found) == len(CLAIMS) == 22


def test_a_spread_stands_beside_its_median() -> None:
    figures = {"x": 2.0, "x_low": 1.0, "x_high": 3.5, "engine_low": 7.0}
    assert list(rows(figures)) == [("x", "2", "1 to 3.50"), ("engine_low", "7", "")]


def test_the_page_has_the_machine_the_claims_and_every_section() -> None:
    page = markdown(run(engine={"engine_vs_gaoya": 2.5, "engine_vs_gaoya_low": 2.0, "engine_vs_gaoya_high": 3.0}))
    assert "| processor | P |" in page
    assert "| engine_vs_gaoya | the same against gaoya's MinHash index | 2.50 | at least 3 | no |" in page
    assert "## engine\n\n2026-01-02, quick." in page
    assert "| engine_vs_gaoya | 2.50 | 2 to 3 |" in page


def test_the_page_shows_the_curves_where_growth_was_measured() -> None:
    page = markdown(run(growth={"growth_four_lookup_us_1e5": 0.4}))
    assert "highest.\n\n![cost against originals](growth.svg)" in page.partition("## growth")[2]
    assert "growth.svg" not in markdown(run(engine={"a": 1.0}))


def test_the_page_shows_readers_answers_rule_by_rule_and_not_in_the_list() -> None:
    figures = {"readers_us_ours": 31.0, "readers_missed_jaccard_news": 0.125, "readers_recall_ours_news": 1.0}
    page = markdown(run(readers=figures)).partition("## readers")[2]
    assert "| news | ours | 1.000 |  |  |  |\n| news | Jaccard >= .8 |  |  | .125 |  |" in page
    assert list(rows(figures)) == [("readers_us_ours", "31", "")]


def test_a_run_without_a_peer_keeps_the_version_that_its_figures_are_of(tmp_path: Path) -> None:
    save(run(engine={"engine_vs_gaoya": 1.0}), tmp_path, "2026-01-02T0304")
    newest = save(run(machine=MACHINE | {"gaoya": "not installed"}, readers={"r": 1.0}), tmp_path, "2026-01-03T0304")
    assert newest.machine["gaoya"] == MACHINE["gaoya"]
