"""Compare the articles of a corpus instead of its pages: what recurs in other articles is no evidence.

1. **Near pairs.** Candidates are compared as pages, by signatures. `compare_pages` finds those that may be one article
   (`NEAR`), and among them the **copies**: one text, whatever else is on the pages.
2. **Boilerplate.** A passage that recurs in three articles that are not each other's copies is the site's, not the
   article's. The stream learns this as it goes; a corpus is known as a whole, so the order of its items does not count.
3. **Articles.** `compare_articles` asks the decision's questions of each near pair in both directions: is it the same
   article, and has it something new beside the other? Its prose without boilerplate is compared.

A filled-in form (an obituary, a closed road) is like other pages of its form, but each has news that the other lacks.
So less kinship is enough if one of two items has nothing new beside the other, more is needed if each has, and more
still of another day's prices; and a short form is never one article.

Every answer is symmetric or says its direction. None depends on which item comes first.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dedup.dedup.boilerplate import SIGHTINGS, Boilerplate
from stream_dedup.dedup.rule import SAME_ARTICLE, Rule, strongest
from stream_dedup.dedup.similarity import SIMILARITY
from stream_dedup.dedup.verdict import Stage
from stream_dedup.fingerprint.fingerprint import Fingerprints
from stream_dedup.fingerprint.kernel import HEADLINE_FEATURES, MOST_HEADLINE_NUMBERS, NUMBER, PASSAGE, Texts
from stream_dedup.tools.pair_rule import FIXED, columns, compare, judge_pairs

Arrays = dict[str, NDArray[Any]]
Rows = NDArray[np.int64]

# Added to the log-odds of kinship: if one of the two has nothing new beside the other, if both have, and if they are
# bulletins of two days. Of 4,943 labelled pairs, by trees that have not seen their corpus, clusters then find .923 of
# one article at a precision of .943; with 0.5, -0.4 and 0 .922 at .937. As exact shares of words, leads and runs in
# common, or trees of all measures, find no more, what is left is where readers disagree, too.
_NOTHING_NEW, _BOTH_NEW, _TWO_DAYS = 0.8, -0.6, -1.5
_BULLETIN = [*FIXED].index("bulletin")
# The score of two texts that are no article together: of one form, or the same words under other headlines.
_APART = -3.0
SURE = 3.0
"""From this score on two items are one article: so are .995 of the labelled pairs above it."""
# The other direction of a pair differs by less: of 3,726 labelled pairs that are likely in one direction, 5 are below
# this in the other.
NEAR = SAME_ARTICLE - 2.0
# Who keeps one of two items must recognise the other: by most words of the headline; by two of eight, which may be "in"
# and "the", with some of the article; or by a third of the article.
_SAME_HEADLINE, _SHARED_HEADLINE, _SOME_ARTICLE, _SHARED_ARTICLE = 0.5, 0.15, 0.1, 0.3
# Shingles of a short text. Where both headlines name something else that their texts confirm, and both have something
# new, it is a form, however alike: so are 3 of 7 labelled pairs, and no others come in hundreds.
_SHORT_FORM = 120
# Fewest tokens of an article (FEW_TOKENS in core/novelty.c). With fewer, what two pages share is menus.
_ARTICLE_TOKENS = 15
# One text: the headline is the same, or the longer text has its words. Pages of menus do not mention their headlines.
_COPY_HEADLINE, _COPY_TEXT, _GROUNDED = 0.5, 0.5, 0.4
_STAGES = list(Stage)

HEADLINES = np.dtype(
    [("words", "<u4", HEADLINE_FEATURES), ("numbers", "<u4", MOST_HEADLINE_NUMBERS), ("corrects", "i1")]
)
"""What is kept of a headline beside the signature; corrects: `corrections` of the item."""
PARTS: dict[str, np.dtype[Any]] = {
    "tokens": np.dtype(np.uint16),
    "shingles": np.dtype(np.uint64),
    "numbers": NUMBER,
    "passages": PASSAGE,
}
"""The parts of a text that are kept, some 8 KB of an article; places in them count from the text's first token."""

