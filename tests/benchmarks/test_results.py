"""Saved results: a run replaces only what it measured, and the page shows all of it."""

import json
from pathlib import Path

from tests.benchmarks.results import CLAIMS, Results, Section, claims, load, markdown, rows, save

MACHINE = {"processor": "P (R)", "cores": "2", "memory": "8 GiB"}
PACKAGES = {"python": "3.12.1", "numpy": "2.4"}


def run(date: str = "2026-01-02", **sections: dict[str, float]) -> Results:
    return Results(MACHINE, {name: Section(date, "quick", PACKAGES, figures) for name, figures in sections.items()})


def test_one_file_holds_a_machine_s_results_and_a_run_replaces_what_it_measured(tmp_path: Path) -> None:
    save(run(engine={"a": 1.0}, worker={"b": 2.345678}), tmp_path)
    merged = save(run("2026-01-03", engine={"c": 2.0}), tmp_path)
    saved = json.loads((tmp_path / "p-r-2-cores.json").read_text("utf-8"))
    section = {"date": "2026-01-02", "kind": "quick", "packages": PACKAGES, "figures": {"b": 2.3457}}
    assert (saved["machine"], saved["sections"]["worker"]) == (MACHINE, section)
    assert merged.sections["engine"] == Section("2026-01-03", "quick", PACKAGES, {"c": 2.0})
    assert load(tmp_path / "p-r-2-cores.json") == merged
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".md"]


def test_a_claim_is_reached_missed_or_not_measured() -> None:
    claimed = {row[0]: row[2:] for row in claims(run(x={"engine_vs_gaoya": 3.5, "restore_s_per_million": 4.0}))}
    assert claimed["engine_vs_gaoya"] == ("3.50", "at least 3", "yes")
    assert claimed["restore_s_per_million"] == ("4", "at most 3", "no")
    assert claimed["pairs_vs_text_dedup"] == ("not measured", "at least 10", "")
    assert len(claimed) == len(CLAIMS) == 21


def test_a_spread_stands_beside_its_median() -> None:
    figures = {"x": 2.0, "x_low": 1.0, "x_high": 3.5, "engine_low": 7.0}
    assert list(rows(figures)) == [("x", "2", "1 to 3.50"), ("engine_low", "7", "")]


def test_the_page_has_the_machine_the_claims_and_every_section() -> None:
    page = markdown(run(engine={"engine_vs_gaoya": 2.5, "engine_vs_gaoya_low": 2.0, "engine_vs_gaoya_high": 3.0}))
    assert "| processor | P (R) |" in page
    assert "With python 3.12.1, numpy 2.4." in page
    assert "| engine_vs_gaoya | the same against gaoya's MinHash index | 2.50 | at least 3 | no |" in page
    assert "## engine\n\n2026-01-02, quick." in page
    assert "| engine_vs_gaoya | 2.50 | 2 to 3 |" in page
