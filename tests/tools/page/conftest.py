"""The fixtures of tests/observe: a clock and a watched worker, and a page that is rendered at each request."""

from tests.observe.conftest import _rendered_each_time, clock, watched

__all__ = ["_rendered_each_time", "clock", "watched"]
