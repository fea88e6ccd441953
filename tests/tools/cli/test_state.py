"""`state`: count and verify a changelog, in a directory and in a topic."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_dedup.changelog import entries
from stream_dedup.errors import CorruptBlock, InputError
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.cli.state import _for_people
from stream_dedup.tools.demo.embedded import EmbeddedKafka
from tests.cli.commands import json_of, run, words
from tests.harness.feed import article, feed, made_up
from tests.harness.topics import make_settings, ready
from tests.lab.benchmarks.memory import deltas
from tests.worker.remembered import Remembering
from tests.worker.support import run_until


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory after 200 items and a cut of the first."""
    feed_file = tmp_path / "feed.jsonl"
    items = [value for _, value in made_up(200)]
    first = json.loads(items[0])
    items.append(article("cut", first["text"][: len(first["text"]) // 2], first["title"], "another.example"))
    feed_file.write_bytes(b"\n".join(items) + b"\n")
    outputs = ["--output", tmp_path / "out", "--duplicates", tmp_path / "held"]
    run("filter", feed_file, *outputs, "--state", tmp_path / "state")
    return tmp_path / "state"


def test_a_directory_is_counted(state: Path) -> None:
    found = json_of("state", "inspect", state)
    let_through = len((state.parent / "out").read_bytes().splitlines())
    assert found["additions"] >= let_through > 0
    assert found["schemes"] == {found["settings_scheme"]: found["blocks"]}
    assert found["settings_scheme"] == f"{Scheme(load_settings().fingerprint).id:016x}"
    assert found["damaged"] == []
    shown = words("state", "inspect", state)
    assert "additions" in shown
    assert _for_people("last_watermark", 1_772_476_080_000) == "2026-03-02 18:28 UTC", "a date, not milliseconds"
    assert " damaged none " in shown
    assert "warning" not in shown


def test_a_changelog_of_another_scheme_is_warned_of(state: Path, tmp_path: Path) -> None:
    config = tmp_path / "other.toml"
    config.write_text('[fingerprint]\nshingles = "letters"\n', "utf-8")
    shown = run("state", "inspect", state, "--config", config)
    assert "no block was written under the scheme of these settings" in shown


def test_damage_is_found_and_named(state: Path) -> None:
    assert "0 damaged" in run("state", "verify", state)
    journal = state / "journal"
    content = bytearray(journal.read_bytes())
    content[len(content) // 3] ^= 1
    journal.write_bytes(content)
    with pytest.raises(CorruptBlock, match="byte"):
        run("state", "verify", state)


def test_a_foreign_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a state directory"):
        run("state", "inspect", tmp_path)


def config_of(settings: Settings, directory: Path) -> Path:
    kafka, path = settings.kafka, directory / "settings.toml"
    path.write_text(
        f'[kafka]\nbootstrap_servers = "{kafka.bootstrap_servers}"\ngroup_id = "{kafka.group_id}"\n'
        f'[topics]\nchangelog = "{settings.topics.changelog}"\n'
    )
    return path


@pytest.mark.kafka
@pytest.mark.slow
def test_folded_blocks_are_counted_once(
    kafka: EmbeddedKafka, topic_name: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "MAX_BLOCKS", 10)
    settings = ready(make_settings(kafka.bootstrap, topic_name))
    every = list(deltas(settings, 47, 1))
    with Remembering(settings) as writer:
        for delta in every:
            writer.write(delta)
    found = json_of("state", "inspect", "--config", config_of(settings, tmp_path))
    assert (found["blocks"], found["folded"], found["additions"]) == (47 + 4, 40, 47)


@pytest.mark.kafka
def test_a_topic_is_counted_and_verified(
    kafka: EmbeddedKafka, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name))
    feed(settings, [*made_up(100), (b"item-0", None)])
    run_until(settings, 101)
    config = config_of(settings, tmp_path)
    found = json_of("state", "inspect", "--config", config)
    assert found["owners"] == {f"{settings.kafka.group_id}-global": found["blocks"]}
    assert found["forgotten"] == 1
    assert "0 damaged" in run("state", "verify", "--config", config)
