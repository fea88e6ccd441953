"""A clock and a watched worker."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.observe.watched import Clock, Watched


@pytest.fixture(autouse=True)
def _rendered_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test sees at once what it has just changed."""
    monkeypatch.setattr("stream_dedup.tools.page.page.KEPT_SECONDS", 0.0)


@pytest.fixture
def clock() -> "Clock":
    from tests.observe.watched import Clock  # loads the Kafka client, which takes what tests/conftest.py configures

    return Clock()


@pytest.fixture
def watched() -> "Iterator[Watched]":
    from tests.observe.watched import Watched

    with Watched() as worker:
        yield worker
