"""Measure the memory that an original takes: the resident memory of a separate process, not a sum of array sizes.

Originals are synthetic: random sketches and keys, as hashes are.

python -m tests.lab.benchmarks.memory default 10000000
"""

import contextlib
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from stream_dedup.dedup.batch import ARRIVAL, DELETED, Delta
from stream_dedup.dedup.decider import Decider
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import footprint
from stream_dedup.settings import Settings, load_settings
from tests.index.check import merge
from tests.lab.benchmarks.corpus import Run
from tests.lab.load.process import resident

PROFILES: dict[str, dict[str, Any]] = {
    "default": {},
    "compact": {"fingerprint": {"family": "compact"}},
}
ID_BYTES = 40  # a SHA-1 in hexadecimal, the longest ids that feeds commonly have
UPDATES = 20  # one original in twenty is an update, with the id of its story: of real feeds 3 to 5 in 100 are
_WORDS = 500  # of an original, whose sequence is kept: a head, and two bytes a word
_BODY_BYTES = 8.0 + 2 * _WORDS
_DAY = 86_400_000


def deltas(settings: Settings, originals: int, batch: int) -> Iterator[Delta]:
    """Yield a changelog of distinct originals: random sketches and keys, with times that rise over one day."""
    scheme, random = Scheme(settings.fingerprint), np.random.default_rng(1)
    for start in range(0, originals, batch):
        n = min(batch, originals - start)
        signatures = np.frombuffer(random.bytes(n * scheme.signature_dtype.itemsize), scheme.signature_dtype).copy()
        signatures["time"] = np.linspace(start, start + n, n) / originals * _DAY
        keys = random.integers(1, 2**32, (n, scheme.key_columns), np.uint32)
        ids = [f"{original:0{ID_BYTES}x}" for original in range(start, start + n)]
        arrivals, latest = np.zeros(n, ARRIVAL), int(signatures["time"][-1])
        arrivals["watermark"] = arrivals["elapsed"] = latest
        stories = ["" if i % UPDATES else ids[i][::-1] for i in range(n)]
        none, head = np.empty(0, DELETED), _WORDS.to_bytes(4, "little") + bytes(4)
        bodies = [head + random.bytes(2 * _WORDS) for _ in range(n)] if scheme.has_bodies else []
        yield Delta(signatures, keys, ids, none, latest, bodies, arrivals=arrivals, elapsed=latest, stories=stories)


def _resident() -> int:
    """Return the resident bytes of this process, after freed memory was returned to the system."""
    with contextlib.suppress(OSError):  # no malloc_trim without glibc
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return resident(os.getpid())


def _resident_bytes(profile: str, originals: int) -> float:
    settings = load_settings(**PROFILES[profile])
    warm = Decider(settings)
    for delta in deltas(settings, 100_000, 20_000):
        warm.restore(delta)
    merge(warm.index)
    warm.close()
    del warm, delta
    empty_bytes = _resident()
    dedup = Decider(settings)
    for delta in deltas(settings, originals, 20_000):
        dedup.restore(delta)
    del delta
    merge(dedup.index)
    filled_bytes = _resident()
    dedup.close()
    return (filled_bytes - empty_bytes) / originals


def measure(run: Run, originals: int = 10**7) -> dict[str, float]:
    """Return resident bytes an original of each profile, ids of 40 bytes included, and the estimate of `plan`.

    The run changes nothing.
    """
    out = {}
    for profile, tables in PROFILES.items():
        done = subprocess.run(
            [sys.executable, "-m", "tests.lab.benchmarks.memory", profile, str(originals)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        measured = float(json.loads(done.stdout))
        scheme = Scheme(load_settings(**tables).fingerprint)
        body_bytes = _BODY_BYTES if scheme.has_bodies else 0.0  # all are younger than index.texts
        planned = footprint(scheme, originals, ID_BYTES, body_bytes).bytes_per_item
        out[f"bytes_per_original_{profile}"] = measured
        out[f"plan_bytes_per_original_{profile}"] = planned
        out[f"plan_vs_measured_{profile}"] = planned / measured
    return out


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_resident_bytes(sys.argv[1], int(sys.argv[2]))))
