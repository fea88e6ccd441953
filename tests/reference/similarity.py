"""What a pair of items has in common, and what the new one has that the known one lacks.

A `Similar` rounds what is stored in it to 32 bits. Everything else is computed in 64 bits.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_dedup.dedup.corrections import corrections
from stream_dedup.fingerprint.characters import CHARACTER, IGNORED, PART, SEPARATOR, WORD, fold
from stream_dedup.fingerprint.headlines import cut_tail
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from tests.reference.fingerprint import (
    FILTER_BITS,
    NO_WORD,
    Print,
    bit_of_word,
    bits_of_number,
    class_of,
    classes_of,
    figure_of,
    is_digit,
    sketch_of,
)
from tests.reference.sequence import Diff, diff_of, differences

HOUR = 3_600_000
FULLEST, FULL = 0.97, 1 / (1 - 0.97)
FAR_LONGER = -math.log(4)
FEW, MAX_MEMBERS = 15, 1 << 16
FLAGS = {"swapped", "other_order", "same_form", "same_source", "same_text", "same_id", "within_hamming", "corrects"}
FLOATS = {
    *("body", "containment", "covered", "headline", "grounded", "distance", "log_size_ratio"),
    *("apart", "article_share", "tokens", "words", "new_words", "new_sentences", "numbers", "new_numbers"),
    *("new_numbers_anywhere", "headline_numbers", "new_headline_numbers", "new_headline", "headline_gains"),
    *("headline_figures", "headline_losses", "spread", "lost_words", "lost_numbers", "gained_words"),
    *("gained_numbers", "fewer_words"),
    *("matched", "fresh", "inserted", "altered", "facts", "altered_headline"),
    *("brief", "told", "lead", "said", "places", "rewritten", "unmatched", "rest"),
}


class Similar:
    """The similarities of a pair; what is unknown is NaN."""

    smaller_size = 0

    def __init__(self) -> None:
        for name in FLOATS:
            setattr(self, name, math.nan)
        for name in FLAGS:
            setattr(self, name, False)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, np.float32(value) if name in FLOATS else value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


# -- sets -------------------------------------------------------------------------------------------------------------


def compare_sketches(left: bytes, right: bytes, n: int, m: int) -> tuple[float, float, float]:
    """Jaccard, containment, and the Jaccard less what chance may add: two bins are equal by chance once in 15."""
    pairs = [(a >> shift & 15, b >> shift & 15) for a, b in zip(left, right, strict=True) for shift in (0, 4)]
    either, both = sum(a > 0 or b > 0 for a, b in pairs), sum(a > 0 and b > 0 for a, b in pairs)
    equal, chance = sum(a == b > 0 for a, b in pairs), 1.0 / 15.0
    true_equal = max(0.0, (equal - both * chance) / (1.0 - chance))
    alike = min(true_equal / either, min(n, m) / max(n, m))
    by_chance = 2.0 * math.sqrt((both - true_equal) * chance / (1.0 - chance))
    least = min(max(true_equal - by_chance, 0.0) / either, alike)
    return alike, min(1.0, alike / (1.0 + alike) * (n + m) / min(n, m)), least


def common(left: set[int], right: set[int]) -> tuple[int, int, int]:
    """The members that two sets of 24 bits a member share, with repeats, and those of each that count: all, or of very
    large sets those below the largest that both have stored.
    """
    stored = [sorted(h >> 40 for h in members)[:MAX_MEMBERS] for members in (left, right)]
    ends = [one[-1] for one, of in zip(stored, (left, right), strict=True) if 0 < len(one) < len(of)]
    a, b = (Counter(h for h in one if h < min(ends, default=math.inf)) for one in stored)
    return (a & b).total(), a.total(), b.total()


def share_of_new(jaccard: float, n: int, m: int) -> float:
    return min(jaccard / (1 + jaccard) * (n + m) / max(n, 1), 1.0) if jaccard > 0 else 0.0


def compare_headlines(new: Print, known: Print) -> tuple[float, bool, float, int]:
    """Jaccard, whether words are swapped, grounded, losses. Of a longer headline the smallest hashes are known."""
    left, right = new.headline, known.headline
    is_cut = new.headline_size > len(left), known.headline_size > len(right)
    x = y = shared = union = losses = 0
    unmatched = False
    while not ((x == len(left) and (y == len(right) or is_cut[0])) or (y == len(right) and is_cut[1])):
        a = left[x] >> 1 if x < len(left) else math.inf
        b = right[y] >> 1 if y < len(right) else math.inf
        if a < b:
            unmatched |= left[x] & 1 == 1
        elif b < a:
            losses += right[y] & 1 == 1 and b not in new.word_set
        shared, union = shared + (a == b), union + 1
        x, y = x + (a <= b), y + (b <= a)
    grounded = max(sum(h & 1 for h in each) / len(each) for each in (left, right))
    return shared / max(union, 1), unmatched and losses > 0, grounded, losses


# -- words and figures ------------------------------------------------------------------------------------------------


def has_number(known: Print, h: int) -> bool:
    return bool(known.figures & figure_of(h)) and known.filter.issuperset(bits_of_number(h))


def exchanged(known: set[int], own: set[int]) -> tuple[float, float, float]:
    """Distinct words of the known item that the other lacks, of the other, and of the one with fewer."""
    free = [1 - min(len(bits) / FILTER_BITS, FULLEST) for bits in (own, known)]
    return len(known - own) / free[0], len(own - known) / free[1], -FILTER_BITS * math.log(max(free))


@dataclass
class Article:
    """What an item is asked for: its prose that does not recur, or the whole text if that is hardly anything.

    places: in a filter, of its tokens; at: these tokens in the text; ends: of its sentences; figures: whether each is
    in prose.
    """

    tokens: int
    length: int
    places: list[int]
    at: list[int]
    ends: list[int]
    figures: dict[int, bool]
    shingles: list[int]


def article_of(new: Print, recurring: set[int]) -> Article:
    """recurring: hashes of passages."""
    bounds = list(zip([0, *(p.end for p in new.passages)], new.passages, strict=False))
    length = sum(p.end - start for start, p in bounds if p.is_prose and p.hash not in recurring)
    places, at, ends, shingles = list[int](), list[int](), list[int](), list[int]()
    for start, p in bounds:
        if (p.is_prose or length < FEW) and p.hash not in recurring:
            places += new.places[start : p.end]
            at += range(start, p.end)
            shingles += new.shingles[p.first : p.last] if length >= FEW else []
        window = len(places) - (ends[-1] if ends else 0)
        if window >= 24 or (p.is_last and window > 0):
            ends.append(len(places))
    figures = dict[int, bool]()
    for value, token in new.numbers:
        in_prose = next(p for p in new.passages if token < p.end).is_prose
        figures[value] = figures.get(value, False) or in_prose
    return Article(len(new.places), length, places, at, ends, figures, shingles)


def find_new(s: Similar, new: Print, known: Print, article: Article, diff: Diff | None) -> None:
    """Count what the known item lacks: by its filter, corrected for what is found by chance, or by a diff."""
    fill, of_figures = len(known.filter) / FILTER_BITS, known.figures.bit_count() / 64
    each_word, each_number = 1 / (1 - min(fill, FULLEST)), 1 / (1 - min(fill * fill * of_figures, FULLEST))
    is_article, size = article.length >= FEW, len(article.places)
    is_new = [place != NO_WORD and place not in known.filter for place in article.places]
    if diff:
        each_word, is_word = 1.0, [place != NO_WORD for place in article.places]
        is_matched = [ok and diff.is_matched(token) for ok, token in zip(is_word, article.at, strict=True)]
        is_new = [
            ok and not matched and (absent or diff.lacks(token))
            for ok, matched, absent, token in zip(is_word, is_matched, is_new, article.at, strict=True)
        ]
        s.covered = sum(is_matched) / size if size else float(s.covered)
    found, sentences, touched, new_sentences = float(sum(is_new)), 0, 0, 0.0
    for start, end in zip([0, *article.ends], article.ends, strict=False):
        absent = sum(is_new[start:end])
        if end - start >= 5:
            sentences, touched = sentences + 1, touched + (absent > 0)
            if absent * each_word >= 0.35 * (end - start):
                new_sentences += end - start
    may_be_new = found if diff else (found + 2.0 * math.sqrt(found + 1)) * each_word
    is_far_longer = float(s.log_size_ratio) < FAR_LONGER
    if each_word >= 2 and is_far_longer:
        found += 2.0 * math.sqrt(found + 1)
    if each_word >= FULL:  # the filter says nothing: ask the shingles
        if is_far_longer:
            s.covered = 0
        found = new_sentences = may_be_new = (1 - float(s.covered)) * size
        each_word = 1.0
    s.new_sentences, s.spread = new_sentences if is_article else 0, touched / max(sentences, 1)
    lacked = {h for h in article.figures if not has_number(known, h)}
    asked = {h for h, in_prose in article.figures.items() if in_prose or not is_article}
    s.numbers, s.new_numbers = len(asked), len(asked & lacked) * each_number
    s.new_numbers_anywhere = len(lacked) * each_number
    new_words = [k for k, h in enumerate(new.headline_words) if bit_of_word(h) not in known.filter]
    s.new_headline, s.headline_gains = len(new_words), sum(new.headline[k] & 1 for k in new_words)
    s.words, s.new_words = size, found * each_word
    if not is_article:
        s.words = size + len(new.headline_words)
        s.new_words = float(s.new_words) + len(new_words)
    bound = max(1 - max(may_be_new, float(s.new_words)) / max(float(s.words), 1), 0.0)
    s.covered = min(float(s.covered), bound)
    new_figures = [h for h in new.headline_numbers if not has_number(known, h)]
    s.headline_numbers, s.new_headline_numbers = len(new.headline_numbers), len(new_figures)
    s.headline_figures = sum(h in article.figures for h in new_figures)
    s.tokens, s.article_share = article.length, article.length / max(article.tokens, 1)


# -- the whole --------------------------------------------------------------------------------------------------------


def compare(
    item: Item,
    new: Print,
    known: Print,
    scheme: Scheme,
    apart: float,
    recurring: set[int] | None = None,
    is_old: bool = False,
) -> Similar:
    """apart: hours; recurring: hashes of passages that are boilerplate; None: novelty is not asked; is_old: the known
    item arrived so long ago that its sequence does not count.
    """
    s, n, m = Similar(), new.body_size, known.body_size
    s.apart, s.smaller_size, is_sketch = apart, min(n, m), not (scheme.layout or scheme.is_exact)
    least = math.nan
    if scheme.layout and n and m:
        differ = (new.simhash ^ known.simhash).bit_count()
        s.distance, s.within_hamming = differ, differ <= scheme.settings.hamming
        s.body = max(math.cos(math.pi / 64 * differ), 0.0)
    elif n and m and is_sketch:
        s.body, s.containment, least = compare_sketches(new.body, known.body, n, m)
    elif n and m:
        shared, of_new, of_known = common(set(new.members), set(known.members))
        least = shared / max(of_new + of_known - shared, 1)
        s.body, s.containment = least, shared / max(min(of_new, of_known), 1)
    if not scheme.layout:
        s.lost_words, s.gained_words, s.fewer_words = exchanged(known.filter, new.filter)
        s.lost_numbers = (known.figures & ~new.figures).bit_count()
        s.gained_numbers = (new.figures & ~known.figures).bit_count()
        if new.headline_size and known.headline_size:
            s.headline, s.swapped, s.grounded, s.headline_losses = compare_headlines(new, known)
    s.same_form = new.form == known.form > 0
    s.other_order = bool(s.headline >= np.float32(0.999)) and new.form != known.form
    s.same_source = new.source == known.source != 0
    s.same_text, s.same_id = new.digest == known.digest, new.row_id == known.row_id
    s.log_size_ratio = math.log((n + 5) / (m + 5))
    mark = int(corrections([item])[0])
    s.corrects = mark == 1 and not s.headline >= 1
    if recurring is None or scheme.layout:
        return s
    article = article_of(new, recurring)
    s.covered = share_of_new(least, n, m)
    if scheme.is_exact and article.shingles:
        shared, of_article, _ = common(set(article.shingles), set(known.members))
        s.covered = shared / max(of_article, 1)
    elif article.shingles:
        size = min(len(article.shingles), n)
        sketch = sketch_of(article.shingles, 128)
        s.covered = share_of_new(compare_sketches(sketch, known.body, size, m)[2] if m else 0.0, size, m)
    diff = None if is_old else diff_of(new, known)
    find_new(s, new, known, article, diff)
    if diff:
        found = differences(diff, new, recurring)
        s.matched, s.fresh, s.lead = found.matched / found.tokens if found.tokens else 1, found.fresh, found.lead or 0
        s.facts, s.altered, s.altered_headline = found.facts, found.altered, found.of_headline
        s.inserted, s.brief, s.told = found.inserted, found.brief, found.told
        s.places, s.rewritten = found.places, found.rewritten
        s.said, s.unmatched, s.rest = found.said, found.tokens - found.matched, found.rest
    is_changed = (s.new_numbers_anywhere > 0 and s.lost_numbers > 0) or s.facts + s.altered > 0
    s.corrects |= mark == 2 and bool(max(s.new_words, s.gained_words) >= 3)
    s.corrects |= mark >= 2 and bool(is_changed)
    return s


# -- in words ---------------------------------------------------------------------------------------------------------


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the tokens of a text begin and end, as it is written. A character that folds to many is taken for one."""
    spans, before, last = list[tuple[int, int]](), SEPARATOR, " "
    for i, character in enumerate(text):
        data = character.encode("utf-8", "replace")
        plain = fold(data.decode())
        is_bound = character in "\uff9e\uff9f" and i in {end for _, end in spans[-1:]}  # accents of Kana
        if character == "\u200c" and i and "\u0600" <= text[i - 1] <= "\u06ff":
            before = SEPARATOR
        for part in plain if len(plain.encode()) <= min(15, 3 * len(data)) else character:
            kind = class_of(part, classes_of())
            if kind == IGNORED:
                continue
            is_apart = is_digit(last) and not part.isascii()
            goes_on = is_bound or (kind == before == WORD and not is_apart) or (kind == PART and before == CHARACTER)
            kind = CHARACTER if kind == PART else kind
            if kind != SEPARATOR:
                spans[len(spans) - goes_on :] = [(spans[-1][0] if goes_on else i, i + 1)]
            before, last = kind, part
    return spans


