"""Edits of real articles with known truth: what does the decision hold back of news, and let through of copies?

Labels of real pairs cannot show what is rare: a changed death toll among thousands of copies. Here an article of a
corpus is changed on purpose (news_edits.py, copy_edits.py), so that the truth is known. The sentences that are added
come from other articles of the same corpus. An edited article comes from another site an hour later, unless its kind
says otherwise.

    python -m tests.figures.edits DIR --count 25 [--novelty cautious] [--kind form] [--show 3] [--to edits.json]

judges each edit through a `Deduplicator` that knows 200 other items of the corpus, and prints what is held back.
"""

import argparse
import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from tests.figures.copy_edits import COPIES
from tests.figures.filler_edits import FILLER
from tests.figures.news_edits import NEWS as WITH_NEWS
from tests.figures.news_edits import Made
from tests.figures.stories import Pool, Story, language_of
from tests.figures.tables import share, table
from tests.labels.files import read_corpus

NEWS = {**WITH_NEWS, **FILLER}
KINDS = {**NEWS, **COPIES}
"""What makes an edit, by kind."""
CORPORA = (
    "webz_en_2023-12_2024-01",
    "webz_en_2025",
    "fang_covid_de_2020-01_2020-08",
    "webz_zh_2025-03_2025-06",
    "nepal_2026-03",
    "webz_multi",
    "rss_stream_2026-01-27_2026-01-30",
)
_OTHER_SITE = "other.example"
_POOL = 3_000  # items of a language: enough to know its common words and its sites' furniture, read in some seconds
_FEWEST = 12  # usable stories; with fewer, edits would repeat each other
_BACKGROUND = 200
_TRIES = 40  # stories for each edit: one in twenty headlines has a number that the text has, too
_MINUTE = 60_000
_START = 1_700_000_000_000


class Edit(NamedTuple):
    """An edited article. truth: `news` or `copy`; earlier: the article before, or the pages; later: the edited one.

    Items are records as in the corpus, with `id`, `title`, `text`, `source`, `url`, `lang`.
    """

    kind: str
    truth: str
    language: str
    earlier: list[dict[str, Any]]
    later: dict[str, Any]
    source_corpus: str


def edited(
    corpus_items: Sequence[Mapping[str, Any]], kinds: Iterable[str], seed: int, count: int, corpus: str = ""
) -> Iterator[Edit]:
    """Yield `count` edits of each kind and language, or fewer where few articles have what the kind changes.

    corpus_items: records of a corpus. An article serves a kind once. The same arguments yield the same edits.
    """
    by_language: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in corpus_items:
        by_language[language_of(record)].append(record)
    kinds = tuple(kinds)
    for language, records in by_language.items():
        chance = _chance(seed, corpus, language)
        pool = Pool(chance.sample(records, min(_POOL, len(records))))
        if len(pool.stories) >= _FEWEST:
            yield from edits_of(pool, kinds, seed, count, corpus)


def edits_of(pool: Pool, kinds: Iterable[str], seed: int, count: int, corpus: str = "") -> Iterator[Edit]:
    """Yield the edits of one language; see `edited`."""
    for kind in kinds:
        chance = _chance(seed, corpus, pool.stories[0].language, kind)
        tried = chance.sample(pool.stories, min(_TRIES * count, len(pool.stories)))
        found = 0
        for story in tried:
            made = KINDS[kind](story, pool, chance)
            if made and (made.earlier or (made.title, made.text) != (story.title, story.text)):
                yield _edit(kind, story, made, corpus)
                found += 1
                if found == count:
                    break


def _chance(*seeds: object) -> Random:
    return Random(zlib.crc32(" ".join(map(str, seeds)).encode()))


def _edit(kind: str, story: Story, made: Made, corpus: str) -> Edit:
    original = dict(story.record) | {"title": story.title, "text": story.text}
    pages = made.earlier or ((story.title, story.text),)
    earlier = [
        original | {"id": f"{original['id']}-before-{n}", "title": title, "text": text}
        for n, (title, text) in enumerate(pages)
    ]
    later = original | {"id": f"{original['id']}-{kind}", "title": made.title, "text": made.text}
    if made.same_id:
        later["id"] = earlier[0]["id"]
    if not made.same_site:
        later |= {"source": _OTHER_SITE, "url": f"https://{_OTHER_SITE}/{kind}/{original['id']}"}
    truth = "news" if kind in NEWS else "copy"
    return Edit(kind, truth, story.language, earlier, later, corpus)


