"""A trial shows examples of each stage and of different originals, each with its reason."""

import re
from typing import Any

from stream_dedup.kafka.record_batch import Record
from stream_dedup.settings import load_settings
from stream_dedup.tools.topics.trial import EXAMPLES, Trial
from tests.harness.feed import START, article, made_up

TEXT = "The bridge over the Elm opened on Monday after two years of work, the mayor of the town said at noon."


def record(offset: int, value: bytes) -> Record:
    return Record("news", 0, offset, START + 60_000 * offset, None, value, ())


def test_who_looks_on_sees_the_items_that_the_trial_counts() -> None:
    seen: list[tuple[str, str, str]] = []

    def look(items: Any, verdicts: Any, place: Any) -> None:
        seen.extend(
            (item.id, str(verdict.kind), place(item.partition, item.offset))
            for item, verdict in zip(items, verdicts, strict=True)
        )

    with Trial(load_settings(), "news", look=look) as trial:
        trial.judge([record(7, article("a", "The bridge opened.")), record(8, article("a", "The bridge opened."))])
        assert trial.result().held_back == 1
    assert seen == [("a", "unique", "news/0/7"), ("a", "duplicate", "news/0/8")]


def test_examples_cover_different_originals_and_rare_stages() -> None:
    values = [value for _, value in made_up(18)]
    with Trial(load_settings(), "news") as trial:
        trial.judge([record(offset, value) for offset, value in enumerate(values)])
        others = trial.result()
    # One article fills the feed with its copies.
    values += [article(f"flood-{i}", TEXT, "Elm bridge opens", f"{i}.example") for i in range(300)]
    with Trial(load_settings(), "news") as trial:
        trial.judge([record(offset, value) for offset, value in enumerate(values)])
        result = trial.result()
    assert result.held_back >= 299
    assert 3 < len(others.examples) < EXAMPLES
    originals = [example.original.id for example in result.examples]
    assert originals.count("flood-0") == 1
    assert set(originals) == {one.original.id for one in others.examples} | {"flood-0"}
    assert {one.stage for one in result.examples} == set(result.stages), "no stage is left out"
    doubts = [one.doubt for one in result.examples]
    assert doubts == sorted(doubts), "the least doubtful first"
    assert doubts[0] < doubts[-1]
    flood = next(one for one in result.examples if one.original.id == "flood-0")
    assert flood.held_back.title == flood.original.title == "Elm bridge opens"
    assert flood.reason.startswith("the same text, ")
    assert flood.reason.endswith(" later")


def test_a_reason_counts_the_new_words() -> None:
    values = [
        article("1", TEXT, "Elm bridge opens"),
        article("2", f"{TEXT} Later two ferries and a brass band greeted them.", "Elm bridge opens", "b"),
    ]
    with Trial(load_settings(), "news") as trial:
        trial.judge([record(offset, value) for offset, value in enumerate(values)])
        [example] = trial.result().examples
    assert "1 minute later" in example.reason
    assert re.search(r"\d new words \(novelty 0\.[0-3]\d; let through from 0\.40 on\)", example.reason)


def test_what_the_rules_for_sources_let_through_is_counted() -> None:
    values = [
        article(name, TEXT, "Elm bridge opens", source)
        for name, source in zip("1234", ("a", "b", "c", "a"), strict=True)
    ]
    with Trial(load_settings(sources={"pass": ["a"], "prefer": ["b"], "ignore": ["c"]}), "news") as trial:
        trial.judge([record(offset, value) for offset, value in enumerate(values)])
        result = trial.result()
    assert (result.rules, result.held_back) == ({"prefer": 1, "ignore": 1, "pass": 1}, 0)
