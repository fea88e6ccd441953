"""`explain ID ID` finds items in the topics: a held-back item by its id, its original where the verdict says."""

from typing import Any

import pytest
from click.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.errors import InputError
from stream_dedup.settings import Settings
from stream_dedup.tools.topics.lookup import find_pair
from tests.harness.feed import article, feed
from tests.harness.topics import Make, variables_of
from tests.worker.support import run_until

TEXT = "The bridge over the Elm opened on Monday after two years of work, the mayor of the town said at noon."
OTHER = "Astronomers measured how fast a small rock turns around itself, and found it the fastest of its size."
ITEMS = [
    (b"a", article("a", TEXT, "Elm bridge opens", "a.example")),
    (b"b", article("b", TEXT, "Elm bridge opens", "b.example")),
    (b"c", article("c", OTHER, "A small rock", "a.example")),
]


def explain(settings: Settings, *arguments: str) -> Any:
    return CliRunner(env=variables_of(settings)).invoke(app, ["explain", "--since", "9999d", *arguments])


@pytest.mark.kafka
def test_two_ids_are_found_in_the_topics(make: Make) -> None:
    settings = make(2)
    sent = feed(settings, ITEMS, partition=1)
    run_until(settings, len(sent))
    (first, at_first), (second, at_second) = find_pair(settings, "a", "b", 0)
    assert (first.id, at_first) == ("a", f"{settings.topics.input}/1/0, which the verdict names")
    assert (second.id, second.source, at_second) == ("b", "b.example", f"{settings.topics.duplicates}/1/0")
    (first, at_first), (second, at_second) = find_pair(settings, "a", "c", 0)
    assert at_first.startswith(f"{settings.topics.output}/1/")
    assert second.id == "c"
    with pytest.raises(InputError, match=r"has an item with the id 'z' since .* --in"):
        find_pair(settings, "a", "z", 0)
    shown = explain(settings, "a", "b")
    assert shown.exit_code == 0, shown.output
    assert f"found a at {settings.topics.input}/1/0, which the verdict names" in shown.output
    assert "duplicate" in shown.output
