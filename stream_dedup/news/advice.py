"""Derive warnings from the summary of a feed: causes of wrong results that raise no error, each with its cure.

In: a `Summary` and the `[item]` settings with which the feed was read. Out: sentences for a person.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches

from stream_dedup.news.presets import AUTO, PRESETS, alternatives, shape_of
from stream_dedup.news.summary import Summary, Warned, moment, span
from stream_dedup.phrases import counted
from stream_dedup.settings import ItemSettings

# With fewer items a share means nothing.
_FEW = 10
_HALF = 0.5
# Three times as many steps back as forward are more than jitter: in a reversed feed nearly all steps go back.
_MOSTLY = 3
# From this share on, bad items are more than slips in single records.
_MANY_BAD = 0.05
# The first month of 1970: seconds read as milliseconds fall into it until the year 2055.
_SECONDS_AS_MS = 31 * 86_400_000
# Most fields of a record that a warning lists.
_MOST_LISTED = 12
_LIKELY = {
    "id": re.compile(r"(^|[._-])(\w*id|uri|key)$", re.I),
    "title": re.compile(r"title|headline|heading|subject", re.I),
    "source": re.compile(r"source|site|publisher|domain|host", re.I),
    "url": re.compile(r"url|link|href", re.I),
    "published": re.compile(r"date|time|publish|created", re.I),
}
_READABLE = (
    "ISO 8601 (2024-01-31T10:00:00Z), RFC 2822 (Wed, 31 Jan 2024 10:00:00 GMT), a number of seconds or "
    "milliseconds since 1970"
)

# Fields of a row of `filter --duplicates`, which people tend to check next.
_HELD_BACK = {"verdict", "original.id", "stage"}
_CONVERT = "If it is Latin-1, as old exports are: iconv -f WINDOWS-1252 -t UTF-8 FILE > OTHER"
_SORT = "Sort the items by date, the oldest first, or correct the dates."


def warnings_of(summary: Summary, settings: ItemSettings, window: int, paths: Sequence[str]) -> list[Warned]:
    """Return the warnings, the most serious first. `window` in ms; `paths`: the fields that the records have."""
    if not summary.items:
        return [Warned("nothing", "The input is empty: there are no records.")]
    found = [
        *_bad(summary),
        *_mistaken(summary, settings, paths),
        *_texts(summary, settings, paths),
        *_dates(summary, window, paths),
    ]
    if "no-fields" not in dict(found):  # other missing fields have the same cause
        found += _names(summary, paths)
    return [Warned(kind, text) for kind, text in found]


Warnings = list[tuple[str, str]]


def _bad(summary: Summary) -> Warnings:
    items = summary.items - summary.tombstones
    first = f" The first: {summary.reasons[0]}." if summary.reasons else ""
    if "not UTF-8" in first and summary.dates.origin != "timestamp":
        first += f" {_CONVERT}"
    if summary.bad and summary.all_bad:
        first = "" if summary.looked else first  # otherwise the next warning lists the records' fields
        return [("all-bad", f"{_all(items)} bad: nothing can be judged.{first}")]
    if items >= _FEW and summary.bad >= _MANY_BAD * items:
        return [("many-bad", f"{summary.bad:,} of {items:,} items {'is' if summary.bad == 1 else 'are'} bad.{first}")]
    return []


def _mistaken(summary: Summary, settings: ItemSettings, paths: Sequence[str]) -> Warnings:
    """Warn of paths in [item.fields] that no record has: a typing error looks like a feed without the field."""
    if not paths or settings.format == "text":
        return []
    warnings = []
    for name, path in settings.fields.items():
        if summary.filled.get(name) or set(alternatives(path)) & set(paths):
            continue
        similar = next((known for known in paths if known.lower() == path.lower()), None) or next(
            iter(get_close_matches(path, paths, 1)), None
        )
        hint = f"; did you mean {similar}?" if similar else "."
        warnings.append((f"wrong-{name}", f'[item.fields] says {name} = "{path}", which no record has{hint}'))
    return warnings


def _texts(summary: Summary, settings: ItemSettings, paths: Sequence[str]) -> Warnings:
    if not summary.looked or settings.fingerprint is not None or settings.format == "text":
        return []
    missing = [name for name in ("title", "text") if not summary.filled[name]]
    if len(missing) == 2 and set(paths) >= _HELD_BACK:
        cure = "they hold no text. Give the file that `filter` has read."
        return [("no-fields", f"These are rows that `filter --duplicates` writes; {cure}")]
    cure = _cure(settings, paths, missing)
    if len(missing) == 2 and (inner := _list_of_items(paths)):
        return [
            (
                "no-fields",
                f"Each record holds a list of items, {inner}. Make each of them a line: jq -c '.{inner}[]' FILE",
            )
        ]
    if len(missing) == 2:
        return [("no-fields", f"No item has a title or a text{cure}")]
    if "title" in missing:
        return [("no-title", f"No item has a title, by which many duplicates are found{cure}")]
    if "text" in missing:
        return [("no-text", f"No item has a text, so titles alone are compared{cure}")]
    return [
        (f"few-{name}s", f"Only {summary.filled[name]:,} of {summary.looked:,} items have a {name}.")
        for name in ("title", "text")
        if summary.looked >= _FEW and summary.filled[name] < _HALF * summary.looked
    ]


def _cure(settings: ItemSettings, paths: Sequence[str], missing: Sequence[str]) -> str:
    """List the fields that the records have, and say which setting reads them."""
    if not paths:
        return "."
    present = f": the records have {', '.join(paths[:_MOST_LISTED])}{', …' if len(paths) > _MOST_LISTED else ''}. "
    shape = shape_of({path.split(".")[0] for path in paths})
    if all(set(alternatives(PRESETS[shape][name])) & set(paths) for name in missing):
        if settings.preset not in (AUTO, shape):
            removal = ", and remove [item.fields]" if settings.fields else ""
            return (
                f'{present}Set preset = "auto" under [item] in the settings (--config FILE){removal}: it reads {shape}.'
            )
        if settings.fields:
            return f"{present}Remove {' and '.join(missing)} from [item.fields]: the preset finds them."
    example = _example(paths, missing)
    if not example:
        return f"{present}If one of them is the field, name it under [item.fields] in the settings (--config FILE)."
    return f"{present}Name them under [item.fields] in the settings (--config FILE){example}."


def _list_of_items(paths: Sequence[str]) -> str | None:
    """Find the list, as in the response of an API, whose members have both a probable title and a probable text."""
    title, text = _guess("title", paths), _guess("text", paths)
    if not title or not text:
        return None
    lists = [path.rpartition(".0.")[0] for path in (title, text)]
    return lists[0] if lists[0] and lists[0] == lists[1] else None


def _example(paths: Sequence[str], missing: Sequence[str]) -> str:
    guesses = {name: _guess(name, paths) for name in missing}
    examples = [f'{name} = "{path}"' for name, path in guesses.items() if path]
    return f", such as {', '.join(examples)}" if examples else ""


def _guess(name: str, paths: Sequence[str]) -> str | None:
    """Guess which field of the records is meant: by its name; for a text the one with the longest values."""
    if name == "text":
        return next((path for path in paths if not any(likely.search(path) for likely in _LIKELY.values())), None)
    return min(filter(_LIKELY[name].search, paths), key=len, default=None)


def _dates(summary: Summary, window: int, paths: Sequence[str]) -> Warnings:
    dates, warnings = summary.dates, list[tuple[str, str]]()
    is_record = dates.origin == "timestamp"
    if dates.unreadable:
        warnings.append(
            (
                "unreadable-dates",
                f"{counted(dates.unreadable, 'date')} cannot be read ({dates.examples[0]}). "
                f"What can be read: {_READABLE}.",
            )
        )
    if dates.latest is not None and dates.latest < _SECONDS_AS_MS:
        cure = (
            "Let the producer write milliseconds since 1970."
            if is_record
            else "Write ISO 8601, or seconds or milliseconds since 1970."
        )
        warnings.append(
            (
                "dates-1970",
                f"All dates lie in January 1970 ({moment(dates.latest)} at the latest): they look like seconds where "
                f"milliseconds are meant. {cure}",
            )
        )
    if not dates.known and dates.missing and not is_record and not summary.all_bad:
        warnings.append(
            (
                "no-dates",
                "No item has a date, so no original is ever too old. If the records have one, name its field under "
                f"[item.fields]{_example(paths, ['published'])}.",
            )
        )
    if dates.future:
        warnings.append(
            (
                "future-dates",
                f"{_some(dates.future)} in the future ({dates.first_future}) and "
                f"{'do' if dates.future > 1 else 'does'} not count. Is the clock right that gave "
                f"{'them' if dates.future > 1 else 'it'}?",
            )
        )
    if (dates.backwards or 0) >= max(_FEW, _MOSTLY * dates.forwards):
        warnings.append(
            (
                "backwards",
                "The dates run backwards: of each pair the later copy would be let through, the earlier held back. "
                + _SORT,
            )
        )
    if dates.jumps:
        places = counted(dates.jumps, "place")
        cure = _SORT
        if is_record and dates.earliest is not None and dates.earliest < _SECONDS_AS_MS:
            cure = (
                f"The earliest is of January 1970 ({moment(dates.earliest)}): a producer writes seconds where "
                "milliseconds are meant, or no time. Correct its record timestamps."
            )
        elif is_record:
            cure = "Is an archive replayed, or a producer's clock wrong?"
        warnings.append(
            (
                "jumps-back",
                f"At {places} the dates jump back by more than the window ({span(window)}), by "
                f"{span(dates.furthest_back)} at most. {cure}",
            )
        )
    return warnings


def _names(summary: Summary, paths: Sequence[str]) -> Warnings:
    warnings = []
    if summary.looked and not summary.names:
        warnings.append(
            (
                "no-id",
                "No item has an id, so a new version of an article is not known as one; its place stands in, such as "
                "0:17 (line 17 of the first file; on Kafka partition and offset). If the records have one, name its "
                f"field under [item.fields]{_example(paths, ['id'])}.",
            )
        )
    elif summary.compared >= _FEW and summary.repeated > _HALF * summary.compared:
        warnings.append(
            (
                "same-ids",
                f"{summary.repeated:,} of {summary.compared:,} items have the id of an earlier one, and count as new "
                "versions of it. Is [item.fields] id the field that tells articles apart?",
            )
        )
    if summary.looked and not summary.largest:
        warnings.append(
            (
                "no-source",
                "No item has a source or url, so a site's own series cannot be told from copies on other sites. If the "
                f"records have one, name its field under [item.fields]{_example(paths, ['source', 'url'])}.",
            )
        )
    return warnings


def _all(count: int) -> str:
    return f"All {count:,} items are" if count > 1 else "The only item is"


def _some(count: int) -> str:
    return f"{count:,} dates lie" if count > 1 else "1 date lies"
