"""Kill the worker at every numbered step of the commit protocol and at random moments: all is exactly once.

The steps are those of stream_dedup/worker/pipeline.py. Each life is a process of its own, killed by SIGKILL. The
next one joins the group as soon as its predecessor is dead, and takes over when the session of the dead one has ended.
"""

import random
import time
from contextlib import ExitStack
from typing import Any

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.news.decode import Decoder
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import CommitStep
from tests.harness.check import assert_exactly_once, from_scratch
from tests.harness.feed import feed, made_up
from tests.harness.member import Member
from tests.harness.topics import Make
from tests.worker.support import open_store

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]
ITEMS = 20_000
RANDOM_MOMENTS = 8  # `make soak` has many more


def restored(settings: Settings) -> Decider:
    store = open_store(settings)
    store.complete(lambda done, total: None)
    return store.dedup


def test_killed_at_each_step_and_at_random_moments(make: Make) -> None:
    settings = make(worker={"batch_items": 50, "session_timeout": "1s"})
    sent = feed(settings, made_up(ITEMS, updates=0.5))
    chance = random.Random(7)
    # At each step of the third batch: two are done, one is not.
    plans: list[dict[str, Any]] = [{"kill": [step, 3]} for step in CommitStep]
    # Half of the moments from the start on (joining, restoring, the first batches), half within the work.
    plans += [{"from": "start" if i % 2 else "opened"} for i in range(RANDOM_MOMENTS)]
    chance.shuffle(plans)
    with ExitStack() as stack:
        for plan in plans:
            member = stack.enter_context(Member(settings, plan)).go()
            if "kill" in plan:
                member.wait_killed()
                assert member.wait_for("kill")["step"] == plan["kill"][0]
            elif plan["from"] == "opened":
                member.wait_for("opened")
                time.sleep(chance.uniform(0, 0.5))
                member.kill()
            else:
                time.sleep(chance.uniform(0, 2))
                member.kill()
        last = stack.enter_context(Member(settings)).go()
        assert last.wait_for("batch")["lag"] > 0, "the feed was used up before the last kill"
        last.wait_for("batch", lag=0)
        last.stop()

    came = assert_exactly_once(settings, sent)
    calm = Decider(settings)
    verdicts = came.verdicts()
    assert verdicts == from_scratch(settings, sent, calm)
    assert sum(kind == "duplicate" and original != story for kind, original, story in verdicts.values()) > 100
    # The restored index gives the same verdicts as that of an undisturbed run.
    again = restored(settings)
    assert (len(again), again.watermark) == (len(calm), calm.watermark)
    decode = Decoder(settings.item)
    probes = [decode(value, key, sent[-1].timestamp) for key, value in [*made_up(ITEMS, updates=0.5)][:2000]]
    probes += [decode(value, key, sent[-1].timestamp) for key, value in made_up(500, seed=2)]
    assert again.judge(probes).verdicts == calm.judge(probes).verdicts
    again.close()
    calm.close()
