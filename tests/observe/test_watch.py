"""All observers together: every hook is forwarded, and one `with` starts and ends them."""

import inspect
import urllib.request
from collections.abc import Sequence
from unittest.mock import Mock, call

import pytest

from stream_dedup.errors import Stalled
from stream_dedup.observe.probe import probe
from stream_dedup.observe.watch import ObserverGroup, Watch
from stream_dedup.settings import load_settings
from stream_dedup.worker.observer import CommitStep, Observer

HOOKS = sorted(name for name, _ in inspect.getmembers(Observer, inspect.isfunction) if not name.startswith("_"))


@pytest.mark.parametrize("hook", HOOKS)
def test_every_hook_is_forwarded_in_order(hook: str) -> None:
    arguments = tuple(inspect.signature(getattr(Observer, hook)).parameters)[1:]
    observers = Mock()
    getattr(ObserverGroup(observers.first, observers.second), hook)(*arguments)
    assert observers.mock_calls == [getattr(getattr(call, name), hook)(*arguments) for name in ("first", "second")]


def test_an_observer_that_fails_ends_neither_the_worker_nor_the_others(caplog: pytest.LogCaptureFixture) -> None:
    came = []

    class Broken(Observer):
        def loop_completed(self, tasks: Sequence[str]) -> None:
            raise OSError("too many open files")

    class Well(Observer):
        def loop_completed(self, tasks: Sequence[str]) -> None:
            came.append(tasks)

    group = ObserverGroup(Broken(), Well())
    for _ in range(3):
        group.loop_completed(["global"])
    assert len(came) == 3
    assert [record.getMessage() for record in caplog.records] == [
        "Broken could not take in loop_completed (a bug; logged once); the worker goes on"
    ]


def test_a_worker_is_watched_from_before_its_start_to_its_end() -> None:
    steps = []

    class Other(Observer):
        def step(self, step: CommitStep, task: str) -> None:
            steps.append(step)

    settings = load_settings(observe={"port": 0})
    with Watch(settings, "1.2.3", Other()) as watch:
        health = f"{watch.health_url}/healthz"
        assert not probe(health)[0], "it is starting"
        decider = watch.decider(settings)
        watch.loop_completed(["global"])
        watch.step(CommitStep.POLL, "global")
        watch.error(Stalled("x"), 0.2)
        assert probe(health)[0]
        with urllib.request.urlopen(f"{watch.url}/metrics", timeout=10) as answer:  # noqa: S310 - our own server
            body = answer.read()
        for line in (b'stream_dedup_role{role="active"} 1.0', b"stream_dedup_index_rows 0.0", b"process_resident_mem"):
            assert line in body
        assert b"_created" not in body
        assert steps == [CommitStep.POLL]
        decider.close()
    assert "no worker listens" in probe(health)[1]


def test_without_http_it_still_counts() -> None:
    with Watch(load_settings(observe={"host": ""}), "1.2.3") as watch:
        assert watch.url is None
        watch.loop_completed([])
        assert watch.registry.get_sample_value("stream_dedup_role", {"role": "standby"}) == 1
