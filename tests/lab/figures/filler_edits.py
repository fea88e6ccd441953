"""Pages of random words, and articles after them: nothing of an article is in such a page, so all of it is news.

A page with many words has a little of everything by chance, and a sketch of it seems to have more. Two cases: pages
under an article's own headline; and pages that end with a site's footer, chosen so that the index proposes them for
every article of that site.
"""

from functools import lru_cache
from random import Random

import numpy as np

from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from tests.lab.figures.news_edits import Made, MakeEdit
from tests.lab.figures.stories import WORD, Pool, Story

_WORDS = (300, 2_000, 9_000, 60_000)
_PAGES = (1, 2, 4, 8)
_SENTENCE = 12  # words, so that filler is prose
_FOOTER_PAGES, _FOOTER_WORDS = 12, 9_000
_STORIES = 50  # whose words filler is drawn from
_ROUNDS = 200


def filler(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The article after one to eight pages of 300 to 60,000 random words under its headline."""
    words = _vocabulary(pool)
    size = chance.choice(_WORDS)
    pages = tuple(
        (story.title, _prose(chance.choices(words, k=size), story.language)) for _ in range(chance.choice(_PAGES))
    )
    return Made(story.title, story.text, pages)


def footer(story: Story, pool: Pool, chance: Random) -> Made | None:
    """The article with a footer, after twelve pages of 9,000 random words that have the footer and its anchors."""
    if not story.phrases or story.language == "zh":
        return None
    end = story.phrases["newsletter"]
    pages = zip((other.title for other in pool.stories if other is not story), _footer_pages(pool, end), strict=False)
    return Made(story.title, f"{story.text}\n{end}", tuple(pages))


@lru_cache(maxsize=1)
def _vocabulary(pool: Pool) -> list[str]:
    words = [word for story in pool.stories[:_STORIES] for word in WORD.findall(story.text)]
    return words if pool.stories[0].language != "zh" else list("".join(words))


def _prose(words: list[str], language: str) -> str:
    join, mark = ("", "。") if language == "zh" else (" ", ". ")
    return mark.join(join.join(words[at : at + _SENTENCE]) for at in range(0, len(words), _SENTENCE)) + mark


@lru_cache(maxsize=1)
def _footer_pages(pool: Pool, end: str) -> list[str]:
    """Pages of filler, the footer behind it, of which the footer has the smallest anchor."""
    scheme = Scheme(load_settings().fingerprint)
    make, length = Fingerprinter(scheme), scheme.anchor_runs.last + scheme.shingle_widths.words
    chance, words, tail = Random(1), _vocabulary(pool), WORD.findall(end)

    def smallest_keys(texts: list[str]) -> np.ndarray:
        return make([Item("", "", text, "", 0) for text in texts]).keys[:, 0]

    least = int(smallest_keys([end])[0])
    pages = []
    for _ in range(_FOOTER_PAGES):
        page = chance.choices(words, k=_FOOTER_WORDS)
        asked = list(range(_FOOTER_WORDS))
        for _ in range(_ROUNDS):
            if not asked:
                break
            whole = page + tail
            keys = smallest_keys([" ".join(whole[at : at + length]) for at in asked])
            changed = [at for at, key in zip(asked, keys.tolist(), strict=True) if key <= least]
            for at in changed:
                page[min(at + length // 2, _FOOTER_WORDS - 1)] = chance.choice(words)
            near = range(-length, length + 1)
            asked = sorted({at + by for at in changed for by in near if 0 <= at + by < _FOOTER_WORDS})
        pages.append(" ".join(page) + ". " + end)
    return pages


FILLER: dict[str, MakeEdit] = {edit.__name__: edit for edit in (filler, footer)}
"""The edits with nothing but news, by kind."""
