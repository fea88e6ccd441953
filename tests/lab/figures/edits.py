"""Edits of real articles with known truth: what does the decision hold back of news, and let through of copies?

Labels of real pairs cannot show what is rare: a changed death toll among thousands of copies. Here an article of a
corpus is changed on purpose (news_edits.py, copy_edits.py), so that the truth is known. The sentences that are added
come from other articles of the same corpus. An edited article comes from another site an hour later, unless its kind
says otherwise.

    python -m tests.lab.figures.edits DIR [--count 25] [--novelty cautious] [--kind form] [--to FILE] [--edits FILE]

judges each edit through a `Decider` that knows 200 other items of the corpus, and prints what is held back. As a
section of `make figures` it measures each name of `decision.novelty`, for docs/decision.md.
"""

import argparse
import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec

from stream_dedup.dedup.decider import Decider
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from stream_dedup.settings.judging import NOVELTY_NAMES, NOVELTY_PROMISES
from tests.lab.figures.copy_edits import COPIES
from tests.lab.figures.families import Tables
from tests.lab.figures.filler_edits import FILLER
from tests.lab.figures.news_edits import NEWS as WITH_NEWS
from tests.lab.figures.news_edits import Made
from tests.lab.figures.small_edits import SMALL
from tests.lab.figures.stories import Pool, Story, language_of
from tests.lab.figures.tables import share, table
from tests.lab.labels.files import read_corpus

NEWS = {**WITH_NEWS, **FILLER, **SMALL}
KINDS = {**NEWS, **COPIES}
"""What makes an edit, by kind."""
_KINDS_IN_WORDS = {kind: (make.__doc__ or kind).split(".")[0].replace("\n    ", " ") for kind, make in KINDS.items()}
CORPORA = (
    "webz_en_2023-12_2024-01",
    "webz_en_2025",
    "fang_covid_de_2020-01_2020-08",
    "webz_zh_2025-03_2025-06",
    "nepal_2026-03",
    "italy_2020-02_2020-04",
    "arabic_2012-10_2018-05",
    "webz_multi",
    "rss_stream_2026-01-27_2026-01-30",
)
LANGUAGES = {
    "en": "English",
    "de": "German",
    "zh": "Chinese",
    "ne": "Nepali",
    "it": "Italian",
    "ar": "Arabic",
    "": "seven others",
}
"""The rows of README's table. The seven others are in one small corpus."""
EDITED: dict[str, Tables] = {name: {"decision": {"novelty": name}} for name in NOVELTY_NAMES}
"""The settings that are measured, by name."""
COUNT = 10
"""Edits of each kind, corpus and language that are measured: a share of a kind is then known to .04."""
_OTHER_SITE = "other.example"
_POOL = 1_000  # items of a language: enough to know its common words and its sites' boilerplate
_FEWEST = 12  # usable stories; with fewer, edits would repeat each other
_BACKGROUND = 200
_TRIES = 40  # stories for each edit: one in twenty headlines has a number that the text has, too
_SEED = 1
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
    kinds = tuple(kinds)
    for pool in pools(corpus_items, seed, corpus):
        yield from edits_of(pool, kinds, seed, count, corpus)


def pools(corpus_items: Iterable[Mapping[str, Any]], seed: int, corpus: str) -> Iterator[Pool]:
    """Yield the pool of each language of a corpus that has enough stories."""
    by_language: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in corpus_items:
        by_language[language_of(record)].append(record)
    for language, records in by_language.items():
        pool = Pool(_chance(seed, corpus, language).sample(records, min(_POOL, len(records))))
        if len(pool.stories) >= _FEWEST:
            yield pool


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
    """An edit. held: whether its later item is held back, by name of the settings; novelty: by the first of them."""

    edit: Edit
    held: dict[str, bool]
    novelty: float | None


def background_of(pool: Pool, decode: Decoder) -> list[Item]:
    """The 200 items that come before each edit, so that the boilerplate of their sites is known."""
    return [_item_of(record, n, decode) for n, record in enumerate(pool.rest_of(_BACKGROUND))]


