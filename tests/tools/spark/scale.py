"""Measure Spark on archives of growing size and on floods of one form.

    python -m tests.tools.spark.scale --corpus FILE.jsonl.gz --items 10000 100000 1000000 --master local[1] local[2]
    python -m tests.tools.spark.scale --flood 25000 50000 100000 --master local[2] --bucket-limit 64

An archive is the corpus again and again, each time in other words: every letter becomes another one of its kind, so
copies stay copies and hardly any word occurs in an earlier repetition. Each run is the command `stream-dedup pairs` in
a process of its own. tests/lab/results/spark.json keeps items/s, processor time, and the peak of the resident
memory of all its processes together. With `--local` the single process runs, too, and both must give the same counts.
"""

import argparse
import json
import os
import random
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from stream_dedup.tools.demo.newsroom import sample_feed
from stream_dedup.tools.inputs.lines import read_lines
from tests.lab import measured
from tests.lab.load.process import processor, resident

_VOWELS = "aeiou"
_CONSONANTS = "".join(sorted(set(string.ascii_lowercase) - set(_VOWELS)))
_FORM_WORDS, _SWAPPED = 300, 20


def archive(paths: list[Path], items: int) -> Iterator[bytes]:
    """Yield `items` lines: the corpus, or the synthetic feed, repeated in other words."""
    lines = [line for path in paths for line in read_lines(path)] or list(map(msgspec.json.encode, sample_feed(20_000)))
    repetitions = -(-items // len(lines))
    yield from islice((one for r in range(repetitions) for one in in_other_words(lines, r)), items)


def in_other_words(lines: Iterable[bytes], repetition: int) -> Iterator[bytes]:
    """Yield the lines with letters exchanged, vowels for vowels and consonants for consonants.

    >>> list(in_other_words([b'{"id":"1","title":"Elm"}'], 0))
    [b'{"id":"1","title":"Elm"}']
    >>> list(in_other_words([b'{"id":"1","title":"Elm"}'], 1))
    [b'{"id":"1+1","title":"Awx"}']
    """
    if not repetition:
        yield from lines
        return
    other = random.Random(repetition)
    table: dict[int, str] = {}
    for letters in (_VOWELS, _CONSONANTS):
        exchanged = "".join(other.sample(letters, len(letters)))
        table |= str.maketrans(letters + letters.upper(), exchanged + exchanged.upper())
    for line in lines:
        fields = msgspec.json.decode(line)
        changed = {n: fields[n].translate(table) for n in ("title", "text") if isinstance(fields.get(n), str)}
        yield msgspec.json.encode(fields | changed | {"id": f"{fields.get('id')}+{repetition}"})


def flood(items: int) -> Iterator[bytes]:
    """Yield pages of one form and source: 20 of 300 words are drawn anew, and two words of the headline."""
    draw = random.Random(1)
    vocabulary = ["".join(draw.choices(string.ascii_lowercase, k=draw.randint(3, 9))) for _ in range(20_000)]
    form = [draw.choice(vocabulary) + "." * (i % 12 == 11) for i in range(_FORM_WORDS)]
    places = draw.sample(range(_FORM_WORDS), _SWAPPED)
    for i in range(items):
        for place in places:
            form[place] = draw.choice(vocabulary)
        title = f"Weather for {draw.choice(vocabulary)} and {draw.choice(vocabulary)} today and tomorrow"
        page = {"id": f"f{i}", "title": title, "text": " ".join(form), "source": "weather.example", "published": i}
        yield msgspec.json.encode(page)


def measure(path: Path, folder: Path, options: list[str]) -> dict[str, Any]:
    """Run `pairs` on a file; return its counts, items/s, processor seconds and the peak of its memory."""
    outputs = ["--output", f"{folder}/pairs.parquet", "--clusters", f"{folder}/clusters.parquet"]
    command = [sys.executable, "-m", "stream_dedup", "pairs", str(path), *outputs, "--json", "--force", *options]
    started, peak, used = time.monotonic(), 0, dict[int, float]()
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(command, stdout=printed)
        while process.poll() is None:
            size = 0
            for pid in _family(process.pid):
                with suppress(OSError):  # it has ended
                    used[pid], size = processor(pid), size + resident(pid)
            peak = max(peak, size)
            time.sleep(0.2)
        seconds = time.monotonic() - started
        printed.seek(0)
        counts = json.loads(printed.read() or b"{}")
    if process.returncode:
        return {"exit": process.returncode, "seconds": round(seconds), "peak_mib": peak >> 20}
    names = ("items", "pairs", "clusters", "clustered", "compared", "hot", "left_out")
    found = {name: counts[name] for name in names}
    cpu = sum(used.values())
    return found | {
        "items_a_second": round(counts["items"] / counts["seconds"]), "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1), "cpu_us_an_item": round(cpu / counts["items"] * 1e6), "peak_mib": peak >> 20,
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def _family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for one in found:
        with suppress(OSError):  # it has ended
            for thread in Path(f"/proc/{one}/task").iterdir():  # each thread may start processes
                found += map(int, (thread / "children").read_text().split())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure Spark on archives.")
    parser.add_argument("--corpus", type=Path, nargs="*", default=[])
    parser.add_argument("--items", type=int, nargs="*", default=[])
    parser.add_argument("--flood", type=int, nargs="*", default=[])
    parser.add_argument("--master", nargs="*", default=["local[2]"])
    parser.add_argument("--memory", default="1G")
    parser.add_argument("--bucket-limit", default="1024")
    parser.add_argument("--local", action="store_true")
    given = parser.parse_args()
    work = [("items", n, archive(given.corpus, n)) for n in given.items] + [("flood", n, flood(n)) for n in given.flood]
    common = ["--bucket-limit", given.bucket_limit, "--memory", given.memory]
    engines = {master: ["--engine", "spark", "--master", master] for master in given.master}
    if given.local:
        engines["single process, 2 threads"] = ["--engine", "local", "--threads", "2"]
    for kind, count, lines in work:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "archive.jsonl"
            with path.open("wb") as file:
                file.writelines(line + b"\n" for line in lines)
            found = []
            for name, options in engines.items():
                figures = measure(path, Path(folder), [*common, *options])
                limit = f", bucket limit {given.bucket_limit}" if kind == "flood" else ""
                print(kind, count, name, json.dumps(figures), flush=True)
                measured.record("spark", {f"{kind} {count}{limit}, {name}": figures})
                found.append([figures.get(key) for key in ("items", "pairs", "clusters", "compared", "left_out")])
            assert all(one == found[0] for one in found), found


if __name__ == "__main__":
    main()
