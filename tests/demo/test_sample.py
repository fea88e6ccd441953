"""The made-up feed is the same each time, in order of time, and its kinds are what they claim to be."""

import json
import re
from collections import Counter
from datetime import datetime
from itertools import combinations

from stream_dedup.demo.sample import LANGUAGES, sample_feed, sample_records
from stream_dedup.demo.story import Bank

FEED = list(sample_feed())


def shingles(text: str) -> set[tuple[str, ...]]:
    """Word 3-shingles; 5-shingles of characters for Chinese."""
    words, n = re.findall(r"\w+", text.lower()), 3
    if any("一" <= c <= "鿿" for c in text):
        words, n = [c for c in text if c.isalnum()], 5
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}


def jaccard(a: set[tuple[str, ...]], b: set[tuple[str, ...]]) -> float:
    return len(a & b) / len(a | b)


def test_the_same_seed_gives_the_same_feed_and_another_seed_another() -> None:
    assert list(sample_feed()) == FEED
    assert list(sample_feed(30)) == FEED[:30]
    assert list(sample_feed(30, seed=8)) != FEED[:30]


def test_it_has_all_kinds_and_languages_in_the_order_of_time() -> None:
    kinds = Counter(item["kind"] for item in FEED)
    assert len(FEED) == 400
    assert set(kinds) == {"fresh", "report", "template", "copy", "cut", "boilerplate", "update"}
    assert min(kinds.values()) >= 8
    times = [datetime.fromisoformat(item["published"]) for item in FEED]
    assert times == sorted(times)
    hosts = {item["source"] for item in FEED}
    for language in LANGUAGES:
        assert hosts & {host for host, _ in Bank(language, None).sites()}  # type: ignore[arg-type]


def test_only_an_update_repeats_an_id_and_it_has_other_content() -> None:
    seen: dict[str, dict[str, str]] = {}
    for item in FEED:
        if item["kind"] == "update":
            first = seen[item["id"]]
            assert first["url"] == item["url"]
            assert first["text"] != item["text"]
        else:
            assert item["id"] not in seen
        seen[item["id"]] = item


def test_every_item_is_a_whole_one() -> None:
    for item in FEED:
        assert set(item) == {"id", "title", "text", "source", "url", "published", "kind"}
        assert all(item.values())
        assert not set("<>{}") & set(item["title"] + item["text"])  # no pattern left unfilled
        assert item["source"].endswith(".example")  # reserved: nobody's site


def test_different_stories_are_different_and_notices_are_alike() -> None:
    unlike = [shingles(item["text"]) for item in FEED if item["kind"] in {"fresh", "report"}]
    assert max(jaccard(a, b) for a, b in combinations(unlike, 2)) < 0.25
    notices = [(item["source"], shingles(item["text"])) for item in FEED if item["kind"] == "template"]
    same_form = [jaccard(a, b) for (x, a), (y, b) in combinations(notices, 2) if x == y]
    # Near enough that a bound on Jaccard alone would hold some of them back.
    assert min(same_form) > 0.3
    assert max(same_form) > 0.7


def test_copies_stand_on_other_sites_and_hold_the_story() -> None:
    originals = [item for item in FEED if item["kind"] == "fresh"]
    for item in FEED:
        if item["kind"] in {"copy", "cut", "boilerplate"}:
            mine = shingles(item["text"])
            held = max(
                len(mine & theirs) / min(len(mine), len(theirs))
                for original in originals
                if original["source"] != item["source"]
                for theirs in [shingles(original["text"])]
            )
            assert held > 0.5, item


def test_records_are_the_feed_with_a_few_broken_ones_among_them() -> None:
    records = list(sample_records(400))
    assert records == list(sample_records(400))
    broken = 0
    for (key, value), item in zip(records, FEED, strict=True):
        assert key is None or key.decode() == item["id"]
        try:
            broken += json.loads(value) != item
        except ValueError:  # not JSON, or not UTF-8
            broken += 1
    assert broken == 10
    assert any(key is None for key, _ in records)
