"""A made-up feed as lines of JSON: stories with copies, cuts, updates, redeliveries, undated and broken lines."""

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from stream_dedup.dedup.decider import Decider
from stream_dedup.dedup.verdict import Verdict
from stream_dedup.settings import Settings
from stream_dedup.tools.batch.filter import judge_batches
from stream_dedup.tools.inputs.lines import Line

HOUR = 3_600_000
START = 1_700_000_000_000  # November 2023: any clock that a test runs under is later

# 490 words, no two of which have the same first five letters: a text of 60 has a fifth of its words in common with one
# of 120, so that texts of other words are other texts.
_TAILS = ["dan", "mer", "lok", "sti", "fen", "gur", "hal"]
_WORDS = [consonant + vowel + tail for consonant in "bdgklmnprstvzf" for vowel in "aeiou" for tail in _TAILS]


def line(name: str, title: str = "", text: str = "", at: float | None = 0, **more: Any) -> bytes:
    """One item; `at`: hours after START, None: no date."""
    item: dict[str, Any] = {"id": name, "title": title, "text": text, "source": f"{name}.example", **more}
    if at is not None:
        item["published"] = START + int(at * HOUR)
    return json.dumps(item, ensure_ascii=False).encode()


def prose(seed: int, words: int = 60) -> str:
    """Words that make one article unlike every other."""
    return " ".join(random.Random(seed).choices(_WORDS, k=words))


def story(number: int, at: float | None = 0, name: str = "", **more: Any) -> bytes:
    """The article `number`, from the site `name`."""
    return line(name or f"s{number}", prose(-number - 1, 8), prose(number), at, **more)


def feed(items: int, seed: int = 1, hours: float = 1 / 60) -> list[bytes]:
    """Every kind of line that a filter may meet, in order of time, so many hours apart."""
    chance = random.Random(seed)
    lines: list[bytes] = []
    for i in range(items):
        number = chance.randrange(max(1, i - 20), i + 1) if i and chance.random() < 0.4 else i
        at = i * hours if chance.random() < 0.95 else None
        kind = chance.random()
        if kind < 0.04:
            lines.append(chance.choice([b'{"id": "cut', b"\xff\xfe", b"[1]", b'{"title": 5}', b"null"]))
        elif kind < 0.12 and i:
            name = f"s{chance.randrange(i)}"
            lines.append(line(name, prose(-number - 1, 8), prose(number + 10_000), at))  # same id, new text
        elif number == i:
            lines.append(story(number, at))
        else:
            text = prose(number) + " " + prose(i, 4)
            lines.append(line(f"copy{i}", prose(-number - 1, 8), text, at, url=f"https://other.example/{i}"))
    return lines


def write(path: Path, lines: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(one + b"\n" for one in lines))
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(one) for one in path.read_bytes().splitlines()]


def numbered(values: Iterable[bytes]) -> Iterator[Line]:
    """The lines of one input."""
    return (Line(value, 0, number) for number, value in enumerate(values, 1))


def judge_lines(
    lines: Iterable[bytes], settings: Settings, clock: Callable[[], float] = time.time
) -> Iterator[Verdict]:
    """The verdict on each line, in order, from an empty index; nothing is written."""
    with closing(Decider(settings)) as dedup:
        for batch in judge_batches(dedup, numbered(lines), clock):
            yield from batch.verdicts
