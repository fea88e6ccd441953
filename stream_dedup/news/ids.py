"""Notice ids that name no article: one guid on all entries of a file, the link of the site in place of the article's.

In: the first items of an input. Out: the ids that several unlike items have, once at least half of the items have such
an id. Fewer are no fault of the field: an article that was rewritten, or a mistake of its editors.
"""

from collections import Counter

from stream_dedup.news.item import Item

FIRST = 1000
"""Items of an input that are looked at."""
_HEAD, _LETTERS = 400, 8  # characters of headline and text that are compared, as runs of this length
# Of two beginnings with fewer runs in common neither is a version of the other. Of 6,000 pairs of two articles of one
# site, in four languages, 93 in 100 have fewer; of 309 labelled copies, cuts and updates 3 in 100.
_UNLIKE = 0.1


class SharedIds:
    """Counts, among the first items of an input, those that share their id with an unlike one.

    >>> shared, texts = SharedIds(), ("The bridge opened on Monday.", "Crews of the ferries stayed ashore.")
    >>> for text in texts:
    ...     shared.add(Item("https://elm.example", "", text, "", 0), text[:8])
    >>> shared.ids, shared.example
    (frozenset({'https://elm.example'}), "'https://elm.example' (The brid, Crews of)")
    """

    def __init__(self) -> None:
        self.items = 0
        self.example = ""
        """An id, and the places of two items that have it; "" if there is none."""
        self._seen: dict[str, tuple[str, str]] = {}  # id -> beginning and place of its first item
        self._counts: Counter[str] = Counter()
        self._unlike: set[str] = set()

    @property
    def shared(self) -> int:
        """The items whose id an unlike one has, too."""
        return sum(self._counts[name] for name in self._unlike)

    @property
    def ids(self) -> frozenset[str]:
        """The ids that say nothing, if at least half of the items have one."""
        return frozenset(self._unlike) if 2 * self.shared >= self.items else frozenset()

    def add(self, item: Item, place: str) -> None:
        """Count an item; `place` is for people. All but the first `FIRST` are left out. O(1)."""
        if self.items >= FIRST:
            return
        self.items += 1
        self._counts[item.id] += 1
        beginning = f"{item.title} {item.text[:_HEAD]}"[:_HEAD]
        first, first_place = self._seen.setdefault(item.id, (beginning, place))
        if first != beginning and item.id not in self._unlike and _are_unlike(first, beginning):
            self._unlike.add(item.id)
            self.example = self.example or f"{item.id[:_HEAD]!r} ({first_place}, {place})"


def _are_unlike(one: str, other: str) -> bool:
    a, b = _runs(one), _runs(other)
    return len(a & b) < _UNLIKE * min(len(a), len(b))


def _runs(text: str) -> set[str]:
    letters = "".join(filter(str.isalnum, text.casefold()))
    return {letters[start : start + _LETTERS] for start in range(max(1, len(letters) - _LETTERS + 1))}
