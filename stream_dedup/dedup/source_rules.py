"""The rules for sources ([sources]): find the rule of an item, and name it in the verdict.

`ignore` acts before an item is judged, and `pass` on its verdict alone: other items are judged as without the rule.
`prefer` acts during judging (`has_come` in judge.c), because it changes what is remembered.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import SourceSettings

NO_RULE, PASS, IGNORE, PREFER = "", "pass", "ignore", "prefer"
REASONS = {
    PASS: "its source is never held back; sources.pass",
    IGNORE: "its source is neither compared nor remembered; sources.ignore",
    PREFER: "its source is preferred to those that had the article; sources.prefer",
}
"""The reason of a verdict that a rule has changed."""
_RULES = {reason: rule for rule, reason in REASONS.items()}


class SourceRules:
    """Finds the rule of an item.

    >>> rules = SourceRules(SourceSettings(prefer=["wire.example"], ignore=["ads.wire.example", "Elm Valley Wire"]))
    >>> hosts = ["ads.wire.example", "a.ads.wire.example", "sport.wire.example"]
    >>> items = [Item("1", "", "", "wire.example", 0, host=host) for host in hosts]
    >>> rules.find([*items, Item("2", "", "", "elm valley wire", 0)])
    ['ignore', 'ignore', 'prefer', 'ignore']
    """

    def __init__(self, settings: SourceSettings) -> None:
        self._rules = settings.rules

    def find(self, items: Sequence[Item]) -> list[str]:
        """Return the rule of each item, or `NO_RULE`. O(labels of the host) each."""
        return [self._find((item.host or item.source).lower()) for item in items] if self._rules else [""] * len(items)

    def _find(self, host: str) -> str:
        name = host
        while name not in self._rules and "." in name:
            name = name.partition(".")[2]
        # The end of a domain is not a name: a rule for "news" does not hold for all of *.news.
        return self._rules.get(name, NO_RULE) if name == host or "." in name else NO_RULE

    def preferred(self, scheme: Scheme) -> NDArray[np.uint64]:
        """Return the preferred sources as signatures store them, (n,) uint64: the sites of the names."""
        from stream_dedup.news.decode import site_of  # loads the table of public suffixes

        names = [name for name, rule in self._rules.items() if rule == PREFER]
        return np.array(sorted({scheme.identity(site_of(name)) for name in names}), np.uint64)


def rule_of(reason: str) -> str:
    """Return the rule that has changed a verdict with this reason, or `NO_RULE`."""
    return _RULES.get(reason, NO_RULE)


def count_rules(reasons: Iterable[str]) -> dict[str, int]:
    """Return how many verdicts each rule has changed; a rule that has changed none is absent."""
    counts = Counter(map(rule_of, reasons))
    return {rule: counts[rule] for rule in REASONS if rule in counts}
