"""`stream-dedup config`, the generated references, and the settings files in config/."""

import json
import os
import re
from pathlib import Path

import pytest

from stream_dedup.settings import PREFIX, TABLES, Settings, load_settings
from stream_dedup.tools.reference import descriptions
from tests.cli.commands import json_of, run

CONFIG = Path(__file__).parents[3] / "config"
SECRET = "hunter2-of-the-feed"  # noqa: S105 - not a real one


@pytest.fixture(autouse=True)
def _no_settings_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith(PREFIX)]:
        monkeypatch.delenv(name)


# -- the files under config/ ------------------------------------------------------------------------------


def test_the_shipped_files_load_and_the_commented_example_has_the_defaults() -> None:
    loaded = {path.name: load_settings(path).model_dump() for path in CONFIG.glob("*.toml")}
    assert loaded.keys() == {"stream-dedup.toml"}
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


@pytest.mark.parametrize(("command", "name"), [("reference", "reference.md"), ("metrics", "metrics.md")])
def test_a_generated_page_is_up_to_date(command: str, name: str) -> None:
    committed = (CONFIG / name).read_text("utf-8")
    assert committed == run("config", command), f"config/{name} is out of date; fix it with: make reference"


@pytest.mark.parametrize("table", TABLES)
def test_every_setting_is_described(table: str) -> None:
    assert not [name for name, text in descriptions(table).items() if not text.endswith(".")]


# -- show -------------------------------------------------------------------------------------------------


def test_show_names_the_origin_of_each_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[topics]\ninput = "wire"\noutput = "clean"\n[window]\nlength = "36h"\n', "utf-8")
    monkeypatch.setenv("STREAM_DEDUP_TOPICS__OUTPUT", "from.environment")
    monkeypatch.setenv("stream_dedup_kafka__group_id", "lower")
    monkeypatch.setenv("STREAM_DEDUP_ITEM__FIELDS__TITLE", "head.line")
    settings = json_of("config", "show", "--config", path)
    assert {table: list(rows) for table, rows in settings.items()} == {name: list(TABLES[name]) for name in TABLES}
    assert settings["topics"]["input"] == {"value": "wire", "origin": "file", "source": str(path)}
    origin = {"origin": "environment", "source": "STREAM_DEDUP_TOPICS__OUTPUT"}
    assert settings["topics"]["output"] == {"value": "from.environment", **origin}
    assert settings["topics"]["changelog"]["origin"] == "default"
    assert settings["window"]["length"]["value"] == "36h"
    assert settings["kafka"]["group_id"]["source"] == "stream_dedup_kafka__group_id"
    assert settings["item"]["fields"]["source"] == "STREAM_DEDUP_ITEM__FIELDS__TITLE"


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
