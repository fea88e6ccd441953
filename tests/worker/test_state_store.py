"""The store of a standby: what it says about how far behind it is."""

from dataclasses import replace
from typing import Any

import pytest

from stream_dedup.kafka.runtime import REAL
from stream_dedup.settings import load_settings
from stream_dedup.worker import state_store
from stream_dedup.worker.state_store import StateStore
from tests.worker.support import context


class BusyReader:
    """Reads a changelog that has grown by the end of each read, so that there is always more. An offset is a second."""

    has_no_gap, restored = True, "all of it"
    now = 0.0

    def __init__(self, *_: Any) -> None:
        self.position, self.is_blind = 0.0, False

    def advance(self) -> int:
        if not self.is_blind:
            self.position = self.now
        BusyReader.now += 0.4
        return 1

    def committed_ends(self) -> float:
        return self.now

    def remaining(self, end: float) -> float:
        return max(0.0, end - self.position)

    def release(self) -> None: ...


def test_a_standby_under_load_is_up_to_date_although_there_is_always_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_store, "ChangelogReader", BusyReader)
    virtual = replace(context(load_settings()), runtime=replace(REAL, monotonic=lambda: BusyReader.now))
    store = StateStore(virtual, "global", 0)
    reader: Any = store.reader

    def followed(times: int) -> tuple[float, set[object]]:
        """Follow; return how far behind the store says that it is, and what it says to have read."""
        known = set()
        for _ in range(times):
            store.follow()
            assert reader.remaining(reader.committed_ends()), "there is more"
            known.add(store.all_read)
        return store.behind_seconds, known

    behind, known = followed(100)
    assert behind < 2
    assert "all of it" in known
    reader.is_blind = True
    behind, known = followed(100)
    assert behind > 38
    reader.is_blind = False
    behind, known = followed(5)
    assert behind < 2
    assert "all of it" in known
    store.close()
