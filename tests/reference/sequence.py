"""The words of an item in order, as 16-bit codes, and what a diff of two such sequences says.

Which places of a repeated gram are tried depends on the core's hash table, so that is described, too.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from tests.reference.fingerprint import FIGURES_FROM, FURTHER_GROUP, GOLDEN, M64, NEGATIONS_FROM, Print

GRAM, MOST_CHAIN, MOST_GAP, FLANK, DATELINE, MOST_REPLACED = 4, 8, 40, 3, 8, 5


def is_negation(code: int) -> bool:
    return code >= NEGATIONS_FROM


def is_figure(code: int) -> bool:
    return FIGURES_FROM <= code < NEGATIONS_FROM


def stem_of(code: int) -> int:
    return code >> 4


@dataclass
class Found:
    """What the sentences of the new item are, in tokens; see SIMILARITY."""

    matched: int = 0
    tokens: int = 0
    fresh: int = 0
    altered: int = 0
    facts: int = 0
    of_headline: int = 0
    between: int = 0
    behind: int = 0
    lead: int | None = None


@dataclass
class Diff:
    """own, known: all codes; start: the first of the new text; partners: of each own code, its place in `known`."""

    own: list[int]
    known: list[int]
    start: int
    headline: set[int]
    partners: dict[int, int] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)

    def pair_up(self, i: int, j: int) -> None:
        self.partners[i] = j
        self.used.add(j)

    def is_equal(self, i: int, j: int) -> bool:
        return self.own[i] == self.known[j] and i not in self.partners and j not in self.used

    def is_matched(self, token: int) -> bool:
        return self.start + token in self.partners

    def lacks(self, token: int) -> bool:
        """Whether the known item has neither this figure nor a word of this stem."""
        code = self.own[self.start + token]
        if code >= FIGURES_FROM:
            return code not in self.known
        return all(stem_of(code) != stem_of(other) or other >= FIGURES_FROM for other in self.known)


def diff_of(new: Print, known: Print) -> Diff | None:
    if not new.codes or not known.codes:
        return None
    start, known_start = new.headline_codes, known.headline_codes
    headline = set(new.codes[:start]) - set(known.codes[:known_start])
    diff = Diff(new.codes, known.codes, start, headline)
    pair_runs(diff)
    pair_gaps(diff)
    return diff


# -- the alignment ----------------------------------------------------------------------------------------------------


def pair_runs(diff: Diff) -> None:
    """Pair all runs of equal codes that contain a gram of the known codes, in their order."""
    own, known, bits = diff.own, diff.known, 6
    while 1 << bits < 2 * len(own):
        bits += 1

    def bucket_of(gram: list[int]) -> int:
        return (sum(code << 16 * n for n, code in enumerate(gram)) * GOLDEN & M64) >> (64 - bits)

    chains = defaultdict[int, list[int]](list)
    for i in range(diff.start, len(own) - GRAM + 1):
        chains[bucket_of(own[i : i + GRAM])].append(i)
    expected, j = diff.start, 0
    while j + GRAM <= len(known):
        gram = known[j : j + GRAM]
        tried = [expected, *chains[bucket_of(gram)][:MOST_CHAIN]]
        places = [i for i in tried if i not in diff.partners and own[i : i + GRAM] == gram]
        if not places:
            j += 1
            continue
        i, back = places[0], 1
        while i - back >= diff.start and j - back >= 0 and diff.is_equal(i - back, j - back):
            diff.pair_up(i - back, j - back)
            back += 1
        while i < len(own) and j < len(known) and diff.is_equal(i, j):
            diff.pair_up(i, j)
            i, j = i + 1, j + 1
        expected = i


def pair_gaps(diff: Diff) -> None:
    """Align what lies between two paired places that follow each other in both texts."""
    places = sorted(diff.partners)
    for before, after in pairwise(places):
        a, b = before + 1, diff.partners[before] + 1
        m, n = after - a, diff.partners[after] - b
        if 0 < m <= MOST_GAP and 0 < n <= MOST_GAP:
            align(diff, a, m, b, n)


def align(diff: Diff, a: int, m: int, b: int, n: int) -> None:
    """Pair a longest common subsequence; of several, one that leaves out of the new text what comes first."""
    equal = {(i, j) for i in range(m) for j in range(n) if diff.is_equal(a + i, b + j)}
    lengths = defaultdict[tuple[int, int], int](int)
    for i in reversed(range(m)):
        for j in reversed(range(n)):
            with_both = lengths[i + 1, j + 1] + 1 if (i, j) in equal else 0
            lengths[i, j] = max(with_both, lengths[i + 1, j], lengths[i, j + 1])
    i = j = 0
    while i < m and j < n:
        if lengths[i, j] == lengths[i + 1, j]:
            i += 1
        elif lengths[i, j] == lengths[i, j + 1]:
            j += 1
        else:
            diff.pair_up(a + i, b + j)
            i, j = i + 1, j + 1


# -- what it says of sentences ----------------------------------------------------------------------------------------


def differences(diff: Diff, new: Print, recurring: set[int]) -> Found:
    """Sum up all sentences but those with a passage of prose that recurs."""
    found, waiting, is_behind_known, begin = Found(), 0, False, 0
    prose = list[bool]()
    recurs = False
    for passage in new.passages:
        prose.append(passage.is_prose)
        recurs |= passage.is_prose and passage.hash in recurring
        if not passage.is_last:
            continue
        if not recurs:
            unmatched, is_known = add_sentence(diff, begin, passage.end, any(prose), found)
            if is_known:
                found.between += waiting
                waiting, is_behind_known = 0, True
            elif not any(prose) and is_behind_known and not waiting:
                waiting = unmatched
            else:
                found.behind += waiting
                waiting, is_behind_known = 0, False
        begin, prose, recurs = passage.end, [], False
    found.behind += waiting
    return found


def add_sentence(diff: Diff, begin: int, end: int, is_prose: bool, found: Found) -> tuple[int, bool]:
    """Add a sentence; return how many of its words have no partner, and whether it is known."""
    places = range(diff.start + begin, diff.start + end)
    is_open = [i not in diff.partners for i in places]
    unmatched, is_new = sum(is_open), 2 * sum(is_open) >= len(places)
    found.matched += len(places) - unmatched
    found.tokens += len(places)
    if is_prose and found.lead is None:
        is_dateline = all(is_open[:unmatched]) and unmatched <= DATELINE
        found.lead = 0 if is_dateline else unmatched
    if is_prose and is_new:
        found.fresh += unmatched
    elif is_prose:
        add_alterations(diff, places, found)
    return unmatched, unmatched == 0 or (is_prose and not is_new)


def add_alterations(diff: Diff, places: range, found: Found) -> None:
    """Add what is replaced in a known sentence. Two places with one word between them are one."""
    i = places.start
    while i < places.stop:
        stop = i
        while stop < places.stop:
            is_bridge = i < stop < places.stop - 1 and stop + 1 not in diff.partners
            if stop in diff.partners and not is_bridge:
                break
            stop += 1
        is_lost = stop == i > places.start and i - 1 in diff.partners and diff.partners[i] > diff.partners[i - 1] + 1
        if 0 < stop - i <= MOST_REPLACED or is_lost:
            add_replacement(diff, range(i, stop), found)
        i = max(i + 1, stop)


def add_replacement(diff: Diff, own: range, found: Found) -> None:
    before, after = own.start - 1, own.stop
    for at, step in ((before, -1), (after, 1)):
        flank = [diff.partners.get(at + step * k) for k in range(FLANK)]
        if flank[0] is None or flank != [flank[0] + step * k for k in range(FLANK)]:
            return
    known = range(diff.partners[before] + 1, diff.partners[after])
    if not 0 <= diff.partners[after] - known.start <= MOST_REPLACED:
        return
    came = [diff.own[i] for i in own if i not in diff.partners and diff.own[i] != FURTHER_GROUP]
    went = [diff.known[j] for j in known if j not in diff.used and diff.known[j] != FURTHER_GROUP]
    found.of_headline += sum(code in diff.headline for code in came)
    figures, lost_figures = sum(map(is_figure, came)), sum(map(is_figure, went))
    stems = {stem_of(diff.known[j]) for j in known}
    is_restyled = any(diff.own[i] < FIGURES_FROM and stem_of(diff.own[i]) in stems for i in own)
    if sum(map(is_negation, came + went)) % 2:
        found.facts += 1
    elif figures and ((len(came) == len(went) and figures == lost_figures) or (len(came) == 1 and not went)):
        found.facts += figures
    elif came and went and not figures and not lost_figures and not is_restyled:
        found.altered += len(came)
