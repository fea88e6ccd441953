"""Two texts -> the pieces of each, those marked that the other lacks, for the status page.

In: the beginnings that `Recent` keeps. Out: pieces in reading order, long passages in common shortened. What one text
has behind the other's cut end is nobody's difference, so it is left out. Beside them the numbers that changed.
"""

from dataclasses import dataclass
from functools import lru_cache

from stream_dedup.dedup.figures import Figures, compare_figures
from stream_dedup.dedup.passages import Passage, Where, compare_texts, word_spans

# Words of a passage in common that stay at its ends; enough to find the place.
_CONTEXT = 12
# Leaving out fewer saves nothing.
_LEFT_OUT = 8


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of text; `differs`: the other text does not have it; `gap`: words left out behind it."""

    text: str
    differs: bool
    gap: int = 0


Sides = tuple[tuple[Segment, ...], tuple[Segment, ...]]


# The page compares the same fifty pairs at each refresh; a pair costs some .3 ms.
@lru_cache(maxsize=256)
def differences(first: str, second: str, first_cut: bool, second_cut: bool) -> Sides:
    """Pieces of both texts; `first_cut`: the first one goes on where it ends here.

    >>> a, b = differences("The bridge opened on Monday.", "The bridge opened on Sunday.", False, False)
    >>> [(piece.text, piece.differs) for piece in b]
    [('The bridge opened on ', False), ('Sunday.', True)]
    """
    passages = compare_texts(first, second).passages
    ends = {Where.FIRST: second_cut, Where.SECOND: first_cut}  # whose end the other's cut may have made a difference
    while passages and ends.get(passages[-1].where):
        passages = passages[:-1]
    sides: tuple[list[Segment], list[Segment]] = ([], [])
    for place, passage in enumerate(passages):
        last = place == len(passages) - 1
        if passage.where is not Where.SECOND:
            sides[0].extend(_pieces(passage.first, passage, place > 0, not last))
        if passage.where is not Where.FIRST:
            sides[1].extend(_pieces(passage.second, passage, place > 0, not last))
    return tuple(sides[0]), tuple(sides[1])


@lru_cache(maxsize=256)
def figures(first: str, second: str) -> Figures:
    """`dedup.figures.compare_figures`, remembered as the pieces are."""
    return compare_figures(first, second)


def _pieces(text: str, passage: Passage, more_before: bool, more_after: bool) -> list[Segment]:
    if passage.where is not Where.BOTH:
        return [Segment(text, True)]
    before = _CONTEXT  # also at the beginning: it says which article this is
    after = _CONTEXT if more_after else 0
    gap = passage.words - before - after
    if gap < _LEFT_OUT or not (more_before or more_after):
        return [Segment(text, False)]
    starts = [start for start, _ in word_spans(text)]
    pieces = [Segment(text[: starts[before]].rstrip(), False, gap)]
    if after:
        pieces.append(Segment(text[starts[-after] :], False))
    return pieces
