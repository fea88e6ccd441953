"""Rules for sources: `pass` is never held back, `ignore` does not count, `prefer` goes out once more."""

from collections.abc import Mapping, Sequence

import pytest

from stream_dedup.changelog.block import decode
from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.dedup.sources import rule_of
from stream_dedup.dedup.verdict import Stage, Verdict, describe_verdict
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import load_settings
from tests.batch.feed import prose
from tests.dedup.world import HOUR, judged, original_of


def story(name: str, source: str, hour: int = 0, more: str = "", number: int = 1) -> Item:
    return Item.of(
        id=name,
        title=prose(-number, 8),
        text=f"{prose(number)}. {more}",
        source=source,
        time=1_700_000_000_000 + hour * HOUR,
    )


def fate(verdicts: Sequence[Verdict]) -> list[tuple[str, str | None, bool, str]]:
    return [(str(one.kind), original_of(one), one.forward, rule_of(one.reason)) for one in verdicts]


def judge(
    items: Sequence[Item | Tombstone],
    policy: Mapping[str, str] | None = None,
    size: int = 1,
    **sources: Sequence[str],
) -> list[Verdict]:
    with Deduplicator(load_settings(sources=sources, policy=dict(policy or {}))) as dedup:
        return judged(dedup, items, size)


SENT = [
    story("1", "a.example"),
    story("2", "wire.example", 1),
    story("3", "b.example", 2),
    story("4", "wire.example", 3),
]
HELD = [("unique", None, True, ""), *[("duplicate", "1", False, "")] * 3]


def test_a_source_that_passes_is_never_held_back_and_changes_nothing_else() -> None:
    assert fate(judge(SENT)) == HELD
    passed = ("duplicate", "1", True, "pass")
    verdicts = judge(SENT, **{"pass": ["wire.example"]})
    assert fate(verdicts) == [HELD[0], passed, HELD[2], passed]
    assert verdicts[1].stage is Stage.POLICY
    assert verdicts[1].evidence == judge(SENT)[1].evidence
    assert describe_verdict(verdicts[1]).startswith("Let through: its source is never held back")
    again = judge(
        [*SENT, SENT[1], story("1", "wire.example", 4, f"{prose(2, 60)}.")],
        {"updates": "drop"},
        **{"pass": ["wire.example"]},
    )
    assert fate(again[4:]) == [passed, ("update", "1", True, "pass")], "sent again, and against policy.updates = drop"


def test_its_originals_are_remembered() -> None:
    assert fate(judge(SENT[1:], **{"pass": ["wire.example"]})) == [
        ("unique", None, True, ""), ("duplicate", "2", False, ""), ("duplicate", "2", True, "pass"),
    ]  # fmt: skip


def test_an_ignored_source_is_neither_compared_nor_remembered() -> None:
    ignored = ("unique", None, True, "ignore")
    verdicts = judge([SENT[1], *SENT], ignore=["wire.example"])
    assert fate(verdicts) == [ignored, HELD[0], ignored, HELD[2], ignored]
    assert verdicts[2].nearest is verdicts[2].evidence is None
    with Deduplicator(load_settings(sources={"ignore": ["wire.example"]})) as dedup:
        judged(dedup, [SENT[1], SENT[3]])
        assert len(dedup) == 0
    assert fate(judge([Item("1", "!", "", "wire.example", 0)], ignore=["wire.example"])) == [ignored], "an image, say"
    assert not judge([Item("1", "!", "", "wire.example", 0)], **{"pass": ["wire.example"]})[0].forward


@pytest.mark.parametrize("size", [1, 99])
@pytest.mark.parametrize("updates", ["compare", "forward", "drop"])
def test_a_preferred_source_goes_out_once_more_as_an_update(updates: str, size: int) -> None:
    items = [*SENT, story("5", "c.example", 4), story("6", "a.example", 5), story("7", "other.example", 6)]
    verdicts = judge(items, {"updates": updates}, size, prefer=["wire.example", "other.example"])
    assert fate(verdicts)[:2] == [HELD[0], ("update", "1", True, "prefer")]
    assert [one.forward for one in verdicts[2:]] == [False] * 5, "of any source, also of another preferred one"
    assert verdicts[1].stage is Stage.POLICY
    assert verdicts[1].evidence is not None
    assert (verdicts[1].evidence.body, verdicts[1].evidence.adds) == (1.0, "")


def test_the_version_of_a_preferred_source_is_remembered() -> None:
    """Copies of what it alone has are held back, also after the first one is withdrawn, and after a restore."""
    settings, blocks = load_settings(sources={"prefer": ["wire.example"]}), list[bytes]()
    with Deduplicator(settings) as dedup, Deduplicator(settings) as restored:
        judged(dedup, [*SENT[:2], Tombstone("1", 1_700_000_000_000 + 2 * HOUR)], blocks=blocks)
        for one in blocks:
            restored.restore(decode(one, dedup.scheme_id, dedup.scheme.signature_dtype))
        later = [story("8", "wire.example", 3), story("9", "d.example", 4)]
        for each in (dedup, restored):
            assert fate(judged(each, later)) == [("duplicate", "2", False, "")] * 2


def test_a_preferred_source_that_was_first_does_not_repeat() -> None:
    assert fate(judge([SENT[1], SENT[0], SENT[3]], prefer=["wire.example"])) == [
        ("unique", None, True, ""), ("duplicate", "2", False, ""), ("duplicate", "2", False, ""),
    ]  # fmt: skip


def test_a_later_version_of_a_preferred_source_with_news_is_an_ordinary_update() -> None:
    news = f"{prose(50, 60)}. {prose(51, 60)}."
    [*_, last] = judge([*SENT[:2], story("2", "wire.example", 3, news)], prefer=["wire.example"])
    assert (str(last.kind), last.forward, rule_of(last.reason)) == ("update", True, "")


def test_the_most_exact_name_counts_whatever_the_case() -> None:
    rules = {"pass": ["WIRE.example"], "ignore": ["www.Ads.wire.example"], "prefer": ["Elm Valley Wire"]}
    sources = [
        "https://sport.wire.example/7", "https://www.wire.example", "https://b.ads.wire.example/7", "wire.example.com",
        "ELM valley wire", "example",
    ]  # fmt: skip
    with Deduplicator(load_settings(sources=rules)) as dedup:
        prepared = dedup.prepare([story(str(n), source) for n, source in enumerate(sources)])
    assert prepared.rules == ["pass", "pass", "ignore", "", "prefer", ""]


def test_rules_make_no_other_scheme() -> None:
    with Deduplicator() as plain, Deduplicator(load_settings(sources={"ignore": ["a.example"]})) as ruled:
        assert plain.scheme_id == ruled.scheme_id
