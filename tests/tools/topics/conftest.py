"""The tools work on the topics of a worker, so their tests have the fixtures of its tests."""

from tests.worker.conftest import make, settings

__all__ = ["make", "settings"]
