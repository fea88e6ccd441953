"""How an item is decided: its time and window, its candidates, what it has in common with each, the five questions.

One item at a time, each against all that is remembered. The product gives the same verdicts, wherever its batches
begin. Two limits are left out: the number of originals, and that of the table of passages.
"""

import json
import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from stream_dedup.dedup import rule
from stream_dedup.dedup.source_rules import REASONS
from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.errors import BadItem
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item, Tombstone
from stream_dedup.settings import Settings
from stream_dedup.tools import pair_rule
from tests.lab.labels.trees import KINSHIP_TABLE, NOVELTY_TABLE
from tests.reference.fingerprint import GOLDEN, M64, Print, fingerprint
from tests.reference.similarity import HOUR, Similar, additions, compare

START, FAR_FUTURE = -(2**62), 2**62
F32 = np.float32
NAN = F32(np.nan)


# -- time -------------------------------------------------------------------------------------------------------------


@dataclass
class Partition:
    """times: the last nine; weight: as of item `count` of the task."""

    times: list[int] = field(default_factory=list)
    weight: int = 0
    count: int = 0

    @property
    def level(self) -> int:
        return sorted(self.times)[len(self.times) // 2] if self.times else START

    def is_steady(self, window: int) -> bool:
        return len(self.times) == 9 and sum(abs(time - self.level) <= window for time in self.times) >= 7

    def weight_at(self, count: int) -> int:
        return self.weight >> min((count >> 15) - (self.count >> 15), 31)


@dataclass
class Moment:
    """When an item counts: its effective and its stated time, ms; the step of its arrival is 1/64 window."""

    time: int
    stated: int
    is_doubted: bool
    watermark: int
    elapsed: int
    step: int


class Clocks:
    def __init__(self, window: int) -> None:
        self.window, self.watermark, self.elapsed, self.count = window, START, 0, 0
        self.partitions: defaultdict[int, Partition] = defaultdict(Partition)

    def read(self, time: int, partition: int, latest: int) -> Moment:
        here, is_usable = self.partitions[partition], 0 <= time <= latest
        is_alone = is_usable and here.is_steady(self.window) and abs(time - here.level) > self.window
        is_doubted, effective = not is_usable or is_alone, time
        if is_doubted:
            effective = here.level if here.level > START else max(self.watermark, 0)
        if is_usable:
            here.times = [*here.times, time][-9:]
        here.weight = here.weight_at(self.count) + 1
        self.count += 1
        here.count = self.count
        if here.is_steady(self.window) and here.level > self.watermark:
            steady = [one for one in self.partitions.values() if one.is_steady(self.window)]
            reached = sum(one.weight_at(self.count) for one in steady if one.level >= here.level)
            if 2 * reached >= sum(one.weight_at(self.count) for one in steady):
                if self.watermark > START:
                    self.elapsed += min(here.level - self.watermark, self.window // 4)
                self.watermark = here.level
        stated = time if is_alone else effective
        step = self.elapsed // max(1, self.window // 64)
        return Moment(effective, stated, is_doubted, self.watermark, self.elapsed, step)


# -- what is remembered -----------------------------------------------------------------------------------------------


@dataclass
class Known:
    """An item that was let through; is_counted: its passages count."""

    item: Item
    print: Print
    moment: Moment
    is_counted: bool
    story: str

    @property
    def version(self) -> int:
        return self.print.row_id ^ (self.print.digest * GOLDEN & M64) >> 32

    def is_in_window(self, now: Moment, window: int) -> bool:
        recent = self.moment.step >= now.step - 65
        if recent and (self.moment.is_doubted or now.is_doubted):
            return True
        if self.moment.is_doubted:
            return False
        low = now.stated - window
        return (low if recent else max(low, now.watermark - window)) <= self.moment.time <= now.stated + window


class Passages:
    """The last three sightings of each passage, the latest first, in s."""

    def __init__(self) -> None:
        self.seen: dict[int, list[int]] = {}

    def add(self, one: Print, moment: Moment, window: int) -> None:
        late = moment.time < moment.watermark - window
        time = max((moment.watermark if late else moment.time) // 1000, 1)
        for h in dict.fromkeys(p.hash for p in one.passages[:128]):
            self.seen[h] = sorted([time, *self.seen.get(h, [0, 0, 0])], reverse=True)[:3]

    def recurring(self, one: Print, moment: Moment, window: int) -> set[int]:
        start = max((moment.time - window) // 1000, 1)
        return {p.hash for p in one.passages if self.seen.get(p.hash, [0])[-1] >= start}


def shares(key: int, other: int, dont_care: int, most: int) -> bool:
    """Whether two keys match: the lower bits may differ in a few places."""
    if not key or not other or key >> dont_care != other >> dont_care:
        return False
    return (key ^ other).bit_count() <= (most + (key >> dont_care == 0) if dont_care else 0)


# -- the rule for a pair ----------------------------------------------------------------------------------------------


@cache
def trees_of(table: Path) -> list[tuple[list[int], list[Any], list[Any]]]:
    found = json.loads(table.read_text("utf-8"))
    columns = (found["features"], *(np.array(found[name], F32) for name in ("thresholds", "values")))
    return [(list(one), list(two), list(three)) for one, two, three in zip(*columns, strict=True)]


def sum_of(table: Path, x: list[Any]) -> Any:
    total = F32(0)
    for features, thresholds, values in trees_of(table):
        node = 0
        while node < len(features):
            node = 2 * node + 1 + bool(x[features[node]] > thresholds[node])
        total += values[node]
    return total


def known_or(value: Any, otherwise: float = 0) -> Any:
    return F32(otherwise) if np.isnan(value) else value


def is_repeat(s: Similar) -> bool:
    """The same words, and not the same few words of one source a day later."""
    return s.same_text and not (s.same_source and s.smaller_size < 60 and s.apart > 16)


def is_another_event(s: Similar) -> bool:
    return s.same_text and not is_repeat(s)


def is_bulletin(s: Similar) -> bool:
    if s.apart < 12:
        return False
    if s.same_text:
        return is_another_event(s)
    has_figures = s.numbers + s.headline_numbers >= F32(0.05) * max(s.words, F32(8))
    if has_figures and s.new_numbers + s.new_headline_numbers >= F32(0.9):
        return True
    if s.covered < F32(0.75) and s.tokens < 300 and s.apart > 16:
        return True
    return s.same_source and s.same_form and bool(s.new_numbers_anywhere + s.new_headline_numbers >= F32(0.9))


def is_filled(s: Similar) -> bool:
    """One form, filled in otherwise."""
    return bool(s.facts >= 1 and s.altered_headline >= 1)


def is_same_article(s: Similar) -> bool:
    return bool(kinship_of(s) >= 0) and not is_another_event(s) and not is_filled(s)


def is_series(s: Similar) -> bool:
    is_section = s.same_source and s.headline >= F32(0.8) and s.containment < F32(0.4)
    return is_bulletin(s) or bool(is_section and s.apart >= 12)


def novelty_of(s: Similar) -> Any:
    edited = F32(0)
    if s.matched > F32(0.9):  # nearly all else is known
        edited = s.brief + s.altered + s.facts if s.fresh == 0 else F32(0)
        edited += s.told if s.headline_gains >= 1 else F32(0)
    words, larger = max(known_or(s.words), F32(1)), min(max(s.log_size_ratio, F32(-1.5)), F32(2))
    features = [
        F32(s.same_source), known_or(s.headline, -1), known_or(s.covered), known_or(s.new_sentences),
        min(known_or(s.new_words) / words, F32(1)), known_or(s.new_words), known_or(s.new_numbers),
        known_or(s.lost_words), known_or(s.lost_numbers), known_or(s.headline_gains), known_or(s.headline_losses),
        known_or(s.headline_figures), known_or(s.new_headline), known_or(s.grounded, 1), larger,
        known_or(s.spread), known_or(s.tokens), known_or(s.article_share),
        known_or(s.matched, known_or(s.covered)), known_or(s.fresh, known_or(s.new_sentences)), known_or(s.inserted),
        known_or(s.altered), known_or(s.facts), known_or(s.altered_headline), known_or(s.brief),
        known_or(s.lead), edited, known_or(s.places),
    ]  # fmt: skip
    is_more = s.new_words > F32(4) or s.lost_words > F32(8)
    is_other_text = s.covered < F32(0.93) if np.isnan(s.unmatched) else s.unmatched >= 1
    is_reordered = s.other_order and is_other_text and not is_more
    is_changed = s.facts + s.altered + s.brief > 0
    is_version = s.same_id and (is_changed or s.new_sentences > 0 or s.new_words >= F32(4))
    is_other = bool(s.new_headline >= 1) or (bool(s.headline >= 1) and s.same_form and not s.same_text)
    is_alone, both = s.smaller_size == 0 and s.log_size_ratio <= 0, s.log_size_ratio == 0
    is_flash = is_alone and (bool(s.new_headline_numbers >= F32(0.9)) or (both and is_other))
    is_same = s.headline >= F32(0.8)
    is_replaced = is_same and s.new_numbers >= F32(0.9) and s.lost_numbers >= 1
    is_other = s.same_form and s.new_headline_numbers >= F32(0.9)
    is_other |= is_same and s.gained_words >= 2 and s.lost_words < 1
    is_other |= F32(0.59) <= s.headline < F32(0.8) and s.new_headline <= 1 and s.body >= F32(0.99)
    is_short = 0 < s.smaller_size < 160 and (is_replaced or (s.smaller_size < 100 and is_other))
    is_notice = s.same_source and abs(F32(s.log_size_ratio)) <= F32(0.3) and bool(is_short)
    is_unshared = s.matched <= 0 if not np.isnan(s.matched) else s.covered <= 0 and s.body <= 0
    is_unshared = s.smaller_size >= 8 and bool(s.tokens >= 8) and bool(is_unshared)
    is_wall = s.same_source and bool(s.headline < F32(0.5) and s.grounded <= F32(0.2))
    is_as_long = abs(F32(s.log_size_ratio)) < F32(0.12)
    is_said = bool(s.said >= 2 and s.rest <= 6) or bool(s.said >= 3 and s.rest <= 15)
    is_lead = bool(s.lead >= 5) or bool(s.said >= 1 and s.lead >= 2)
    is_lead &= bool(s.headline < F32(0.8) and s.new_headline >= 1 and s.rest <= 1)
    is_follow_up = (bool(s.headline < F32(0.61)) and is_said) or is_lead
    least = max(F32(6), F32(0.4) * s.lead) if s.lost_words < 1 else max(F32(3), F32(0.25) * s.lead)
    is_follow_up |= is_same and bool(s.rest <= 3 and s.lead > 3 and s.new_words >= least)
    is_clause = s.fresh <= 0 and s.rewritten >= 3 and s.places <= 1
    is_word = s.fresh <= 0 and s.altered >= 1 and s.unmatched <= s.altered
    is_exchanged = F32(0.25) * s.new_words <= s.lost_words <= F32(4) * s.new_words
    is_exchanged = is_exchanged and s.rewritten >= 3 and s.new_words >= 3
    is_one_of_two = is_same and is_as_long and not s.places > 2 and (is_word or is_exchanged)
    is_edit = bool(s.matched > F32(0.9)) and bool(is_clause or is_one_of_two)
    is_more = bool(s.log_size_ratio > 0 and s.lost_words < 1 and s.new_headline >= 1 and s.fresh + s.brief >= 3)
    is_continued = is_more and s.smaller_size < 160 and bool(F32(0.59) <= s.headline < 1) and not s.headline_losses > 0
    is_cut = bool(s.headline >= F32(0.5)) and F32(-0.7) < s.log_size_ratio < F32(0.12)
    is_short = is_as_long and s.smaller_size < 100
    is_turned = (is_cut or is_short) and bool(s.altered_headline >= 1 and s.unmatched <= 4)
    fixed = F32(0)
    terms = (
        is_bulletin(s), s.corrects, is_reordered, is_version, is_flash, is_notice, is_unshared, is_wall, is_filled(s),
        is_as_long and is_follow_up, is_continued, is_turned, is_edit,
    )  # fmt: skip
    for value, term in zip(terms, pair_rule.FIXED.values(), strict=True):
        fixed += F32(term.weight) * F32(value)
    return sum_of(NOVELTY_TABLE, features) + fixed


def kinship_of(s: Similar) -> Any:
    replaced = min(known_or(s.lost_words), known_or(s.gained_words)) / max(known_or(s.fewer_words), F32(1))
    features = [
        F32(s.same_source), known_or(s.headline, -1), known_or(s.body, -1), known_or(s.containment), F32(s.swapped),
        known_or(s.headline_losses), known_or(s.grounded, 1), F32(is_series(s)), replaced,
        min(known_or(s.lost_numbers), known_or(s.gained_numbers)), F32(s.smaller_size),
        min(max(s.log_size_ratio, F32(-1.5)), F32(2)),
    ]  # fmt: skip
    return sum_of(KINSHIP_TABLE, features)


# -- the stream -------------------------------------------------------------------------------------------------------


class Stream:
    """Judges items in order, and remembers those that are let through."""

    def __init__(self, settings: Settings, limit: int) -> None:
        self.settings, self.scheme, self.limit = settings, Scheme(settings.fingerprint), limit
        self.is_plain = settings.decision.jaccard is not None or self.scheme.layout is not None
        self.window = settings.window.length_ms
        self.clocks, self.passages, self.known = Clocks(self.window), Passages(), list[Known]()
        drops = ("version", "revised") if settings.policy.updates == "drop" else ()
        self.held = ("same id", "same text", "nothing new", *drops)
        self.added, self.forgotten = list[Known](), dict[int, int]()
        """What the changelog gets of a batch: the originals, and behind how many of them a name is last forgotten."""

    def judge(self, item: Item | Tombstone | BadItem, latest: int = FAR_FUTURE) -> Verdict:
        if isinstance(item, BadItem):
            return Verdict(item.id, Kind.BAD, Stage.NONE, False, reason=str(item))
        is_tombstone = isinstance(item, Tombstone)
        subject = Item(item.id, "", "", "", item.time, item.partition, item.offset) if is_tombstone else item
        new = fingerprint(subject, self.scheme)
        now = self.clocks.read(item.time, item.partition, latest)
        if is_tombstone:
            return self._withdraw(item, new, now)
        rule = self._rule(item.host or item.source)
        if rule == "ignore":
            return Verdict(item.id, Kind.UNIQUE, Stage.POLICY, True, reason=REASONS[rule], story=item.id)
        if new.is_empty:
            return Verdict(item.id, Kind.BAD, Stage.NONE, False, reason=str(self.scheme.empty_item))
        candidates = self._candidates(new.keys, now)
        recurring = self.passages.recurring(new, now, self.window)
        pairs = [
            compare(item, new, one.print, self.scheme, self._apart(one, now), recurring, self._is_old(one, now))
            for one in candidates
        ]
        outcome, best, logit = self._decide(pairs)
        if rule == "prefer" and outcome in self.held and not self._has_come(candidates, pairs, best):
            outcome = "preferred"
        verdict = self._verdict(item, new, outcome, logit, candidates, pairs, best, rule)
        drops = self.settings.policy.updates == "drop"
        if outcome == "version" and not drops:
            self._forget(candidates[best].version)
        is_another = outcome in ("new", "different")
        is_counted = is_another and (outcome == "new" or not pairs[best].headline >= F32(0.3))
        if is_another or outcome == "preferred" or (outcome in ("version", "revised") and not drops):
            self.known.append(Known(item, new, now, is_counted, verdict.story))
            self.added.append(self.known[-1])
        if is_counted:
            self.passages.add(new, now, self.window)
        return verdict

    def _rule(self, host: str) -> str:
        """The rule that names the host or, else, the nearest domain around it."""
        named = {name: rule for rule in REASONS for name in getattr(self.settings.sources, rule)}
        around = [name for name in named if host == name or ("." in name and host.endswith(f".{name}"))]
        return named[max(around, key=len)] if around else ""

    def _has_come(self, candidates: list[Known], pairs: list[Similar], best: int) -> bool:
        """Whether a reader has the article from the item's own source or a preferred one."""
        ours = [
            s.same_source or one.item.source in self.settings.sources.prefer
            for one, s in zip(candidates, pairs, strict=True)
        ]
        same = [k == best or is_repeat(s) or self._is_kin(s) for k, s in enumerate(pairs)]
        return any(map(min, ours, same))

    def _candidates(self, keys: list[int], now: Moment) -> list[Known]:
        """Each key gives the newest originals that have it; of all these, the twelve that share the rarest keys."""
        tables = self.scheme.table_of
        dont_care = [*self.scheme.dont_care_bits, *[0] * len(tables)]
        alive = [one for one in reversed(self.known) if one.is_in_window(now, self.window)]
        scores: defaultdict[int, int] = defaultdict(int)
        for column, (table, key) in enumerate(zip(tables, keys, strict=True)):
            near = dont_care[column], self.settings.fingerprint.hamming
            columns = [other for other in range(len(tables)) if tables[other] == table]
            given = [
                n for n, one in enumerate(alive) if any(shares(key, one.print.keys[other], *near) for other in columns)
            ][: self.limit]
            weight = max((1 << 16) // max(len(given), 1), 1)
            if column == len(tables) - 1 and len(given) <= 4:
                weight = 1 << 29
            for n in given:
                scores[n] += weight
        best = sorted(scores, key=lambda n: (-scores[n], n))[:12]
        return [alive[n] for n in sorted(best, reverse=True)]

    def _apart(self, one: Known, now: Moment) -> float:
        gap = abs(now.time - one.moment.time)
        if gap > self.window:
            gap = abs(now.stated - one.moment.time)
        if gap > self.window:
            arrived = one.moment.step * max(1, self.window // 64)
            gap = min(max(now.elapsed - arrived, 0), self.window)
        return gap / HOUR

    def _is_old(self, one: Known, now: Moment) -> bool:
        """Whether its sequence does not count any more."""
        step = max(1, self.window // 64)
        return now.step - one.moment.step > min(-(-self.settings.index.texts_ms // step), 65)

    def _is_alike(self, s: Similar) -> bool:
        """By plain similarity."""
        return s.within_hamming if not np.isnan(s.distance) else bool(s.body >= F32(self.settings.decision.jaccard))

    def _is_kin(self, s: Similar) -> bool:
        """The same article."""
        return self._is_alike(s) if self.is_plain else is_same_article(s)

    def _decide(self, pairs: list[Similar]) -> tuple[str, int, Any]:
        """The outcome, the candidate that decides, and the log-odds of novelty against it."""
        if not pairs:
            return "new", -1, NAN
        versions = [k for k, s in enumerate(pairs) if s.same_id and (s.same_source or self._is_kin(s))]
        # 1. The same id and the same words.
        for k, s in enumerate(pairs):
            if s.same_id and s.same_text:
                return "same id", k, NAN
        if versions and self.settings.policy.updates == "forward":
            return "version", versions[-1], NAN
        # 2. The same words.
        for k, s in enumerate(pairs):
            if is_repeat(s) and k not in versions:
                return "same text", k, NAN
        # 3. Nothing new: of the candidates, against the one that it lacks least of.
        if self.is_plain:
            best = 0
            for k, s in enumerate(pairs):
                if self._is_alike(s) and not pairs[best].body >= s.body:
                    best = k
            if self._is_alike(pairs[best]):
                return "nothing new", best, NAN
        else:
            logits = [novelty_of(s) for s in pairs]
            best = int(np.argmin(logits))
            if logits[best] < F32(rule.logit(self.settings.decision.threshold)):
                return "nothing new", best, logits[best]
        # 4. An earlier version, or the same article.
        if versions:
            return "version", versions[-1], NAN if self.is_plain else logits[versions[-1]]
        if self.is_plain:
            return "different", best, NAN
        best = int(np.argmax([kinship_of(s) for s in pairs]))
        return "revised" if self._is_kin(pairs[best]) else "different", best, logits[best]

    def _forget(self, name: int) -> None:
        """Forget all originals of an id, or a version."""
        self.forgotten[name] = len(self.added)
        self.known = [one for one in self.known if name not in (one.print.row_id, one.version)]

    def _withdraw(self, item: Tombstone, new: Print, now: Moment) -> Verdict:
        keys = [0] * (len(new.keys) - 1) + new.keys[-1:]
        named = [one for one in self._candidates(keys, now) if one.print.row_id == new.row_id]
        self._forget(new.row_id)
        if not named:
            return Verdict(item.id, Kind.TOMBSTONE, Stage.NONE, True)
        return Verdict(item.id, Kind.TOMBSTONE, Stage.POLICY, True, self._original(named[-1]))

    @staticmethod
    def _original(one: Known) -> Original:
        return Original(one.item.id, one.moment.time, one.item.partition, one.item.offset)

    def _verdict(
        self,
        item: Item,
        new: Print,
        outcome: str,
        logit: Any,
        candidates: list[Known],
        pairs: list[Similar],
        best: int,
        rule_of_source: str,
    ) -> Verdict:
        if outcome == "new":
            return Verdict(item.id, Kind.UNIQUE, Stage.NONE, True, story=item.id)
        s, known, updates = pairs[best], candidates[best], self.settings.policy.updates
        containment, body, headline = (0.0 if np.isnan(x) else float(x) for x in (s.containment, s.body, s.headline))
        alike = Stage.BODY if max(containment, body) >= headline else Stage.HEADLINE
        alike = Stage.PROSE if max(containment, body, headline) < 0.5 else alike
        told = "other words" if updates == "forward" else "something new"
        kind, stage, forward, reason = {
            "same id": (Kind.DUPLICATE, Stage.ID, False, "same id, same words"),
            "same text": (Kind.DUPLICATE, Stage.EXACT, False, ""),
            "nothing new": (Kind.DUPLICATE, alike, False, ""),
            "version": (Kind.UPDATE, Stage.POLICY, updates != "drop", f"same id, {told}; policy.updates = {updates}"),
            "revised": (Kind.UPDATE, alike, updates != "drop", ""),
            "preferred": (Kind.UPDATE, Stage.POLICY, True, REASONS["prefer"]),
            "different": (Kind.UNIQUE, Stage.NONE, True, ""),
        }[outcome]
        if outcome == "revised" and updates == "drop":
            reason = "the same article with something new; policy.updates = drop"
        if rule_of_source == "pass" and not forward:
            stage, forward, reason = Stage.POLICY, True, REASONS["pass"]
        is_update = kind is Kind.UPDATE and not self.scheme.layout
        adds = additions(item, new, known.print, not np.isnan(s.matched)) if is_update else None
        original, nearest = self._original(known), None
        if kind is Kind.UNIQUE:
            original, nearest = None, original
        evidence = self._evidence(new, known.print, s, logit, len(pairs), adds)
        story = item.id if kind is Kind.UNIQUE else known.story
        return Verdict(item.id, kind, stage, forward, original, evidence, reason, nearest, story)

    @staticmethod
    def _evidence(new: Print, known: Print, s: Similar, logit: Any, candidates: int, adds: str | None) -> Evidence:
        def told(x: Any) -> float | None:
            return None if math.isnan(x) else float(x)

        n, m, cut = new.body_size, known.body_size, None
        if s.containment >= 0.75 and max(n, m) >= 4 / 3 * min(n, m):
            cut = "longer" if n > m else "shorter"
        new_words = NAN if np.isnan(s.words) else min(s.new_words, s.words)
        distance, numbers = told(s.distance), told(s.new_numbers)
        return Evidence(
            told(s.body), told(s.containment), told(s.headline), told(s.covered), s.same_source, cut,
            candidates, None if distance is None else int(distance), told(rule.probability(np.array([logit], F32))[0]),
            told(new_words), told(new_words / max(s.words, F32(1))), None if numbers is None else round(numbers), adds,
        )  # fmt: skip
