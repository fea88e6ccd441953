"""What the status page and reports share: a Jinja2 environment with the templates, filters, and marks of differences.

`templates/pairs.html` shows an item beside its original, on the status page (page.py) and on the pages of the tools,
which stand alone in one file. News text is hostile: Jinja2 escapes every value, and the templates mark nothing as safe.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache, partial

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from stream_dedup.dedup.verdict import Evidence, Verdict
from stream_dedup.news.item import Item
from stream_dedup.observe.logs import without_secrets
from stream_dedup.settings import Settings, secrets_of
from stream_dedup.tools.marks import compare_items
from stream_dedup.tools.page.retained import JudgedItem
from stream_dedup.tools.wording import describe_verdict


def environment(settings: Settings, place: Callable[[int, int], str]) -> Environment:
    """Make the environment of the templates. `place`: names a partition and an offset, or an input and a line."""
    made = Environment(
        # The style is included in pages that stand alone.
        loader=ChoiceLoader([PackageLoader("stream_dedup.tools.page", name) for name in ("templates", "static")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "clock": _clock, "moment": _moment, "event": _event, "words": describe_verdict, "duration": duration,
        "bytes": byte_size, "secretless": partial(without_secrets, secrets=secrets_of(settings)),
    }  # fmt: skip
    made.globals |= {"rows": partial(_evidence, settings), "differences": _differences, "place_of": place}
    return made


def _evidence(settings: Settings, verdict: Verdict) -> list[tuple[str, str, str]]:
    """Return the rows of the evidence: what was compared, its value and the threshold, with three digits."""
    e, d = verdict.evidence or Evidence(), settings.decision
    rows = [
        ("headline: words in common", e.headline, None),
        ("text: phrases in common", e.body, d.jaccard),
        ("text: share of the shorter one found in the other", e.containment, None),
        ("article: share that the original holds", e.covered, None),
        ("article: share of words that the original lacks", e.new_share, None),
        ("novelty: how likely it has something new", e.novelty, d.threshold),
    ]
    return [(name, _share(value), _share(needed)) for name, value, needed in rows if value is not None]


Segments = list[tuple[str, bool]]
# A long passage that both texts have: of each end some three lines are shown, up to a word where there are words.
_LONG = re.compile(r"(?s)(.{180,200}\b|.{200}).{40,}(\b.{180,200}|.{200})")


def _differences(original: JudgedItem, item: JudgedItem) -> list[tuple[Segments, Segments]]:
    """Return (headlines, texts), each as segments of the original and of the item: text, and whether to mark it."""
    first, second = (Item("", one.title, one.text, one.source, 0) for one in (original, item))
    return _marked(first, second, original.truncated, item.truncated)


# The status page compares the same fifty pairs at each refresh.
@lru_cache(maxsize=256)
def _marked(first: Item, second: Item, *cut: bool) -> list[tuple[Segments, Segments]]:
    """Split headlines and texts into segments, marked where the other lacks them. `cut`: a text goes on after its end.

    What both have is shortened in the middle, so that differences of long texts are in sight.

    >>> a, b = (Item("", "", f"The bridge opened on {day}.", "", 0) for day in ("Monday", "Sunday"))
    >>> _marked(a, b, False, False)[1][1]
    [('The bridge opened on ', False), ('Sunday.', True)]
    """
    marked = []
    for compared, is_cut in zip(compare_items(first, second), ((False, False), cut), strict=True):
        sides = compared.sides()
        for side, is_other_cut in zip(sides, reversed(is_cut), strict=True):
            if side and is_other_cut:  # the other text may go on as this one ends
                side[-1] = side[-1][0], False
            side[:] = [(text if differs else _LONG.sub(r"\1 […] \2", text), differs) for text, differs in side]
        marked.append(sides)
    return marked


def _clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S UTC")


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _event(milliseconds: int) -> str:
    """Format an event time; a record may contain any number."""
    try:
        return _moment(milliseconds / 1000) if milliseconds >= 0 else "unknown"
    except (OverflowError, ValueError, OSError):
        return "out of any calendar"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{round(value, 3)}"


def duration(seconds: float) -> str:
    """Format a duration in its largest unit.

    >>> duration(604800), duration(5400), duration(60), duration(42)
    ('7 days', '1.5 hours', '1 minute', '42 seconds')
    """
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            number = f"{seconds / size:.1f}".removesuffix(".0")
            return f"{number} {unit}" if number == "1" else f"{number} {unit}s"
    return f"{seconds:.0f} seconds"


def byte_size(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} bytes"
