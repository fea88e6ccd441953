"""The synthetic feed is reproducible and in order of time, and its items are of the kind that they state."""

import json
import re
from collections import Counter
from datetime import datetime
from itertools import combinations

from stream_dedup.tools.demo.newsroom import LANGUAGES, Bank, sample_feed, sample_records

FEED = list(sample_feed())


def shingles(text: str) -> set[tuple[str, ...]]:
    """Return the word 3-shingles; for Chinese the 5-shingles of characters."""
    words, length = re.findall(r"\w+", text.lower()), 3
    if any("一" <= c <= "鿿" for c in text):
        words, length = [c for c in text if c.isalnum()], 5
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def jaccard(left: set[tuple[str, ...]], right: set[tuple[str, ...]]) -> float:
    return len(left & right) / len(left | right)


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
    items_by_id: dict[str, dict[str, str]] = {}
    for item in FEED:
        if item["kind"] == "update":
            first = items_by_id[item["id"]]
            assert first["url"] == item["url"]
            assert first["text"] != item["text"]
        else:
            assert item["id"] not in items_by_id
        items_by_id[item["id"]] = item


def test_every_item_is_complete() -> None:
    for item in FEED:
        assert set(item) == {"id", "title", "text", "source", "url", "published", "kind"}
        assert all(item.values())
        assert not set("<>{}") & set(item["title"] + item["text"])  # no pattern left unfilled
        assert item["source"].endswith(".example")  # a reserved domain


def test_stories_differ_and_notices_of_a_site_are_similar() -> None:
    stories = [shingles(item["text"]) for item in FEED if item["kind"] in {"fresh", "report"}]
    assert max(jaccard(left, right) for left, right in combinations(stories, 2)) < 0.25
    notices = [(item["source"], shingles(item["text"])) for item in FEED if item["kind"] == "template"]
    same_form = [jaccard(one[1], other[1]) for one, other in combinations(notices, 2) if one[0] == other[0]]
    # Similar enough that a threshold on Jaccard similarity alone would hold some of them back.
    assert 0.3 < min(same_form) < 0.7 < max(same_form)


def test_copies_are_on_other_sites_and_contain_the_story() -> None:
    originals = [(item["source"], shingles(item["text"])) for item in FEED if item["kind"] == "fresh"]
    for item in FEED:
        if item["kind"] in {"copy", "cut", "boilerplate"}:
            own, others = shingles(item["text"]), [words for source, words in originals if source != item["source"]]
            assert max(len(own & words) / min(len(own), len(words)) for words in others) >= 0.5, item


def test_records_are_the_feed_with_some_broken_ones() -> None:
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
