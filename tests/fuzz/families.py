"""What hostile families cost: the instructions of each phase of a batch at 1, 2, 4 and 8 times the bytes.

`python -m tests.fuzz.families` counts them with callgrind (valgrind; some minutes), and writes the counts to
tests/lab/results/hostile.json, from which docs/build.py makes the table in docs/testing.md. Unlike seconds,
instructions hardly differ between runs: the secret of the hash tables does. They are those of Python, numpy and the
core together.
"""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from stream_dedup import Item
from stream_dedup.dedup.decider import Decider
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Tombstone
from stream_dedup.settings import load_settings
from tests.fuzz.growth import record_of
from tests.fuzz.records import NOW
from tests.fuzz.skewed import skewed_text
from tests.lab.measured import RESULTS, change

SIZES = (1, 2, 4, 8)
PHASES = ("prepare", "judge", "apply", "restore")
MOST = 1.3
"""How many times as much a byte may cost at 8 times the bytes."""
_LETTERS, _RECORDS = 20_000, 60  # of size 1

_SEED = 1
_TEXTS: dict[str, Callable[[int], str]] = {
    "skewed bins": lambda size: skewed_text("one bin", size // 3, _SEED),
    "colliding slots": lambda size: skewed_text("one slot", size // 3, _SEED),
    "equal words": lambda size: ("the bridge over the Elm " * (size // 24 + 1))[:size],
    "one word": lambda size: "a" * size,
    "marks": lambda size: "a" + "\u0301\u0316" * (size // 4),
    "entities": lambda size: "&amp;amp;" * (size // 9),
    "sentences of one word": lambda size: " ".join(f"Word{n}." for n in range(size // 10)),
    "figures only": lambda size: " ".join(map(str, range(size // 6))),
    # Half as long. Up to `clean.MOST_TAGS` a byte costs more the deeper it stands; then it is read in another way.
    "deep nesting": lambda size: "<div>" * (size // 22) + "word " + "</div>" * (size // 22),
}


def _version(n: int, name: str) -> Item:
    return Item(name, f"Bridge opens {n}", f"The bridge opens on Monday, for the {n}th time", "a.example", NOW + n)


def _separate(n: int) -> Item:
    words = [f"w{n}x{k}" for k in range(12)]
    return Item("same id", " ".join(words[:6]), " ".join(words), f"s{n}.example", NOW + n)


def _one_key(n: int) -> Item:
    return Item(str(n), "Mayor opens the bridge over the Elm", f"w{n}x " * 9, f"s{n}.example", NOW + n)


_RECORDS_OF: dict[str, tuple[Callable[[int], Item] | None, Callable[[int], Item | Tombstone]]] = {
    "tombstones": (_separate, lambda n: Tombstone("same id", NOW + n, 0, n)),
    "versions": (None, lambda n: _version(n, "v")),
    "one key": (None, _one_key),
}
FAMILIES = (*_TEXTS, *_RECORDS_OF)


def _decoded(decode: Decoder, records: Sequence[bytes]) -> list[Any]:
    return [decode(record, b"%d" % n, NOW) for n, record in enumerate(records)]


def _made(of: Callable[[int], Item | Tombstone], count: int) -> list[Any]:
    return [of(n) for n in range(count)]


def steps_of(family: str, size: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """The phases of a family, each with its function."""
    settings = load_settings(policy={"updates": "forward" if family == "versions" else "compare"})
    decode, count = Decoder(settings.item), _RECORDS * size
    with Decider(settings) as dedup, Decider(settings) as other:
        if family in _TEXTS:
            text = _TEXTS[family](_LETTERS * size)
            records = [record_of("text", one) for one in (text, f"{text} It opened on Monday, said the mayor.")]
            make = partial(_decoded, decode, records)
        else:
            before, of = _RECORDS_OF[family]
            if before is not None:
                delta = dedup.judge([before(n) for n in range(count)])
                dedup.apply(delta)
                other.restore(delta.delta)
            make = partial(_made, of, count)
        made: dict[str, Any] = {}

        def prepare() -> None:
            made["prepared"] = dedup.prepare(make())

        def judge() -> None:
            made["batch"] = dedup.judge(made["prepared"])

        def restore() -> None:
            other.restore(made["batch"].delta)
            other.catch_up()

        yield "prepare", prepare
        yield "judge", judge
        yield "apply", lambda: dedup.apply(made["batch"])
        yield "restore", restore


# -- counting ----------------------------------------------------------------------------------------------------------

_COUNTER = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(const char *name) { CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
"""


def _run(families: Sequence[str], sizes: Sequence[int], counter: str) -> None:
    """Run the phases, and let callgrind count each; in a process under valgrind."""
    calls = ctypes.CDLL(counter)
    for family in families:
        for _, function in steps_of(family, 1):  # what is made once
            function()
        for size in sizes:
            for phase, function in steps_of(family, size):
                calls.begin()
                function()
                calls.end(f"{family}|{phase}|{size}".encode())


def missing() -> str:
    """What this machine lacks to count; empty if nothing."""
    absent = [name for name in ("valgrind", "gcc") if shutil.which(name) is None]
    return f"apt-get install {' '.join(absent)}" if absent else ""


def count(families: Sequence[str] = FAMILIES, sizes: Sequence[int] = SIZES) -> dict[str, dict[str, list[int]]]:
    """Instructions by family and phase, one number for each size."""
    found: dict[str, dict[str, list[int]]] = {family: {phase: [] for phase in PHASES} for family in families}
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "counter.c").write_text(_COUNTER)
        subprocess.run(["gcc", "-shared", "-fPIC", "counter.c", "-o", "counter.so"], cwd=folder, check=True)
        command = [
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={folder}/out",
        ]
        code = f"from tests.fuzz.families import _run; _run({[*families]}, {[*sizes]}, {str(folder / 'counter.so')!r})"
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        subprocess.run([*command, sys.executable, "-c", code], check=True, env=environment, stderr=subprocess.DEVNULL)
        for family, phase, instructions in _counted(folder):
            found[family][phase].append(instructions)
    return found


def _counted(folder: Path) -> Iterator[tuple[str, str, int]]:
    """Family, phase and instructions of each count of callgrind, in order."""
    for path in sorted(folder.glob("out.*"), key=lambda path: int(path.suffix[1:])):
        text = path.read_text()
        named = re.search(r"^desc: Trigger: Client Request: (.*)\|(.*)\|\d+$", text, re.MULTILINE)
        total = re.search(r"^totals: (\d+)$", text, re.MULTILINE)
        if named and total:
            yield named[1], named[2], int(total[1])


def growth(counts: Sequence[int], sizes: Sequence[int] = SIZES) -> float:
    """How many times as much a byte costs at the largest size as at the smallest."""
    return counts[-1] / counts[0] * sizes[0] / sizes[-1]


def main() -> None:
    """Count, write the result, and print what grows."""
    found = count()
    change("hostile", lambda known: known.update(found))
    for family, phases in found.items():
        print(f"{family:24}", *(f"{phase} {growth(counts):.2f}" for phase, counts in phases.items()))
    print(RESULTS / "hostile.json")


if __name__ == "__main__":
    main()
