"""A registry of its own for each test."""

from collections.abc import Iterator

import pytest

from tests.registry.server import RegistryServer


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server
