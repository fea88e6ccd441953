"""What the tests that run schedules share."""

import gc
import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet() -> Iterator[None]:
    """Hundreds of lives, each with its warnings; and the collector would look at all libraries each time."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)
