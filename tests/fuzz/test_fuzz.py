"""Every decoder of outside bytes takes mutants of valid inputs, and raises only what it documents.

`make test`: a few hundred mutants for each decoder; what hypothesis finds beyond them stands in tests/news. `make
soak`: ten million; FUZZ_INPUTS, FUZZ_SEED and FUZZ_PROCESSES choose others. tests/lab/results/fuzz.json has
the counts.
"""

import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import pytest

from tests.fuzz.loop import Run, Target, run
from tests.fuzz.targets import targets
from tests.lab.measured import record

TARGETS = targets()
_QUICK = 300
_ROUND = 100_000
"""Mutants of a seed in the long run; the next round has the next seed."""
_SLOWEST = 2.0
"""Processor seconds after which an input of at most 4 KB counts as a hang; the slowest takes some ms."""


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_decoder_raises_only_what_it_documents(target: Target) -> None:
    found = run(target, seed=15, inputs=max(5, round(_QUICK * target.share)))
    assert found.inputs >= 5


def test_the_loop_fails_at_what_a_decoder_does_not_handle_and_repeats_itself() -> None:
    seen: list[list[bytes]] = [[], []]
    for inputs in seen:
        run(Target("seen", [b"abc", b"defg" * 9], [b"<p>"], inputs.append), 3, 50)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 30
    with pytest.raises(AssertionError, match="broken, seed 1, input"):
        run(Target("broken", [b"abc"], [], lambda data: data.decode("ascii")), 1, 200)


def _round(seed: int, inputs: int) -> dict[str, Run]:
    """Put this number of mutants into all decoders."""
    shares = sum(target.share for target in TARGETS)
    return {target.name: run(target, seed, int(inputs * target.share / shares) + 1) for target in TARGETS}


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_ten_million_mutants() -> None:
    total, seed, processes = (
        int(os.environ.get("FUZZ_INPUTS", "10000000")),
        int(os.environ.get("FUZZ_SEED", time.time_ns() % 10**6)),
        int(os.environ.get("FUZZ_PROCESSES", "1")),
    )
    print(f"seed {seed}")
    rounds, start = -(-total // _ROUND), time.perf_counter()
    by_decoder: dict[str, Run] = {}
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        done = [pool.submit(_round, seed + number, min(total, _ROUND)) for number in range(rounds)]
        for each in as_completed(done):
            for name, found in each.result().items():
                before = by_decoder.get(name, Run(0, 0, 0.0))
                by_decoder[name] = Run(
                    before.inputs + found.inputs, before.accepted + found.accepted, max(before.slowest, found.slowest)
                )
            report = {  # after each round, so that a run that is stopped has counts too
                "seed": seed,
                "inputs": sum(each.inputs for each in by_decoder.values()),
                "crashes": 0,
                "hangs": 0,
                "slowest_s": round(max(each.slowest for each in by_decoder.values()), 3),
                "minutes": round((time.perf_counter() - start) / 60, 1),
                "by_decoder": {
                    name: {"inputs": each.inputs, "accepted": each.accepted} for name, each in by_decoder.items()
                },
            }
            record("fuzz", report)
    assert report["inputs"] >= total
    assert report["slowest_s"] < _SLOWEST
