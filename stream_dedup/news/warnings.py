"""Warn of what gives wrong results without an error: the cause, and a cure that works when followed to the letter.

In: the `Summary` of a feed, and how long the fields of its records are. Out: warnings, the most serious first.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from stream_dedup.news.lists import PARTS
from stream_dedup.news.summary import MOST_SOURCES, SHOWN_PATHS, Summary
from stream_dedup.phrases import counted, moment, span
from stream_dedup.settings import ItemSettings

_PROSE = 40  # mean characters of a field that may be a text
# With fewer items a share means nothing. From this share on, bad items are more than slips in single records.
_FEW, _MANY_BAD = 10, 0.05
# Three times as many steps back as forward are more than jitter: in a reversed feed nearly all steps go back.
_MOSTLY = 3
# Records and their own dates lie apart: a tenth of the items by more than a window, or the dates spread over days, as
# bulletins do, while the records span a tenth of that at most. Late items of a live feed are fewer.
_APART, _SPREAD_MS, _DENSER = 10, 2 * 86_400_000, 10
# The first month of 1970: seconds read as milliseconds fall into it until the year 2055.
_SECONDS_AS_MS = 31 * 86_400_000
_READABLE = (
    "ISO 8601 (2024-01-31T10:00:00Z), RFC 2822 (Wed, 31 Jan 2024 10:00:00 GMT), the day first with dots "
    "(31.01.2024 10:00), a number of seconds or milliseconds since 1970"
)
# The names that a field probably has in records of no known shape; a text is the longest field of none of these.
_LIKELY = {
    "id": re.compile(r"(^|[._-])(\w*id|uri|key)$", re.I),
    "title": re.compile(r"title|headline|heading|subject", re.I),
    "source": re.compile(r"source|site|publisher|domain|host", re.I),
    "url": re.compile(r"url|link|href", re.I),
    "published": re.compile(r"date|time|publish|created", re.I),
}
# The fields whose lack gives wrong results without an error, and what is lost.
_LACKS = {
    "title": "No item has a title, by which many duplicates are found",
    "text": "No item has a text, so titles alone are compared",
    "published": "No item has a date, so no original is ever too old",
    "id": "No item has an id, so a new version of an article is not known as one (its place stands in, such as 0:17)",
    "source": "No item has a source or url, so a site's own series cannot be told from copies on other sites",
}
# The fields that only the envelopes of CloudEvents have, and what is wrong if they are alike.
_LENT = {
    "id": "The ids are those of the CloudEvents, so a new version of an article counts as another article",
    "source": "All items have the source of their CloudEvents, so copies on other sites look like a site's own series",
    "published": "All items have one date, that of their CloudEvents, so no original is ever too old",
}


def warnings_of(
    found: Summary, settings: ItemSettings, window: int, paths: Mapping[str, float]
) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of each warning, the most serious first. `window` in ms; `paths`: mean
    characters of the fields of the records."""
    items = found.items - found.tombstones
    if not found.items:
        yield "nothing", "The input is empty: there are no records."
        return
    first = f" The first: {found.reasons[0]}." if found.reasons else ""
    if found.bad and found.all_bad:
        yield "all-bad", f"All {items:,} items are bad: nothing can be judged.{first}"
    elif items >= _FEW and found.bad >= _MANY_BAD * items:
        yield "many-bad", f"{found.bad:,} of {items:,} items are bad.{first}"
    if any("not UTF-8" in reason for reason in found.reasons):
        yield (
            "not-utf-8",
            "Items are not UTF-8. If it is Latin-1, as in old exports: iconv -f WINDOWS-1252 -t UTF-8 FILE > OTHER",
        )
    if found.looked:
        yield from _absent(found, settings, paths)
    if not found.all_bad:  # they have no dates that count, and another cause comes first
        yield from _lent(found, paths)
    dates = found.dates
    if dates.unreadable:
        count = counted(dates.unreadable, "date")
        yield "unreadable-dates", f"{count} cannot be read ({dates.examples[0]}). What can be read: {_READABLE}."
    if dates.latest is not None and dates.latest < _SECONDS_AS_MS:
        yield (
            "dates-1970",
            f"All dates lie in January 1970 ({moment(dates.latest)} at the latest): they look like seconds where "
            "milliseconds are meant. Let the producer write milliseconds since 1970.",
        )
    if dates.future:
        yield (
            "future-dates",
            f"{counted(dates.future, 'date')} in the future ({dates.first_future}) do not count. Is the clock right "
            "that gave them?",
        )
    is_dense = dates.spread >= max(_SPREAD_MS, _DENSER * dates.record_spread)
    if dates.dated >= _FEW and (_APART * dates.apart >= dates.dated or is_dense):
        yield (
            "backfill",
            f"Of the first {counted(dates.dated, 'dated record')}, {dates.apart:,} are dated further than the window "
            f"({span(window)}) from their Kafka timestamp. Without a tenth at each end, timestamps span "
            f"{span(dates.record_spread)}, and dates {span(dates.spread)}. By timestamps a backfill is compared as one "
            'moment: set [item] time = "published" to go by the dates.',
        )
    if dates.jumps or dates.backwards >= max(_FEW, _MOSTLY * dates.forwards):
        yield (
            "backwards",
            f"At {counted(dates.backwards, 'place')} the dates go back, at {dates.jumps:,} by more than the "
            f"window ({span(window)}), by {span(dates.furthest_back)} at most: of each pair the later copy may be let "
            "through, the earlier held back. Sort the items by date, the oldest first, or correct the dates.",
        )
    yield from _shared_ids(found)
    yield from _longer(found, paths)


