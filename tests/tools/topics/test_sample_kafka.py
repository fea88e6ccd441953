"""A sample from the topics of a real worker has its decisions as pairs, and evaluate reads the labels."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka import TopicPartition

from stream_dedup.cli.main import app
from stream_dedup.errors import TopicError
from stream_dedup.settings import Settings
from stream_dedup.tools.evaluate.sampling import from_kafka
from stream_dedup.tools.topics.reader import TopicReader
from tests.harness.check import header, outcome
from tests.harness.feed import feed, made_up
from tests.harness.topics import Make, administrator, variables_of
from tests.worker.support import run_until

pytestmark = pytest.mark.kafka
TEXT = "The bridge over the Elm opened on Monday after two years of work, the mayor of the town said at noon."


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runner's keys count as a terminal's."""
    monkeypatch.setattr("stream_dedup.tools.cli.measure._has_terminal", lambda: True)


def run(*args: str, keys: str = "", **env: str) -> str:
    result = CliRunner(env=env).invoke(app, args, input=keys, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.slow
def test_labels_of_a_sample_give_the_precision(make: Make, tmp_path: Path) -> None:
    settings = make(2)
    records: list[tuple[bytes, bytes]] = list(made_up(150))
    # The key is the id, and the value has several lines.
    for name, source in ((b"k-1", "a.example"), (b"k-2", "b.example")):
        records.append(
            (name, json.dumps({"title": "Elm bridge opens", "text": TEXT, "source": source}, indent=1).encode())
        )
    sent = feed(settings, records, partition=1)
    run_until(settings, len(sent))
    came = outcome(settings)
    held = {record.key.decode(): header(record, "dedup-original") for record in came.duplicates}
    folder = tmp_path / "sample"
    printed = run("sample", str(folder), "--count", "1000", keys="sn" * len(held), **variables_of(settings))
    assert f"{len(held)} pairs drawn from {len(held)} decisions." in printed
    assert "estimated with weights: 1.000" in " ".join(printed.split())
    pairs: list[dict[str, Any]] = [
        json.loads(line) for line in (folder / "pairs.jsonl").read_text("utf-8").splitlines()
    ]
    assert {pair["later"]["id"]: pair["earlier"]["id"] for pair in pairs} == held
    assert held["k-2"] == "k-1"
    values = {record.key.decode(): json.loads(record.value) for record in [*came.output, *came.duplicates]}
    for pair in pairs:
        for side in (pair["earlier"], pair["later"]):
            assert (side["title"], side["text"]) == (values[side["id"]]["title"], values[side["id"]]["text"])
    evaluated = run("evaluate", str(folder / "corpus.jsonl"), "--labels", str(folder / "labels.jsonl"), "--json")
    found = json.loads(evaluated)
    assert (found["agreement"]["all"]["pairs"], found["agreement"]["all"]["precision"]) == (len(held), 1.0)
    assert found["agreement"]["all"]["recall"] > 0.9, "judged again among fewer items: nearly all the same"

    # Pairs whose records the input topic has deleted are not drawn, but counted.
    middle = sent[100].offset
    with administrator(settings) as admin:
        admin.delete_records({TopicPartition(settings.topics.input, 1): middle})
    later = from_kafka(settings, 5, 1)
    assert later.lost > 0
    assert later.decisions + later.lost == len(held)
    assert len(later.pairs) == 5
    assert sum(pair.weight for pair in later.pairs) == pytest.approx(later.decisions)
    assert from_kafka(settings, 5, 1).pairs == later.pairs, "one seed, one sample"


def test_single_records_are_read_by_partition_and_offset(settings: Settings) -> None:
    sent = feed(settings, made_up(20))
    topic = settings.topics.input
    with TopicReader(settings) as reader:
        found = reader.at(topic, [(0, 7), (0, 3), (0, 3), (0, 20), (5, 0)])
        assert {place: record.key for place, record in found.items()} == {(0, 3): sent[3].key, (0, 7): sent[7].key}
        assert [record.offset for record in reader.all(topic)] == list(range(20))
        assert reader.beginnings(topic) == {0: 0}
        with pytest.raises(TopicError, match="there is no topic nowhere"):
            list(reader.all("nowhere"))