def items_of(edit: Edit, decode: Decoder) -> list[Item]:
    """The earlier pages of an edit, and the edited article an hour later."""
    items = [_item_of(record, _BACKGROUND + n, decode) for n, record in enumerate(edit.earlier)]
    return [*items, _item_of(edit.later, _BACKGROUND + len(edit.earlier) + 60, decode)]


def _item_of(record: Mapping[str, Any], minutes: int, decode: Decoder) -> Item:
    item = decode(json.dumps(record, ensure_ascii=False, default=str).encode(), None, None)
    if not isinstance(item, Item):
        raise TypeError(f"no item: {item}")
    return msgspec.structs.replace(item, time=_START + minutes * _MINUTE)


def judged(pool: Pool, edits: Iterable[Edit], settings: Mapping[str, Settings]) -> Iterator[Judged]:
    """Judge each edit beside 200 items of the pool that are no stories, and no other edit.

    Left out is an edit of whose earlier pages all are held back.
    """
    decode = Decoder(next(iter(settings.values())).item)
    background = background_of(pool, decode)
    with ExitStack() as stack:
        dedups = {name: stack.enter_context(Decider(one)) for name, one in settings.items()}
        for dedup in dedups.values():
            dedup.apply(dedup.judge(background))
        for edit in edits:
            prepared = next(iter(dedups.values())).prepare(items_of(edit, decode))
            verdicts = {name: dedup.judge(prepared).verdicts for name, dedup in dedups.items()}
            if all(any(one.forward for one in of_name[:-1]) for of_name in verdicts.values()):
                evidence = next(iter(verdicts.values()))[-1].evidence
                held = {name: not of_name[-1].forward for name, of_name in verdicts.items()}
                yield Judged(edit, held, evidence.novelty if evidence else None)


def measured(
    lines_of: Callable[[str], Iterable[bytes]], kinds: Sequence[str], settings: Mapping[str, Settings], count: int
) -> Iterator[Judged]:
    """Make and judge edits of all corpora. lines_of: the lines of a corpus, by its name."""
    for corpus in CORPORA:
        records = list(map(json.loads, lines_of(corpus)))
        for pool in pools(records, _SEED, corpus):
            yield from judged(pool, edits_of(pool, kinds, _SEED, count, corpus), settings)


Counted = dict[str, dict[str, list[int]]]
"""{kind: {language: [held back, judged]}}"""


def counts(found: Iterable[Judged]) -> dict[str, Counted]:
    """Count what is held back, by name of the settings."""
    counted: dict[str, Counted] = {}
    for edit, held, _ in found:
        for name, is_held in held.items():
            of_language = counted.setdefault(name, {}).setdefault(edit.kind, {}).setdefault(edit.language, [0, 0])
            of_language[0] += is_held
            of_language[1] += 1
    return counted


def by_name(counted: Mapping[str, Counted]) -> str:
    """Render the share of each kind that is held back, by name of the settings, as Markdown."""
    rows = []
    for kind, what in _KINDS_IN_WORDS.items():
        if any(kind in of_name for of_name in counted.values()):
            sums = [_sum(of_name[kind].values()) for of_name in counted.values()]
            shares = [share(held / judged_, 2) for held, judged_ in sums]
            rows.append([what, "news" if kind in NEWS else "a copy", f"{sums[0][1]:,}", *shares])
    return table(["edit", "truth", "edits", *counted], rows)


def by_language(counted: Counted) -> str:
    """Render the share of each kind that is held back, by language, as Markdown. The last two rows are of all kinds."""
    found = Counter(
        {
            one: sum(of_kind.get(one, (0, 0))[1] for of_kind in counted.values())
            for of_kind in counted.values()
            for one in of_kind
        }
    )
    languages = [language for language, _ in found.most_common()]
    kinds = [kind for kind in KINDS if kind in counted]
    rows = [[kind, *(_share(counted[kind].get(language)) for language in languages)] for kind in kinds]
    for name, of_truth in (("**all news**", NEWS), ("**all copies**", COPIES)):
        of_kinds = [counted[kind] for kind in kinds if kind in of_truth]
        sums = [_sum(of_kind.get(language, (0, 0)) for of_kind in of_kinds) for language in languages]
        rows.append([name, *map(_share, sums)])
    return table(["edit", *languages], rows)


