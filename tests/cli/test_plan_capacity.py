"""`stream-dedup plan --rate`: what it prints, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stream_dedup.cli.main import app


def run(*args: str) -> str:
    result = CliRunner().invoke(app, ["plan", *args], env={"COLUMNS": "140"}, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def refused(*args: str) -> str:
    result = CliRunner().invoke(app, ["plan", *args], env={"COLUMNS": "200"})
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.replace("│", " ").split())


def plan(*args: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(run(*args, "--json"))
    return made


def test_a_small_stream_is_for_a_single_worker() -> None:
    shown = run("--rate", "20")
    assert "STREAM: 20 items a second, 40 at the peak, 4,200 bytes each, 25% held back; remembered for 7 days" in shown
    assert "ANSWER: a single worker and a standby suffice; split mode pays from" in shown
    assert "single worker (chosen)" in shown
    assert "10 min without all: 12,000 items wait; caught up in" in shown
    assert "WARNING" not in shown
    assert "PRESENT SETTINGS" not in shown


def test_a_fast_stream_is_for_split_mode_with_processes_of_each_role() -> None:
    made = plan("--rate", "5k", "--window", "10m")
    assert made["choice"] == "split"
    assert [role["name"] for role in made["split"]["roles"]] == ["fingerprint", "judge", "publish"]
    assert made["partitions"] >= max(role["processes"] for role in made["split"]["roles"])
    shown = run("--rate", "5k", "--window", "10m")
    assert f"ANSWER: split mode, {made['partitions']} partitions; a single worker is too slow" in shown
    assert "split (chosen)" in shown
    assert "10 min without judge: 3,000,000 items wait" in shown


def test_too_much_for_one_judge_is_said_with_what_it_carries() -> None:
    made = plan("--rate", "1e5", "--window", "3.7h")
    assert made["originals"] == 999_000_000
    assert made["choice"] == "none"
    assert [limit["name"] for limit in made["limits"] if limit["exceeded"]] == ["processor", "memory", "restore"]
    shown = run("--rate", "1e5", "--window", "3.7h")
    assert f"one judge is too slow, with split mode too: it carries {made['limits'][0]['rate']:,.0f} items" in shown
    assert "WARNING: one judge needs" in shown
    assert "10 min without judge: 60,000,000 items wait; never caught up" in shown
    assert "chosen" not in shown


def test_every_option_has_its_effect() -> None:
    base = plan("--rate", "2000", "--window", "1h")
    changed = {
        option: plan("--rate", "2000", "--window", "1h", option, value)
        for option, value in (
            ("--peak", "10"), ("--item-bytes", "20K"), ("--held-back", "0.5"), ("--replicas", "2"), ("--outage", "1h"),
            ("--retention", "2d"), ("--memory", "1G"), ("--id-bytes", "200"),
        )
    }  # fmt: skip
    assert changed["--peak"]["split"]["roles"][0]["processes"] > base["split"]["roles"][0]["processes"]
    assert changed["--item-bytes"]["split"]["flows"][0]["written"] == 2000 * 20 * 1024
    assert changed["--held-back"]["originals"] == base["originals"] * 2 // 3
    assert changed["--replicas"]["split"]["flows"][0]["replicated"] == base["split"]["flows"][0]["replicated"] / 2
    assert changed["--outage"]["single"]["outages"][0]["items"] == 2000 * 3600
    assert changed["--retention"]["split"]["flows"][1]["disk"] == 2 * base["split"]["flows"][1]["disk"]
    assert changed["--memory"]["limits"][1]["exceeded"]
    assert changed["--id-bytes"]["single"]["roles"][0]["memory"] > base["single"]["roles"][0]["memory"]


def test_the_window_and_the_tables_are_those_of_the_settings(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[window]\nlength = "2d"\n[fingerprint]\nheadline_rows = 4\nverify = "exact"\n')
    made = plan("--rate", "10", "--config", str(settings))
    assert made["load"]["window"] == 2 * 86400
    assert made["found"] < plan("--rate", "10", "--window", "2d")["found"]
    large = plan("--rate", "10", "--config", str(settings), "--body-shingles", "5000")
    assert large["single"]["roles"][0]["memory"] > 2 * made["single"]["roles"][0]["memory"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--window", "7d"), ("--peak", "2"), ("--item-bytes", "4K"), ("--held-back", "0.2"), ("--replicas", "3"),
        ("--outage", "1m"), ("--retention", "1d"),
    ],
)  # fmt: skip
def test_an_option_of_the_stream_is_refused_without_a_rate(option: str, value: str) -> None:
    assert f"{option} has no effect without --rate; add --rate, or leave {option} out" in refused(option, value)


@pytest.mark.parametrize(("option", "value"), [("--items", "2M"), ("--recall", "0.9"), ("--threshold", "0.6")])
def test_an_option_of_the_index_is_refused_with_a_rate(option: str, value: str) -> None:
    assert f"{option} has no effect with --rate" in refused("--rate", "100", option, value)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--rate", "fast"), "--rate 'fast' is not a number; write items a second, as 500, 0.5 or 20k"),
        (("--rate", ""), "is not a number"),
        (("--rate", "k"), "is not a number"),
        (("--rate", "0"), "--rate must be more than 0"),
        (("--rate", "nan"), "--rate must be more than 0"),
        (("--rate", "inf"), "--rate must be more than 0"),
        (("--rate", "5", "--window", "7"), "--window '7': write a duration as a number and a unit"),
        (("--rate", "5", "--window", "0s"), "--window must be longer than 0s"),
        (("--rate", "5", "--outage", "soon"), "--outage 'soon': write a duration"),
        (("--rate", "5", "--retention", "1e999d"), "--retention '1e999d'"),
        (("--rate", "5", "--peak", "0.5"), "--peak must be at least 1"),
        (("--rate", "5", "--held-back", "1"), "--held-back must be from 0 to less than 1"),
        (("--rate", "5", "--replicas", "0"), "--replicas must be at least 1"),
        (("--rate", "5", "--item-bytes", "big"), "'big' is not a size"),
        (("--rate", "5", "--item-bytes", "0"), "--item-bytes must be at least 1"),
        (("--rate", "5", "--memory", "0"), "--memory must be more than 0"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(args: tuple[str, ...], message: str) -> None:
    assert message in refused(*args)
