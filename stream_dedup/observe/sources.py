"""Count duplicates by the source that sent them, with a bounded number of series.

There is one series for each of the `MAX_SOURCES` busiest sources, and one, "other", for the rest. The number of sources
has no bound, so a tally estimates which are busiest; it is halved when it grows too long, so that sources that were
busy long ago lose their series. A source counts as "other" until it has a series, which then begins at 0; a source that
loses its rank loses its series. So no series ever falls, and the sum of their rates is the rate of all duplicates.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from stream_dedup.observe.catalogue import Spec

MAX_SOURCES = 20
OTHER = "other"
NONE = "none"
# Sources in the tally at which it is halved; one of the busiest twenty of ten thousand survives many halvings.
_MAX_TALLY = 10_000
# A source replaces another one when it has twice as many duplicates: otherwise two equals would swap all day.
_REPLACE_FACTOR = 2
# The longest host name; the field may contain anything.
_MAX_CHARS = 253


class SourceCounter(Collector):
    """Counter of duplicates by source. The worker counts while scrapes read."""

    def __init__(self, spec: Spec, registry: CollectorRegistry) -> None:
        self._spec = spec
        self._tally: Counter[str] = Counter()
        self._series: dict[str, int] = {}
        self._other = 0
        self._lock = threading.Lock()
        registry.register(self)

    def count(self, sources: Iterable[str]) -> None:
        """Count one duplicate of each source. O(1) each, O(MAX_SOURCES) for a source without a series."""
        with self._lock:
            for source in sources:
                name = _label(source)
                self._tally[name] += 1
                if name in self._series or (name != OTHER and self._add_series(name)):
                    self._series[name] += 1
                else:
                    self._other += 1
            if len(self._tally) > _MAX_TALLY:
                self._tally = Counter({name: count // 2 for name, count in self._tally.items() if count > 1})

    def _add_series(self, name: str) -> bool:
        if len(self._series) >= MAX_SOURCES:
            weakest = min(self._series, key=self._tally.__getitem__)
            if self._tally[name] < _REPLACE_FACTOR * max(self._tally[weakest], 1):
                return False
            del self._series[weakest]
        self._series[name] = 0
        return True

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._spec.name, self._spec.help, labels=list(self._spec.labels))
        with self._lock:
            for name, count in [*self._series.items(), (OTHER, self._other)]:
                family.add_metric([name], count)
        yield family


def _label(source: str) -> str:
    """Return a source as a label: in lower case, as hosts are, and without lone surrogates, which have no UTF-8."""
    return source[:_MAX_CHARS].lower().encode("utf-8", "replace").decode() or NONE
