"""Imported once by the fork server of member.py: loads the worker for every member."""

import warnings

from tests.worker import clock

warnings.simplefilter("ignore")
clock.mend_sleep()  # before another module takes `time.sleep`

from stream_dedup.dedup.decider import Decider  # noqa: E402 - kafka-python warns when it is imported
from stream_dedup.news.item import Item  # noqa: E402
from tests.harness import forked as forked  # noqa: E402

_warm = Decider()
_warm.apply(_warm.judge([Item("1", "A headline", "A text of some words to warm up with", "", 0)]))
_warm.close()
