"""An item that was held back is given back by hand: found by its id, written once to the output, and said so."""

import json
from contextlib import closing
from typing import Any

import pytest
from click.testing import CliRunner
from kafka.admin import KafkaAdminClient

from stream_dedup.cli.main import app
from stream_dedup.dedup.source_rules import REASONS
from stream_dedup.errors import ConfigError, InputError, UsageError
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.topics import reader
from stream_dedup.tools.topics.give_back import GIVEN_BACK, give_back
from stream_dedup.tools.topics.headers import was_held_back
from tests.harness.check import final_outcome, header
from tests.harness.feed import article, feed, made_up
from tests.harness.topics import Make, variables_of
from tests.worker.support import run_until
from tests.worker.test_resume_kafka import reset_offsets

TEXT = "The bridge over the Elm opened on Monday after two years of work, the mayor of the town said at noon."
ITEMS = [(name, article(name.decode(), TEXT, "Elm bridge opens", f"{name.decode()}.example")) for name in (b"a", b"b")]


def invoke(settings: Settings, *arguments: str) -> Any:
    return CliRunner(env=variables_of(settings)).invoke(app, ["give-back", *arguments])


def test_in_shadow_mode_there_is_nothing_to_give_back() -> None:
    with pytest.raises(ConfigError, match=r"shadow is true: nothing was held back, and news\.unique has every item"):
        give_back(load_settings(policy={"shadow": True}), "b", 0, "by hand")


def test_the_time_to_look_back_has_a_unit() -> None:
    error = CliRunner().invoke(app, ["give-back", "b", "--since", "7"]).exception
    assert isinstance(error, UsageError)


@pytest.mark.kafka
def test_an_item_is_given_back_with_its_bytes(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = make(3)
    monkeypatch.setattr(reader, "_STEP", 7)
    sent = feed(settings, [*ITEMS, *made_up(40), ITEMS[1]], partition=1, lang=b"en")
    run_until(settings, len(sent))
    before = final_outcome(settings, len(sent))
    read: list[tuple[int, int]] = []
    done = give_back(settings, "b", 0, "the editor\nasked", lambda *at: read.append(at))
    held = [record for record in before.duplicates if record.key == b"b"]
    assert len(held) == 2
    assert done.found == f"{settings.topics.duplicates}/1/{held[1].offset}", "the newest one"
    [(count, total)] = read
    assert count == 7 < total, "the newest records first"
    result = invoke(settings, "b", "--since", "9999d", "--json")
    assert result.exit_code == 0, result.output
    came = final_outcome(settings, len(sent) + 2)
    assert came.duplicates == before.duplicates
    first, second = came.output[len(before.output) :]
    for given in (first, second):
        assert (given.partition, given.key, given.value, given.timestamp) == (1, b"b", ITEMS[1][1], sent[-1].timestamp)
        assert given.headers[:-1] == held[1].headers
        assert (header(given, "lang"), header(given, "dedup-original")) == ("en", "a")
        assert was_held_back(given), "so a migration leaves it out"
    assert (header(first, GIVEN_BACK) or "").endswith(" UTC: the editor\nasked")
    assert (header(second, GIVEN_BACK) or "").endswith(" UTC: by hand")
    assert json.loads(result.stdout)["written"] == f"{settings.topics.output}/1/{second.offset}"


@pytest.mark.kafka
def test_the_memory_stays_and_workers_go_on(settings: Settings) -> None:
    feed(settings, ITEMS)
    run_until(settings, 2)
    shown = invoke(settings, "b", "--since", "9999d").stdout
    assert shown.startswith(f"gave b back: {settings.topics.duplicates}/0/0 is {settings.topics.output}/0/")
    assert "held back as a copy of a, which is still remembered" in shown
    feed(settings, [(b"c", ITEMS[1][1].replace(b'"b"', b'"c"'))])
    run_until(settings, 1)
    assert final_outcome(settings, 4).verdicts()[b"c"] == ("duplicate", "a", "a")


@pytest.mark.kafka
def test_an_id_that_was_not_held_back_is_refused_with_the_cure(settings: Settings) -> None:
    feed(settings, [*ITEMS, (b"bad", b"{")])
    run_until(settings, 3)
    for name, since in (("a", 0), ("bad", 0), ("b", 2**42)):
        with pytest.raises(InputError, match=rf"has held back no item with the id '{name}' since .* --since 30d"):
            give_back(settings, name, since, "by hand")
    assert len(final_outcome(settings, 3).every) == 3, "nothing was written"


@pytest.mark.kafka
def test_a_replay_lets_out_what_the_settings_no_longer_hold_back_and_repeats_nothing(make: Make) -> None:
    """The recipe of docs/operating.md: the memory that judged the records judges them again."""
    settings = make()
    sent = feed(settings, [*ITEMS, *made_up(40)])
    run_until(settings, len(sent))
    before = final_outcome(settings, len(sent))
    with closing(KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap_servers)) as admin:
        reset_offsets(admin, settings, {0: 0})
    run_until(
        settings.model_copy(update={"sources": load_settings(sources={"pass": ["b.example"]}).sources}), len(sent)
    )
    came = final_outcome(settings, 2 * len(sent))
    [passed] = came.output[len(before.output) :]
    assert (passed.key, json.loads(header(passed, "dedup-evidence") or "")["reason"]) == (b"b", REASONS["pass"])
