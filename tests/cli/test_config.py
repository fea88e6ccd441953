"""`stream-dedup config`, the generated references, and the settings files in config/."""

import json
import os
import re
from pathlib import Path

import pytest

from stream_dedup.cli.config import reference
from stream_dedup.errors import ConfigError
from stream_dedup.observe.catalogue import metrics_reference
from stream_dedup.settings import PREFIX, TABLES, Settings, load_settings
from tests.cli.commands import json_of, run

CONFIG = Path(__file__).parents[2] / "config"
SECRET = "hunter2-of-the-feed"  # noqa: S105 - not a real one


@pytest.fixture(autouse=True)
def _no_settings_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith(PREFIX)]:
        monkeypatch.delenv(name)


# -- the files under config/ ------------------------------------------------------------------------------


def test_the_shipped_files_load_and_the_commented_example_has_the_defaults() -> None:
    loaded = {path.name: load_settings(path).model_dump() for path in CONFIG.glob("*.toml")}
    assert loaded.keys() == {"minimal.toml", "stream-dedup.toml"}
    assert loaded["stream-dedup.toml"] == Settings().model_dump()


def test_commented_settings_of_the_example_are_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (CONFIG / "stream-dedup.toml").read_text("utf-8")
    whole, count = re.subn(r"^# (?=[a-z_]+ = )", "", text, flags=re.MULTILINE)
    assert count >= 5
    path = tmp_path / "whole.toml"
    path.write_text(whole, "utf-8")
    monkeypatch.setenv("STREAM_DEDUP_KAFKA__SASL_PASSWORD", SECRET)
    settings = load_settings(path)
    assert settings.kafka.sasl_mechanism == "SCRAM-SHA-512"
    assert settings.item.fields == {"title": "head.line", "text": "content.body"}


# -- reference --------------------------------------------------------------------------------------------


def test_the_commands_print_the_pages_as_they_are() -> None:
    assert run("config", "reference") == reference()
    assert run("config", "metrics") == metrics_reference()


def test_the_reference_describes_every_setting() -> None:
    page = reference()
    for table, fields in TABLES.items():
        for name, field in fields.items():
            assert field.description, f"[{table}] {name} has no description"
            assert f"| `{name}` |" in page


@pytest.mark.parametrize(
    "row",
    [
        '| `length` | a duration, more than 0s | `"7d"` | How long an original is remembered.',
        '| `scope` | `"global"` or `"partition"` | `"global"` |',
        '| `updates` | `"forward"`, `"drop"` or `"compare"` | `"compare"` |',
        "| `sasl_password` | text, kept secret, or unset | unset |",
        "| `ssl_cafile` | a path, or unset | unset |",
        "| `body` | a number, from 0 to 1 | `0.5` |",
        "| `port` | a whole number, from 0 to 65,535 | `9464` |",
        "| `seed` | a whole number, at least 0, less than 4,294,967,296 | `1` |",
        '| `group_id` | text, not empty | `"stream-dedup"` |',
        '| `novelty` | `"cautious"`, `"balanced"` or `"eager"`; or a number, from 0 to 1 |',
        "| `shadow` | `true` or `false` | `false` |",
        "| `fields` | a table with any of `id`, `title`,",
    ],
)
def test_the_reference_describes_the_allowed_values(row: str) -> None:
    assert row in reference()


# -- show -------------------------------------------------------------------------------------------------


def test_show_names_the_origin_of_each_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[topics]\ninput = "wire"\noutput = "clean"\n[window]\nlength = "36h"\n', "utf-8")
    monkeypatch.setenv("STREAM_DEDUP_TOPICS__OUTPUT", "from.environment")
    settings = json_of("config", "show", "--config", path)
    assert settings["topics"]["input"] == {"value": "wire", "origin": "file", "source": str(path)}
    origin = {"origin": "environment", "source": "STREAM_DEDUP_TOPICS__OUTPUT"}
    assert settings["topics"]["output"] == {"value": "from.environment", **origin}
    assert settings["topics"]["changelog"]["origin"] == "default"
    assert settings["window"]["length"]["value"] == "36h"


def test_show_finds_the_other_forms_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("stream_dedup_kafka__group_id", "lower")
    monkeypatch.setenv("STREAM_DEDUP_ITEM__FIELDS__TITLE", "head.line")
    settings = json_of("config", "show")
    assert settings["kafka"]["group_id"]["source"] == "stream_dedup_kafka__group_id"
    assert settings["item"]["fields"]["source"] == "STREAM_DEDUP_ITEM__FIELDS__TITLE"


def test_show_without_a_file_has_every_setting_at_its_default() -> None:
    settings = json_of("config", "show")
    assert {table: list(values) for table, values in settings.items()} == {name: list(TABLES[name]) for name in TABLES}
    assert {setting["origin"] for table in settings.values() for setting in table.values()} == {"default"}


def test_the_values_of_show_can_be_written_into_a_file(tmp_path: Path) -> None:
    lines = []
    for table, settings in json_of("config", "show").items():
        lines.append(f"[{table}]")
        lines += [f"{name} = {json.dumps(row['value'])}" for name, row in settings.items() if row["value"]]
    path = tmp_path / "written.toml"
    path.write_text("\n".join(lines), "utf-8")
    assert load_settings(path).model_dump() == Settings().model_dump()


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_show_prints_stars_for_a_secret(monkeypatch: pytest.MonkeyPatch, form: list[str]) -> None:
    for name, value in (
        ("SECURITY_PROTOCOL", "SASL_SSL"), ("SASL_MECHANISM", "PLAIN"), ("SASL_USERNAME", "ann"),
        ("SASL_PASSWORD", SECRET),
    ):  # fmt: skip
        monkeypatch.setenv(f"STREAM_DEDUP_KAFKA__{name}", value)
    text = run("config", "show", *form)
    assert SECRET not in text
    assert "**********" in text


def test_show_prints_a_table_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_DEDUP_KAFKA__GROUP_ID", "a[b]c")  # brackets are not markup
    lines = [line.split() for line in run("config", "show", env={"COLUMNS": "200"}).splitlines()]
    assert ["window.length", '"7d"', "default"] in lines
    assert ["kafka.group_id", '"a[b]c"', "environment:", "STREAM_DEDUP_KAFKA__GROUP_ID"] in lines
    assert ["kafka.ssl_cafile", "unset", "default"] in lines


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"HAMMING": "8"}, "finds for certain only what differs in 3 bits"),
        ({"LAYOUT": "5 of 2"}, "neither 'm choose r' nor 'm x n'"),
        ({"WEIGHTS": "idf", "IDF": "/nowhere/idf"}, "cannot read /nowhere/idf"),
    ],
)
def test_show_refuses_settings_that_make_no_scheme(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str], message: str
) -> None:
    for name, value in {"FAMILY": "simhash", **wrong}.items():
        monkeypatch.setenv(f"STREAM_DEDUP_FINGERPRINT__{name}", value)
    with pytest.raises(ConfigError, match=message):
        run("config", "show")