def additions(item: Item, new: Print, known: Print, has_diff: bool) -> str:
    """What an update adds, 200 bytes: a headline, the first numbers, the sentence with the most new words; of one with
    fewer than half, the words from the first to the last new one, and six on each side.
    """
    text = cut_tail(item.text, item.source)
    spans, parts, diff = word_spans(text), list[str](), diff_of(new, known) if has_diff else None

    def is_new(token: int) -> bool:
        return not diff.is_matched(token) if diff else NO_WORD != new.places[token] not in known.filter

    if diff:
        has_headline = any(diff.lacks(k - diff.start) for k in range(diff.start))
    else:
        has_headline = any(bit_of_word(h) not in known.filter for h in new.headline_words)
    if has_headline:
        parts.append("new headline")
    if len(spans) == len(new.places):
        numbers = [
            token
            for value, token in new.numbers
            if (is_new(token) and diff.lacks(token) if diff else not has_number(known, value))
        ]
        written = dict.fromkeys(_number_at(text, *spans[token]) for token in numbers[:4])
        parts += ["numbers: " + ", ".join(written)] if written else []

        def written_from(begin: int, end: int) -> str:
            return " ".join(text[spans[begin][0] : spans[end - 1][1]].split())

        begin, most, best = 0, (False, 0), ""
        for p in (p for p in new.passages if p.is_last):
            found = [token for token in range(begin, p.end) if is_new(token)]
            if found and (p.is_prose or p.is_marked, len(found)) > most:
                most, best = (p.is_prose or p.is_marked, len(found)), written_from(begin, p.end)
                if diff and 2 * len(found) < p.end - begin:
                    first, last = found[0], found[-1] + 1
                    best = f'"{written_from(first, last)}": {written_from(max(first - 6, begin), min(last + 6, p.end))}'
            begin = p.end
        parts += [best] if best else []
    data = "; ".join(parts).encode("utf-8", "replace")
    return "; ".join(parts) if len(data) <= 200 else data[:197].decode("utf-8", "ignore").rstrip() + "…"


def _number_at(text: str, start: int, stop: int) -> str:
    while stop + 1 < len(text) and text[stop] in ".,:" and text[stop + 1].isdigit():
        stop += 1
        while stop < len(text) and text[stop].isdigit():
            stop += 1
    return text[start:stop]
