"""The words of an item in order, as 16-bit codes, and what a diff of two such sequences says.

Which places of a repeated gram are tried depends on the core's hash table, so that is described, too.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tests.reference.fingerprint import FIGURES_FROM, FURTHER_GROUP, GOLDEN, M64, NEGATIONS_FROM, Passage, Print

GRAM, MOST_CHAIN, MOVED, MOST_RUNS, MOST_GAP, FLANK, LEAD = 4, 8, 8, 32, 40, 3, 64
DATELINE, MOST_REPLACED, FEW_WORDS = 8, 5, 3
MOST_LOST = 80


def is_negation(code: int) -> bool:
    return code >= NEGATIONS_FROM


def is_figure(code: int) -> bool:
    return FIGURES_FROM <= code < NEGATIONS_FROM


def stem_of(code: int) -> int:
    return code >> 4


@dataclass
class Found:
    """What the sentences of the new item are, in tokens; see core/similarity.h."""

    matched: int = 0
    tokens: int = 0
    fresh: int = 0
    inserted: int = 0
    altered: int = 0
    facts: int = 0
    of_headline: int = 0
    brief: int = 0
    told: int = 0
    lead: int | None = None
    said: int = 0
    rest: int = 0
    places: int = 0
    rewritten: int = 0


@dataclass
class Diff:
    """own, known: all codes; start, known_start: the first of each text; partners: place in `known` of each own."""

    own: list[int]
    known: list[int]
    start: int
    known_start: int
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
    diff = Diff(new.codes, known.codes, start, known_start, headline)
    pair_runs(diff, known_start, len(diff.known))
    if diff.partners:
        keep_short_runs_in_order(diff)
        pair_runs(diff, 0, known_start)
        pair_gaps(diff)
    return diff


# -- the alignment ----------------------------------------------------------------------------------------------------


def pair_runs(diff: Diff, begin: int, end: int) -> None:
    """Pair all runs of equal codes that contain a gram of known[begin:end], in their order."""
    own, known, bits = diff.own, diff.known, 6
    while 1 << bits < 2 * len(own):
        bits += 1

    def bucket_of(gram: list[int]) -> int:
        return (sum(code << 16 * n for n, code in enumerate(gram)) * GOLDEN & M64) >> (64 - bits)

    chains = defaultdict[int, list[int]](list)
    for i in range(diff.start, len(own) - GRAM + 1):
        chains[bucket_of(own[i : i + GRAM])].append(i)
    expected, j = diff.start, begin
    while j + GRAM <= end:
        gram = known[j : j + GRAM]
        tried = [expected, *chains[bucket_of(gram)][:MOST_CHAIN]]
        places = [i for i in tried if i not in diff.partners and own[i : i + GRAM] == gram]
        if not places:
            j += 1
            continue
        i, back = places[0], 1
        while i - back >= diff.start and j - back >= begin and diff.is_equal(i - back, j - back):
            diff.pair_up(i - back, j - back)
            back += 1
        while i < len(own) and j < end and diff.is_equal(i, j):
            diff.pair_up(i, j)
            i, j = i + 1, j + 1
        expected = i


def keep_short_runs_in_order(diff: Diff) -> None:
    """Between two long runs that follow each other in both texts, unpair short ones with figures that lie elsewhere,
    or do not follow each other.
    """
    long = [run for run in runs_of(diff, diff.start, len(diff.own)) if len(run) >= MOVED]
    ends = [(diff.start, diff.known_start), *((run.stop, diff.partners[run.stop - 1] + 1) for run in long)]
    begins = [*((run.start, diff.partners[run.start]) for run in long), (len(diff.own), len(diff.known))]
    for (begin, known_begin), (end, known_end) in zip(ends, begins, strict=True):
        if known_begin <= known_end:
            keep_order(diff, range(begin, end), range(known_begin, known_end))


def runs_of(diff: Diff, begin: int, end: int) -> list[range]:
    """Return the runs of own[begin:end] whose partners follow each other, too."""
    runs: list[range] = []
    for i in range(begin, end):
        if i not in diff.partners:
            continue
        goes_on = runs and runs[-1].stop == i and diff.partners[i] == diff.partners[i - 1] + 1
        runs[-1:] = [range(runs[-1].start, i + 1)] if goes_on else [*runs[-1:], range(i, i + 1)]
    return runs


def keep_order(diff: Diff, own: range, known: range) -> None:
    """Unpair the runs outside `known`, and of MOST_RUNS others those that are not in the longest ordered row."""
    kept: list[tuple[int, list[range]]] = []
    inside: list[range] = []
    for run in runs_of(diff, own.start, own.stop):
        if len(inside) == MOST_RUNS:
            break
        if diff.partners[run.start] not in known:
            unpair_figures(diff, run)
            continue
        rows = [row for row in kept if diff.partners[row[1][-1].start] <= diff.partners[run.start]]
        words, before = max(rows, key=lambda row: row[0], default=(0, []))
        kept.append((words + len(run), [*before, run]))
        inside.append(run)
    _, best = max(kept, key=lambda row: row[0], default=(0, []))
    for run in inside:
        if run not in best:
            unpair_figures(diff, run)


def unpair_figures(diff: Diff, run: range) -> None:
    for i in run if any(is_figure(diff.own[i]) for i in run) else ():
        diff.used.discard(diff.partners.pop(i))


def pair_gaps(diff: Diff) -> None:
    """Align what lies between two paired places that follow each other in both texts, and the ends of both."""
    partners = {diff.start - 1: diff.known_start - 1} | diff.partners | {len(diff.own): len(diff.known)}
    places = sorted(partners)
    for before, after in pairwise(places):
        a, b = before + 1, partners[before] + 1
        m, n = after - a, partners[after] - b
        if 0 < m <= MOST_GAP and 0 < n <= MOST_GAP:
            align(diff, a, m, b, n)


def align(diff: Diff, a: int, m: int, b: int, n: int) -> None:
    """Pair a longest common subsequence; of several, one that leaves out of the new text what comes first. If both gaps
    are equally long, a figure keeps its place.
    """
    equal = {(i, j) for i in range(m) for j in range(n) if diff.is_equal(a + i, b + j)}
    equal -= {(i, j) for i, j in equal if m == n and i != j and is_figure(diff.own[a + i])}
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
    """Sum up all sentences but those with a passage that recurs, unless the new headline says two words of theirs."""
    found, state, begin = Found(facts=int(denies_headline(diff))), State(), 0
    prose, recurs = False, False
    tokens: list[Token] = []  # of the sentences that follow each other
    for passage in new.passages:
        prose |= passage.is_prose
        recurs |= passage.hash in recurring
        if not passage.is_last:
            continue
        new = {diff.own[i] for i in range(diff.start + begin, diff.start + passage.end) if i not in diff.partners}
        if recurs and len(new & diff.headline) < 2:
            add_gaps(diff, tokens, found)
            tokens = []
        else:
            is_sentence, is_lead = prose or passage.is_marked, found.lead is None
            tokens += [Token(diff.start + i, is_sentence, is_lead) for i in range(begin, passage.end)]
            add_sentence(diff, begin, passage, prose, found, state)
        begin, prose, recurs = passage.end, False, False
    add_gaps(diff, tokens, found)
    return found


class Token(NamedTuple):
    """The place of a token, whether it is in a sentence, and whether no sentence of prose ends before it."""

    place: int
    is_sentence: bool
    is_lead: bool


def denies_headline(diff: Diff) -> bool:
    """Whether one headline has a negation more, and the new one hardly another word."""
    own, known = diff.own[: diff.start], diff.known[: diff.known_start]
    is_denied = sum(map(is_negation, own + known)) % 2 == 1
    return is_denied and len(known) >= FLANK and len(diff.headline) <= 3


def add_gaps(diff: Diff, tokens: list[Token], found: Found) -> None:
    """Add what stands between runs of FLANK words or more that follow each other in the known text, too."""
    runs: list[list[int]] = []  # indices of tokens
    for k, token in enumerate(tokens):
        partner = diff.partners.get(token.place)
        if partner is None:
            continue
        if runs and runs[-1][-1] == k - 1 and diff.partners[tokens[k - 1].place] == partner - 1:
            runs[-1].append(k)
        else:
            runs.append([k])
    for before, after in pairwise(run for run in runs if len(run) >= FLANK):
        lost = diff.partners[tokens[after[0]].place] - diff.partners[tokens[before[-1]].place] - 1
        new = [one for one in tokens[before[-1] + 1 : after[0]] if one.is_sentence and one.place not in diff.partners]
        words = sum(diff.own[one.place] != FURTHER_GROUP for one in new)
        if words and 0 <= lost <= MOST_LOST:
            found.places += 1
            found.rewritten += words if words >= FEW_WORDS and not any(one.is_lead for one in new) else 0


@dataclass
class State:
    """new_since: new words of prose until the next known sentence. row_figures: of the line before, if it is known."""

    new_since: int = 0
    row_figures: int = 0
    has_known: bool = False
    is_behind_known: bool = False


def add_sentence(diff: Diff, begin: int, last: Passage, is_prose: bool, found: Found, state: State) -> None:
    places = range(diff.start + begin, diff.start + last.end)
    unmatched = [i for i in places if i not in diff.partners]
    count, is_new, is_sentence = len(unmatched), 2 * len(unmatched) >= len(places), is_prose or last.is_marked
    figures = sum(is_figure(diff.own[i]) for i in places)
    found.matched += len(places) - count
    found.tokens += len(places)
    if is_prose and found.lead is None:
        is_dateline = unmatched == [*places[:count]] and count <= DATELINE
        found.lead = 0 if is_dateline else count
        found.said = len({diff.own[i] for i in unmatched if i < places.start + LEAD} & diff.headline)
    else:
        found.rest += count
    if is_prose and is_new:
        found.fresh += count
        state.new_since += count * state.has_known
    elif is_sentence and not is_new:
        add_alterations(diff, places, found)
    if is_new and is_sentence:
        found.told = max(found.told, len({diff.own[i] for i in unmatched} & diff.headline))
    if is_new and not is_prose:
        is_brief = last.is_marked and state.is_behind_known and count >= FEW_WORDS
        if is_brief or (not is_sentence and 0 < figures == state.row_figures and is_put_in(diff, places)):
            found.brief += count
    state.row_figures = 0 if is_new or is_sentence else figures
    state.is_behind_known = count == 0 or (is_sentence and not is_new)
    if state.is_behind_known:
        found.inserted += state.new_since
        state.new_since, state.has_known = 0, True


def is_put_in(diff: Diff, places: range) -> bool:
    """Whether a new line stands between words that follow each other in the known text; other new lines may follow."""
    end = min(places.stop + LEAD, len(diff.own))
    after = next((i for i in range(places.stop, end) if i in diff.partners), end)
    following = diff.partners.get(after) if after < len(diff.own) else len(diff.known)
    before = diff.partners.get(places.start - 1)
    return before is not None and following == before + 1


def add_alterations(diff: Diff, places: range, found: Found) -> None:
    """Add what is replaced in a known sentence. Two places with fewer than FLANK words between them are one."""
    i = places.start
    while i < places.stop:
        stop = i
        if i not in diff.partners:
            is_open = [k not in diff.partners for k in range(i, places.stop)]
            while any(is_open[stop - i : stop - i + FLANK]):
                stop += 1
        is_lost = stop == i > places.start and i - 1 in diff.partners and diff.partners[i] > diff.partners[i - 1] + 1
        if 0 < stop - i <= MOST_REPLACED or is_lost:
            add_replacement(diff, range(i, stop), found)
        i = max(i + 1, stop)


def add_replacement(diff: Diff, own: range, found: Found) -> None:
    before, after = own.start - 1, own.stop

    def is_flank(at: int, step: int) -> bool:
        flank = [diff.partners.get(at + step * k) for k in range(FLANK)]
        within = all(diff.start <= at + step * k < len(diff.own) for k in range(FLANK))
        return within and flank[0] is not None and flank == [flank[0] + step * k for k in range(FLANK)]

    of_before, of_after = is_flank(before, -1), is_flank(after, 1)
    is_at_start, is_at_end = own.start - diff.start < FLANK, len(diff.own) - own.stop < FLANK
    is_flanked = of_before and of_after
    if not (is_flanked or (of_after and is_at_start) or (of_before and is_at_end)):
        return
    first = diff.partners.get(before) if own.start > diff.start else None
    last = diff.partners.get(after)
    if first is None and last is None:
        return
    known_begin = max(last - len(own), diff.known_start) if first is None and last is not None else (first or 0) + 1
    known = range(known_begin, min(known_begin + len(own), len(diff.known)) if last is None else last)
    if not 0 <= known.stop - known.start <= MOST_REPLACED:
        return
    came = [diff.own[i] for i in own if i not in diff.partners and diff.own[i] != FURTHER_GROUP]
    went = [diff.known[j] for j in known if j not in diff.used and diff.known[j] != FURTHER_GROUP]
    of_headline = sum(code in diff.headline for code in came)
    figures, lost_figures = sum(map(is_figure, came)), sum(map(is_figure, went))
    is_inside = own.start > diff.start and own.stop < len(diff.own)
    is_denied = sum(map(is_negation, came + went)) % 2
    is_first = not of_before and known.start - diff.known_start == own.start - diff.start
    is_one = len(came) == 1 == len(went) and (is_first or bool(figures and lost_figures))
    if not is_flanked and not of_headline and not is_one and not (is_inside and (figures or is_denied)):
        return  # a dateline, a byline or a credit
    found.of_headline += of_headline
    stems = {stem_of(code) for code in went}
    is_restyled = any(code < FIGURES_FROM and stem_of(code) in stems for code in came)
    if is_denied:
        found.facts += 1
    elif figures and ((len(came) == len(went) and figures == lost_figures) or (len(came) == 1 and not went)):
        found.facts += figures
    elif came and went and not figures and not lost_figures and not is_restyled:
        found.altered += len(came)
