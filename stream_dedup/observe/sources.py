"""Which sources send the most copies: hosts of held-back items -> a counter with few labels.

In: the source of each duplicate. Out: one series for each of the `SHOWN` busiest sources, and one, "other", for
all the rest. The number of sources has no bound, so who is busiest is estimated by a tally that is halved when it
grows: a source that was loud long ago makes room. A source counts as "other" until it is shown, and its series then
begins at 0; one that gives up its place takes its series along. So no series ever goes down, and the sum of their
rates is the rate of all duplicates.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from stream_dedup.observe.catalogue import Spec

SHOWN = 20
OTHER = "other"
NONE = "none"
# Halved at so many sources; a site among the busiest twenty of ten thousand survives many halvings.
_TALLIED = 10_000
# A newcomer takes a place when it has twice as many as who holds it: otherwise two equals would swap all day.
_CLEARLY = 2
# No host name is longer; what stands in the field is the feed's affair.
_LONGEST = 253


class SourceCounter(Collector):
    """Counts duplicates by source. The worker counts, scrapes read."""

    def __init__(self, spec: Spec, registry: CollectorRegistry) -> None:
        self._spec = spec
        self._tally: Counter[str] = Counter()
        self._shown: dict[str, int] = {}
        self._other = 0
        self._lock = threading.Lock()
        registry.register(self)

    def count(self, sources: Iterable[str]) -> None:
        """One duplicate of each of these. O(1) each, and O(SHOWN) for one that is not shown."""
        with self._lock:
            for source in sources:
                name = _label(source)
                self._tally[name] += 1
                if name in self._shown or (name != OTHER and self._takes_a_place(name)):
                    self._shown[name] += 1
                else:
                    self._other += 1
            if len(self._tally) > _TALLIED:
                self._tally = Counter({name: count // 2 for name, count in self._tally.items() if count > 1})

    def _takes_a_place(self, name: str) -> bool:
        if len(self._shown) >= SHOWN:
            weakest = min(self._shown, key=self._tally.__getitem__)
            if self._tally[name] < _CLEARLY * max(self._tally[weakest], 1):
                return False
            del self._shown[weakest]
        self._shown[name] = 0
        return True

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._spec.name, self._spec.help, labels=list(self._spec.labels))
        with self._lock:
            for name, count in [*self._shown.items(), (OTHER, self._other)]:
                family.add_metric([name], count)
        yield family


def _label(source: str) -> str:
    """A source as a label: hosts know no case, and half a character of JSON's is no text that can be sent."""
    return source[:_LONGEST].lower().encode("utf-8", "replace").decode() or NONE
