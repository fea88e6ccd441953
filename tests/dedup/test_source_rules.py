"""Rules for sources: `pass` is never held back, `ignore` does not count, `prefer` goes out once more."""

from collections.abc import Mapping, Sequence

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.source_rules import rule_of
from stream_dedup.dedup.verdict import Stage, Verdict
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import load_settings
from stream_dedup.tools.wording import describe_verdict
from tests.dedup.world import HOUR, START, judged, original_of
from tests.dedup.world import story as article


def story(name: str, source: str, hour: int = 0, more: str = "") -> Item:
    one = article(name, 1, source, hour, more)
    return Item.of(id=name, title=one.title, text=one.text, source=source, time=one.time)


def fate(verdicts: Sequence[Verdict]) -> list[tuple[str, str | None, bool, str]]:
    return [(str(one.kind), original_of(one), one.forward, rule_of(one.reason)) for one in verdicts]


def judge(
    items: Sequence[Item | Tombstone],
    policy: Mapping[str, str] | None = None,
    size: int = 1,
    **sources: Sequence[str],
) -> list[Verdict]:
    with Decider(load_settings(sources=sources, policy=dict(policy or {}))) as dedup:
        return judged(dedup, items, size)


SENT = [story(f"{hour + 1}", f"{name}.example", hour) for hour, name in enumerate(("a", "wire", "b", "wire"))]
UNIQUE = ("unique", None, True, "")
HELD = [UNIQUE, *[("duplicate", "1", False, "")] * 3]


def test_a_source_that_passes_is_never_held_back_and_changes_nothing_else() -> None:
    assert fate(judge(SENT)) == HELD
    passed = ("duplicate", "1", True, "pass")
    verdicts = judge(SENT, **{"pass": ["wire.example"]})
    assert fate(verdicts) == [HELD[0], passed, HELD[2], passed]
    assert verdicts[1].stage is Stage.POLICY
    assert verdicts[1].evidence == judge(SENT)[1].evidence
    assert describe_verdict(verdicts[1]).startswith("Let through: its source is never held back")
    own = fate(judge(SENT[1:], **{"pass": ["wire.example"]}))
    assert own == [UNIQUE, ("duplicate", "2", False, ""), ("duplicate", "2", True, "pass")], "it is remembered"


def test_an_ignored_source_is_neither_compared_nor_remembered() -> None:
    ignored = ("unique", None, True, "ignore")
    verdicts = judge([SENT[1], *SENT], ignore=["wire.example"])
    assert fate(verdicts) == [ignored, HELD[0], ignored, HELD[2], ignored]
    assert verdicts[2].nearest is verdicts[2].evidence is None
    assert fate(judge([Item("1", "!", "", "wire.example", 0)], ignore=["wire.example"])) == [ignored], "an image, say"
    assert not judge([Item("1", "!", "", "wire.example", 0)], **{"pass": ["wire.example"]})[0].forward


@pytest.mark.parametrize("size", [1, 99])
@pytest.mark.parametrize("updates", ["compare", "forward", "drop"])
def test_a_preferred_source_goes_out_once_more_as_an_update_and_is_remembered(updates: str, size: int) -> None:
    items = [*SENT, story("5", "c.example", 4), story("6", "a.example", 5), story("7", "other.example", 6)]
    preferred = ["wire.example", "other.example"]
    withdrawn = [*items, Tombstone("1", START + 7 * HOUR), story("8", "d.example", 8), story("9", "wire.example", 9)]
    verdicts = judge(withdrawn, {"updates": updates}, size, prefer=preferred)
    assert fate(verdicts)[:2] == [HELD[0], ("update", "1", True, "prefer")]
    assert [one.forward for one in verdicts[2:7]] == [False] * 5, "of any source, also of another preferred one"
    assert fate(verdicts)[8:] == [("duplicate", "2", False, "")] * 2, "the preferred one stays"
    assert verdicts[1].stage is Stage.POLICY
    assert verdicts[1].evidence is not None
    assert (verdicts[1].evidence.body, verdicts[1].evidence.adds) == (1.0, "")
    assert fate(judge([SENT[1], SENT[0], SENT[3]], prefer=preferred))[1:] == [("duplicate", "2", False, "")] * 2


def test_the_most_exact_name_counts_whatever_the_case() -> None:
    rules = {"pass": ["WIRE.example"], "ignore": ["www.Ads.wire.example"], "prefer": ["Elm Valley Wire"]}
    sources = [
        "https://sport.wire.example/7", "https://www.wire.example", "https://b.ads.wire.example/7", "wire.example.com",
        "ELM valley wire", "example",
    ]  # fmt: skip
    with Decider(load_settings(sources=rules)) as dedup, Decider() as plain:
        prepared = dedup.prepare([story(str(n), source) for n, source in enumerate(sources)])
        assert plain.scheme_id == dedup.scheme_id
    assert prepared.rules == ["pass", "pass", "ignore", "", "prefer", ""]