# -- judging ----------------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """An edit, whether its later item is held back, and the novelty that was found."""

    edit: Edit
    is_held: bool
    novelty: float | None


def judged(pool: Pool, edits: Iterable[Edit], settings: Settings) -> Iterator[Judged]:
    """Judge each edit beside 200 items of the pool that are no stories, and no other edit.

    Left out is an edit of whose earlier pages all are held back.
    """
    decode = Decoder(settings.item)

    def item_of(record: Mapping[str, Any], minutes: int) -> Item:
        item = decode(json.dumps(record, ensure_ascii=False, default=str).encode(), None, None)
        if not isinstance(item, Item):
            raise TypeError(f"no item: {item}")
        return msgspec.structs.replace(item, time=_START + minutes * _MINUTE)

    background = Random(1).sample(pool.rest, min(_BACKGROUND, len(pool.rest)))
    with Deduplicator(settings) as dedup:
        dedup.apply(dedup.judge([item_of(record, n) for n, record in enumerate(background)]))
        for edit in edits:
            items = [item_of(record, len(background) + n) for n, record in enumerate(edit.earlier)]
            items.append(item_of(edit.later, len(background) + len(edit.earlier) + 60))
            *before, last = dedup.judge(items).verdicts
            if any(verdict.forward for verdict in before):
                yield Judged(edit, not last.forward, last.evidence.novelty if last.evidence else None)


def measured(folder: Path, kinds: Sequence[str], settings: Settings, seed: int, count: int) -> Iterator[Judged]:
    """Make and judge edits of all corpora of a folder."""
    for corpus in CORPORA:
        by_language: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for line in read_corpus(folder / f"{corpus}.jsonl.gz"):
            record = json.loads(line)
            by_language[language_of(record)].append(record)
        for language, records in by_language.items():
            pool = Pool(_chance(seed, corpus, language).sample(records, min(_POOL, len(records))))
            if len(pool.stories) >= _FEWEST:
                yield from judged(pool, edits_of(pool, kinds, seed, count, corpus), settings)


def counts(found: Iterable[Judged]) -> dict[str, dict[str, list[int]]]:
    """Count {kind: {language: [held back, judged]}}."""
    counted: dict[str, dict[str, list[int]]] = {}
    for edit, is_held, _ in found:
        of_language = counted.setdefault(edit.kind, {}).setdefault(edit.language, [0, 0])
        of_language[0] += is_held
        of_language[1] += 1
    return counted


def held_table(counted: Mapping[str, Mapping[str, Sequence[int]]]) -> str:
    """Render the counts as Markdown: the share held back of each kind, in all and by language."""
    languages = list(dict.fromkeys(language for of_kind in counted.values() for language in of_kind))
    rows = []
    for truth, kinds in (("news", NEWS), ("copy", COPIES)):
        for kind in (kind for kind in kinds if kind in counted):
            of_kind = counted[kind]
            held, judged_ = (sum(column) for column in zip(*of_kind.values(), strict=True))
            cells = [f"{of_kind[one][0]}/{of_kind[one][1]}" if one in of_kind else "–" for one in languages]
            rows.append([kind, truth, share(held / judged_, 2), str(judged_), *cells])
    return table(["edit", "truth", "held back", "edits", *languages], rows)


def main() -> None:
    """Make edits of real articles with known truth, and judge them."""
    parser = argparse.ArgumentParser(prog="python -m tests.figures.edits", description=main.__doc__)
    parser.add_argument("corpora", metavar="DIR", type=Path, help="corpora (NAME.jsonl.gz)")
    parser.add_argument("--count", type=int, default=25, help="edits of each kind, corpus and language")
    parser.add_argument("--novelty", default=None, help="decision.novelty, if not the default")
    parser.add_argument("--kind", action="append", choices=KINDS, help="a kind; may be repeated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", type=Path, help="write the counts here, as JSON")
    parser.add_argument("--edits", type=Path, help="write the edits and their verdicts here, as JSON Lines")
    given = parser.parse_args()
    settings = load_settings(**({"decision": {"novelty": given.novelty}} if given.novelty else {}))
    found = list(measured(given.corpora, given.kind or tuple(KINDS), settings, given.seed, given.count))
    counted = counts(found)
    print(held_table(counted))
    if given.to:
        given.to.write_text(json.dumps(counted, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if given.edits:
        with given.edits.open("w", encoding="utf-8") as lines:
            for edit, is_held, novelty in found:
                row = edit._asdict() | {"held": is_held, "novelty": novelty}
                lines.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")


if __name__ == "__main__":
    main()