def _shared_ids(found: Summary) -> Iterator[tuple[str, str]]:
    """Warn of ids that name no articles; the addresses may tell them apart, if nearly all differ."""
    if found.shared_ids:
        is_apart = _FEW * found.addresses >= (_FEW - 1) * min(found.looked, MOST_SOURCES)
        other = next(iter(found.origins.get("url", {})), None) if is_apart else None
        yield (
            "shared-ids",
            f"{found.shared_ids:,} items share their id with an item of another text, such as "
            f"{found.shared_id}: their ids name no articles. In files such items are judged by their texts "
            "alone, as if they had no id; on Kafka each counts as a new version of the one before it, if the "
            "source is the same. Let the producer give each its own, or name a field that tells them apart"
            f"{_such_as({'id': other})}.",
        )


def _longer(found: Summary, paths: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Warn of a field that is longer than what was read as the text, and has no name of a text."""
    read = max((paths.get(path, 0) for path in found.origins.get("text", {})), default=0)
    others = [
        path for path in paths if path not in found.left and not any(path in each for each in found.origins.values())
    ]
    if read and others and paths[others[0]] > 2 * read and paths[others[0]] >= _PROSE:
        yield (
            "longer-field",
            f"The longest field, {others[0]}, is not read; the text is {', '.join(found.origins['text'])}. If "
            f"it has the article, name it{_such_as({'text': others[0]})}.",
        )


def _absent(found: Summary, settings: ItemSettings, paths: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Warn of fields that no item has, and propose fields of the records for them."""
    has = {name: bool(count) for name, count in found.filled.items()}
    has |= {"id": bool(found.names), "source": bool(found.largest)}
    if settings.fingerprint is not None or settings.format == "text":
        has |= {"title": True, "text": True}
    if found.all_bad or found.dates.origin == "timestamp" or found.dates.unreadable:
        has["published"] = True
    missing = [name for name in _LACKS if not has[name]]
    if missing[:2] == ["title", "text"]:
        yield "no-fields", f"No item has a title or a text{_cure(paths, missing[:2])}"
        return  # other missing fields have the same cause
    for name in missing:
        yield f"no-{name}", f"{_LACKS[name]}{_cure(paths, ['source', 'url'] if name == 'source' else [name])}"


def _lent(found: Summary, paths: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Warn of what an envelope says of all items alike, or of each record and not of its article."""
    alike = {"id": True, "source": found.sources == 1, "published": found.dates.earliest == found.dates.latest}
    for name, text in _LENT.items():
        if alike[name] and _FEW <= found.looked == found.lent.get(name):
            yield f"envelope-{name}", f"{text}{_cure(paths, ['source', 'url'] if name == 'source' else [name])}"


def _cure(paths: Mapping[str, float], missing: Sequence[str]) -> str:
    """List the fields that the records have, the probable ones as a setting."""
    if not paths:
        return "."
    own = [path for path in paths if not PARTS.search(path.rpartition(".")[0])]
    likely = {name: [path for path in own if pattern.search(path)] for name, pattern in _LIKELY.items()}
    guesses = {name: min(likely[name], key=len, default=None) for name in missing if name in likely}
    # The longest fields of names that say nothing: of a table without a header, too.
    known = {path for each in likely.values() for path in each}
    rest = iter([path for path in own if path not in known])
    if "text" in missing:
        guesses["text"] = next((path for path in rest if paths[path] >= _PROSE or "title" in missing), None)
    if "text" in missing and "title" in missing and not guesses["title"]:
        guesses["title"] = next(rest, None)
    present = f"{', '.join([*paths][:SHOWN_PATHS])}{', …' if len(paths) > SHOWN_PATHS else ''}"
    return f". The records have {present}: if one of them is the field, name it{_such_as(guesses)}."


def _such_as(guesses: Mapping[str, str | None]) -> str:
    """How to name fields in the settings, as two lines of a file in one."""
    examples = ", ".join(f'{name} = "{path}"' for name, path in guesses.items() if path)
    return f" under [item.fields] in the settings (--config FILE){f', such as {examples}' if examples else ''}"