FOUND = np.dtype(
    [
        ("stage", "u1"), *((name, "<f4") for name in ("score", "body", "containment", "headline", "distance")),
        *((name, "?") for name in ("later_joins", "earlier_joins", "later_is_new", "earlier_is_new")),
    ]
)  # fmt: skip
"""A near pair: its stage, log-odds of one article (a *pair* has 0 or more), and measures; whether the later item may
stand behind the earlier one, and the other way round; whether it has something new beside it, or a headline of other
words."""


# -- the parts of texts ----------------------------------------------------------------------------------------------


def _whole(records: NDArray[Any]) -> NDArray[np.void]:
    """The same bytes without fields: to copy records field by field takes ten times as long."""
    return records.view(np.dtype((np.void, records.itemsize)))


def _taken(parts: NDArray[Any], starts: Rows, stops: Rows) -> NDArray[Any]:
    """The parts from each start to its stop, one after the other."""
    whole = _whole(parts)
    slices = [whole[start:stop] for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
    return np.concatenate([whole[:0], *slices]).view(parts.dtype)


def cut_texts(texts: Texts, kept: Rows) -> tuple[dict[str, NDArray[Any]], dict[str, Rows]]:
    """The parts of some texts, one text after the other, and the number of each part in each text."""
    firsts, lasts = texts.firsts[kept], texts.lasts[kept]
    ends = np.append(texts.passages["end"], 0)
    has_any = lasts[:, 0] > firsts[:, 0]
    # The passage before that of another text ends where this one begins; that of index -1 is the 0 behind them.
    tokens = np.where(has_any, ends[firsts[:, 0] - 1], 0), np.where(has_any, ends[lasts[:, 0] - 1], 0)
    passages = _taken(texts.passages, firsts[:, 0], lasts[:, 0])
    counts = lasts[:, 0] - firsts[:, 0]
    # Shingles that begin in a passage may end behind it, so ranges have gaps, and some are empty.
    is_empty = passages["first_shingle"] >= passages["last_shingle"]
    owner = np.repeat(np.arange(len(kept)), counts)
    low, high = np.zeros((2, len(kept)), np.int64)
    owners = owner[~is_empty]
    if len(begins := np.flatnonzero(np.diff(owners, prepend=-1))):
        low[owners[begins]] = np.minimum.reduceat(passages["first_shingle"][~is_empty], begins)
        high[owners[begins]] = np.maximum.reduceat(passages["last_shingle"][~is_empty], begins)
    numbers = _taken(texts.numbers, firsts[:, 1], lasts[:, 1])
    numbers["token"] -= np.repeat(tokens[0], lasts[:, 1] - firsts[:, 1]).astype(np.int32)
    passages["end"] -= tokens[0][owner]
    for name in ("first_shingle", "last_shingle"):
        passages[name] = np.where(is_empty, 0, passages[name] - low[owner])
    parts = _taken(texts.words, *tokens), _taken(texts.shingles, low, high), numbers, passages
    sizes = tokens[1] - tokens[0], high - low, lasts[:, 1] - firsts[:, 1], counts
    return dict(zip(PARTS, parts, strict=True)), dict(zip(PARTS, sizes, strict=True))


def joined_texts(headlines: NDArray[np.void], parts: dict[str, list[bytes]]) -> Texts:
    """The texts of rows, given the bytes of each part of each row: the inverse of `cut_texts`."""
    arrays, ends = {}, {}
    for name, kind in PARTS.items():
        arrays[name] = np.frombuffer(b"".join(parts[name]), kind).copy()
        ends[name] = np.cumsum([0, *(len(of_row) // kind.itemsize for of_row in parts[name])])
    counts = {name: np.diff(of_part) for name, of_part in ends.items()}
    arrays["numbers"]["token"] += np.repeat(ends["tokens"][:-1], counts["numbers"]).astype(np.int32)
    arrays["passages"]["end"] += np.repeat(ends["tokens"][:-1], counts["passages"])
    for name in ("first_shingle", "last_shingle"):
        arrays["passages"][name] += np.repeat(ends["shingles"][:-1], counts["passages"])
    bounds = np.stack([ends["passages"], ends["numbers"]], axis=1)
    words, figures = (np.ascontiguousarray(headlines[name]) for name in ("words", "numbers"))
    return Texts(bounds[:-1].copy(), bounds[1:].copy(), words, figures, *arrays.values())


# -- pages ------------------------------------------------------------------------------------------------------------


class Near(NamedTuple):
    """Which candidates are near, and which of these are copies."""

    is_near: NDArray[np.bool_]
    is_copy: NDArray[np.bool_]


def compare_pages(prints: Fingerprints, later: Rows, earlier: Rows, rule: Rule) -> Near:
    """Compare the items `later[p]` and `earlier[p]` of `prints` as pages."""
    signatures = prints.signatures
    size, digest = signatures["body_size"].astype(np.int64), signatures["digest"]
    # The longer page stands for the new item, so the answer does not depend on the order of the items.
    is_longer = size[later] > size[earlier]
    is_longer |= (size[later] == size[earlier]) & (digest[later] >= digest[earlier])
    similar = _directed(prints, np.where(is_longer, later, earlier), np.where(is_longer, earlier, later))
    judged = judge_pairs(similar, rule)
    if rule.is_plain:
        return Near(judged.is_repeat | judged.is_same, np.zeros(len(similar), np.bool_))
    with np.errstate(invalid="ignore"):  # NaN: a page without a headline
        same_headline = np.isnan(similar["headline"]) | (similar["headline"] >= _COPY_HEADLINE)
        is_told = (similar["headline_losses"] == 0) & (similar["grounded"] >= _GROUNDED)
        is_copy = same_headline | (is_told & (similar["containment"] >= _COPY_TEXT))
    return Near(judged.is_repeat | (judged.kinship >= NEAR), judged.is_repeat | (judged.is_same & is_copy))


def _directed(
    prints: Fingerprints, new: Rows, known: Rows, boilerplate: Boilerplate | None = None, corrects: Any = None
) -> NDArray[np.void]:
    """Compare pairs of items of `prints`: (pairs,) SIMILARITY. Ordered by new item, it is fastest."""
    if not len(new):
        return np.empty(0, SIMILARITY)
    learned = None if boilerplate is None else (boilerplate, np.zeros(len(prints.signatures), np.int64))
    if (np.diff(new) >= 0).all():
        return compare(prints, prints.signatures, new, known, None, learned, corrects)
    order = np.argsort(new, kind="stable")
    ordered = compare(prints, prints.signatures, new[order], known[order], None, learned, corrects)
    similar = np.empty_like(ordered)
    _whole(similar)[order] = _whole(ordered)
    return similar


# -- boilerplate ------------------------------------------------------------------------------------------------------


def recurring(chunks: Iterable[tuple[NDArray[np.uint32], Rows]]) -> NDArray[np.uint32]:
    """The hashes of passages that recur in three articles, ascending. A chunk: hashes, and the article of each."""
    counted = [np.empty(0, np.uint32)]
    for hashes, owners in chunks:
        codes = np.sort(owners.astype(np.uint64) << np.uint64(32) | hashes)
        counted.append(codes[np.diff(codes, prepend=np.uint64(0)) != 0].astype(np.uint32))  # its low 32 bits
    ordered = np.sort(np.concatenate(counted))
    firsts = np.flatnonzero(np.diff(ordered, prepend=np.uint32(0)) != 0)
    found: NDArray[np.uint32] = ordered[firsts[np.diff(firsts, append=len(ordered)) >= SIGHTINGS]]
    return found


def boilerplate_of(hashes: NDArray[np.uint32]) -> Boilerplate:
    """The table of these passages, whatever the time."""
    table = Boilerplate((16 * len(hashes) + 63).bit_length())  # with 16 entries for each, it loses hardly one
    for _ in range(SIGHTINGS):
        table.add(hashes, np.ones(len(hashes), np.int64), np.zeros(len(hashes), np.int64))
    return table


# -- articles ---------------------------------------------------------------------------------------------------------


def compare_articles(
    prints: Fingerprints, later: Rows, earlier: Rows, rule: Rule, boilerplate: Boilerplate | None, corrects: Any
) -> NDArray[np.void]:
    """FOUND of near pairs. prints: with texts; without them pages are compared."""
    digests, found, is_left = prints.signatures["digest"], np.empty(len(later), FOUND), np.ones(len(later), np.bool_)
    if boilerplate:  # the same words again need no look at the texts, and in a flood of copies they are many
        equal = np.flatnonzero(digests[later] == digests[earlier])
        pages = compare_articles(prints, later[equal], earlier[equal], rule, None, None)
        is_repeat = pages["stage"] == _STAGES.index(Stage.EXACT)
        found[equal], is_left[equal] = pages, ~is_repeat
    ways = [(later[is_left], earlier[is_left]), (earlier[is_left], later[is_left])]
    forth, back = (_directed(prints, *way, boilerplate, corrects) for way in ways)
    found[is_left] = judge_articles(forth, back, rule)
    return found


def judge_articles(forth: NDArray[np.void], back: NDArray[np.void], rule: Rule) -> NDArray[np.void]:
    """The same for pairs that are compared. forth: the later item as the new one, back: the earlier one; SIMILARITY."""
    ways = [judge_pairs(similar, rule) for similar in (forth, back)]
    is_repeat = ways[0].is_repeat
    if rule.is_plain:
        is_pair = is_repeat | ways[0].is_same
        score, joins = np.where(is_pair, SAME_ARTICLE, _APART), [is_pair] * 2
    else:
        is_form = forth["swapped"] & back["swapped"] & (forth["smaller_size"] < _SHORT_FORM)
        has_nothing_new = ways[0].is_held | ways[1].is_held
        score = np.maximum(ways[0].kinship, ways[1].kinship) + np.where(has_nothing_new, _NOTHING_NEW, _BOTH_NEW)
        is_of_two_days = np.logical_and(*(columns(similar, "fixed")[:, _BULLETIN] > 0 for similar in (forth, back)))
        score[is_of_two_days & ~has_nothing_new] += _TWO_DAYS
        score[forth["same_text"] | (is_form & ~has_nothing_new)] = _APART
        covered = np.fmax(forth["covered"], back["covered"])
        joins = [is_repeat | _is_recognised(similar, covered) for similar in (forth, back)]
        score[~(joins[0] | joins[1])] = _APART
        score[is_repeat] = 2 * SURE
    found = np.empty(len(forth), FOUND)
    found["stage"] = np.where(is_repeat, _STAGES.index(Stage.EXACT), [_STAGES.index(one) for one in strongest(forth)])
    found["score"] = score
    for name in ("body", "containment", "headline", "distance"):
        found[name] = forth[name]
    # Readers may miss a headline of other words, although the text has nothing new: .008 of what would be dropped.
    is_elsewhere = (forth["headline"] == 0) & (not rule.is_plain)
    for name, joining, way in zip(("later", "earlier"), joins, ways, strict=True):
        found[f"{name}_joins"], found[f"{name}_is_new"] = joining, ~way.is_held | is_elsewhere
    return found


def _is_recognised(similar: NDArray[np.void], covered: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Whether the known item has words of the new one's headline, or enough of its article.

    covered: the larger share of the one article that the other page holds.
    """
    headline, has_no_headline = np.nan_to_num(similar["headline"]), np.isnan(similar["headline"])
    has_article = (similar["tokens"] >= _ARTICLE_TOKENS) | has_no_headline
    is_covered = has_article & (similar["covered"] >= _SHARED_ARTICLE)
    has_words = (headline >= _SHARED_HEADLINE) & (covered >= _SOME_ARTICLE)
    recognised: NDArray[np.bool_] = similar["same_text"] | is_covered | has_words | (headline >= _SAME_HEADLINE)
    return recognised