def row_of(language: str) -> str:
    """The row of README's table that a language stands in, a key of `LANGUAGES`."""
    return language if language in LANGUAGES else ""


def held_of_news(counted: Counted, row: str | None = None) -> float:
    """The share of all edits with news that is held back; row: of `LANGUAGES`, default all."""
    of_news = [of_kind.items() for kind, of_kind in counted.items() if kind in NEWS]
    held, judged_ = _sum(count for one in of_news for language, count in one if row in (None, row_of(language)))
    return held / judged_


_SHOWN = {
    "all news held": tuple(NEWS),
    **{"a lead": ("lead",), "a figure": ("figure", "amount"), "a form": ("form",), "two sentences": ("append",)},
}
"""Columns of the table of names: the kinds of edits of each."""


def names(of_readers: Mapping[str, Mapping[str, float]], counted: Mapping[str, Counted]) -> str:
    """What each name of `decision.novelty` promises, with measured shares, as Markdown. of_readers: rates by name."""
    rows = []
    for name, of_name in counted.items():
        promise = NOVELTY_PROMISES[name].split(" Measured:")[0]
        sums = [_sum(c for kind in kinds for c in of_name.get(kind, {}).values()) for kinds in _SHOWN.values()]
        rates = [share(of_readers[name][rate]) for rate in ("missed", "repeated")]
        rows.append([f"`{name}`", share(NOVELTY_NAMES[name], 2), promise, *map(_share, sums), *rates])
    return table(["name", "`novelty`", "promise", *_SHOWN, "missed", "repeated"], rows)


def quality(of_readers: Mapping[str, Mapping[str, float]], counted: Counted) -> str:
    """Missed and repeated at the default, and what is held back of the edits with news, by language, as Markdown.

    of_readers: rates by row of `LANGUAGES`.
    """
    rows = []
    for row, name in LANGUAGES.items():
        found = of_readers[row]
        rows.append([name, share(found["missed"]), share(found["repeated"]), share(held_of_news(counted, row), 2)])
    return table(["language", "missed", "repeated", "news held"], rows)


def _sum(counts: Iterable[Sequence[int]]) -> tuple[int, int]:
    held, judged_ = (sum(column) for column in zip((0, 0), *counts, strict=True))
    return held, judged_


def _share(count: Sequence[int] | None) -> str:
    return share(count[0] / count[1], 2) if count and count[1] else "–"


def main() -> None:
    """Make edits of real articles with known truth, and judge them."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.figures.edits", description=main.__doc__)
    parser.add_argument("corpora", metavar="DIR", type=Path, help="corpora (NAME.jsonl.gz)")
    parser.add_argument("--count", type=int, default=COUNT, help="edits of each kind, corpus and language")
    parser.add_argument("--novelty", action="append", help="a value of decision.novelty; may be repeated")
    parser.add_argument("--kind", action="append", choices=KINDS, help="a kind; may be repeated")
    parser.add_argument("--to", type=Path, help="write the counts here, as JSON")
    parser.add_argument("--edits", type=Path, help="write the edits and their verdicts here, as JSON Lines")
    given = parser.parse_args()
    settings = {name: load_settings(decision={"novelty": name}) for name in given.novelty or NOVELTY_NAMES}
    found = []
    with given.edits.open("w", encoding="utf-8") if given.edits else nullcontext() as lines:
        kinds = given.kind or tuple(KINDS)
        for one in measured(lambda name: read_corpus(given.corpora / f"{name}.jsonl.gz"), kinds, settings, given.count):
            found.append(one._replace(edit=one.edit._replace(earlier=[], later={})))
            if lines:
                row = one.edit._asdict() | {"held": one.held, "novelty": one.novelty}
                lines.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
    counted = counts(found)
    print(by_name(counted))
    for name, of_name in counted.items():
        print(f"\n{name}\n\n{by_language(of_name)}")
    if given.to:
        given.to.write_text(json.dumps(counted, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
