"""Differences between two texts for the status page: segments of each, marked where the other text lacks them.

Takes the beginnings of texts that `Recent` keeps. The segments are in reading order; long passages in common are
shortened. Text behind the point where the other one was truncated is no difference and is left out. The module also
compares the numbers in the two texts.
"""

from dataclasses import dataclass
from functools import lru_cache

from stream_dedup.dedup.figures import Figures, compare_figures
from stream_dedup.dedup.passages import Passage, Side, compare_texts, word_spans

# Words shown at each end of a passage in common, enough to find the place.
_CONTEXT_WORDS = 12
# Fewer omitted words would save no space.
_MIN_GAP_WORDS = 8


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of text. `differs`: the other text lacks it; `gap`: number of words omitted after it."""

    text: str
    differs: bool
    gap: int = 0


Segments = tuple[tuple[Segment, ...], tuple[Segment, ...]]


# The page compares the same fifty pairs at each refresh; a pair takes some .3 ms.
@lru_cache(maxsize=256)
def differences(first: str, second: str, first_truncated: bool, second_truncated: bool) -> Segments:
    """Return the segments of both texts. `first_truncated`: the first text goes on after its end here.

    >>> a, b = differences("The bridge opened on Monday.", "The bridge opened on Sunday.", False, False)
    >>> [(segment.text, segment.differs) for segment in b]
    [('The bridge opened on ', False), ('Sunday.', True)]
    """
    passages = compare_texts(first, second).passages
    # A last passage of one text alone is no difference if the other text was truncated.
    uncertain = {Side.FIRST: second_truncated, Side.SECOND: first_truncated}
    while passages and uncertain.get(passages[-1].side):
        passages = passages[:-1]
    segments: tuple[list[Segment], list[Segment]] = ([], [])
    for position, passage in enumerate(passages):
        last = position == len(passages) - 1
        if passage.side is not Side.SECOND:
            segments[0].extend(_segments(passage.first, passage, position > 0, not last))
        if passage.side is not Side.FIRST:
            segments[1].extend(_segments(passage.second, passage, position > 0, not last))
    return tuple(segments[0]), tuple(segments[1])


@lru_cache(maxsize=256)
def figures(first: str, second: str) -> Figures:
    """Compare the numbers of two texts, cached like `differences`."""
    return compare_figures(first, second)


def _segments(text: str, passage: Passage, more_before: bool, more_after: bool) -> list[Segment]:
    if passage.side is not Side.BOTH:
        return [Segment(text, True)]
    before = _CONTEXT_WORDS  # also at the beginning of the text: it identifies the article
    after = _CONTEXT_WORDS if more_after else 0
    gap = passage.words - before - after
    if gap < _MIN_GAP_WORDS or not (more_before or more_after):
        return [Segment(text, False)]
    starts = word_spans(text)[:, 0].tolist()
    segments = [Segment(text[: starts[before]].rstrip(), False, gap)]
    if after:
        segments.append(Segment(text[starts[-after] :], False))
    return segments
