"""The fixture of the tests that run schedules."""

import gc
import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet() -> Iterator[None]:
    """Turn off logging (hundreds of workers warn) and garbage collection (it visits all libraries each time)."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    yield
    gc.enable()
    logging.disable(logging.NOTSET)
