"""A summary of what came in -> warnings: what would make the results wrong without an error, each with its cure.

In: the figures of a `Summary` and the `[item]` settings it was read with. Out: sentences for a person.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches

from stream_dedup.news.presets import AUTO, PRESETS, alternatives, shape_of
from stream_dedup.news.summary import Summary, Warned, moment, span
from stream_dedup.settings import ItemSettings

# Below this many items a share says nothing.
_FEW = 10
_HALF = 0.5
# So many times as many steps back as forward are no jitter: in a feed that is sorted the other way nearly all go back.
_MOSTLY = 3
# From this share of bad items on it is no longer a slip in one record.
_MANY_BAD = 0.05
# The first month of 1970: seconds that were taken for milliseconds give a day of it, until the year 2055.
_SECONDS_AS_MS = 31 * 86_400_000
# Fields of a record that are told at most.
_TOLD = 12
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

# Fields of a row of `filter --duplicates`, which a person likes to look at next.
_HELD_BACK = {"verdict", "original.id", "stage"}
_CONVERT = "If it is Latin-1, as old exports are: iconv -f WINDOWS-1252 -t UTF-8 FILE > OTHER"
_SORT = "Sort the items by date, the oldest first, or correct the dates."


def warnings_of(summary: Summary, settings: ItemSettings, window: int, paths: Sequence[str]) -> list[Warned]:
    """What looks wrong, the gravest first. `window` (ms); `paths`: fields of records without title or text."""
    if not summary.items:
        return [Warned("nothing", "There is nothing in it: no record came.")]
    found = [
        *_bad(summary),
        *_mistaken(summary, settings, paths),
        *_texts(summary, settings, paths),
        *_dates(summary, window, paths),
    ]
    if "no-fields" not in dict(found):  # what else is lacking comes of the same
        found += _names(summary, paths)
    return [Warned(kind, text) for kind, text in found]


Told = list[tuple[str, str]]


def _bad(summary: Summary) -> Told:
    items = summary.items - summary.tombstones
    first = f" The first: {summary.reasons[0]}." if summary.reasons else ""
    if "not UTF-8" in first and summary.dates.origin != "timestamp":
        first += f" {_CONVERT}"
    if summary.bad and summary.all_bad:
        told = "" if summary.looked else first  # else it is told next what the records have
        return [("all-bad", f"{_all(items)} bad: nothing can be judged.{told}")]
    if items >= _FEW and summary.bad >= _MANY_BAD * items:
        return [("many-bad", f"{summary.bad:,} of {items:,} items {'is' if summary.bad == 1 else 'are'} bad.{first}")]
    return []


def _mistaken(summary: Summary, settings: ItemSettings, paths: Sequence[str]) -> Told:
    """What [item.fields] names, and no record has: a slip of the pen, which else looks like a feed without it."""
    if not paths or settings.format == "text":
        return []
    told = []
    for name, path in settings.fields.items():
        if summary.filled.get(name) or set(alternatives(path)) & set(paths):
            continue
        near = next((one for one in paths if one.lower() == path.lower()), None) or next(
            iter(get_close_matches(path, paths, 1)), None
        )
        meant = f"; did you mean {near}?" if near else "."
        told.append((f"wrong-{name}", f'[item.fields] says {name} = "{path}", which no record has{meant}'))
    return told


def _texts(summary: Summary, settings: ItemSettings, paths: Sequence[str]) -> Told:
    if not summary.looked or settings.fingerprint is not None or settings.format == "text":
        return []
    lacking = [name for name in ("title", "text") if not summary.filled[name]]
    if len(lacking) == 2 and set(paths) >= _HELD_BACK:
        cure = "they hold no text. Give the file that `filter` has read."
        return [("no-fields", f"These are rows that `filter --duplicates` writes; {cure}")]
    cure = _cure(settings, paths, lacking)
    if len(lacking) == 2 and (inner := _list_of_items(paths)):
        return [
            (
                "no-fields",
                f"Each record holds a list of items, {inner}. Make each of them a line: jq -c '.{inner}[]' FILE",
            )
        ]
    if len(lacking) == 2:
        return [("no-fields", f"No item has a title or a text{cure}")]
    if "title" in lacking:
        return [("no-title", f"No item has a title, by which many duplicates are found{cure}")]
    if "text" in lacking:
        return [("no-text", f"No item has a text, so titles alone are compared{cure}")]
    return [
        (f"few-{name}s", f"Only {summary.filled[name]:,} of {summary.looked:,} items have a {name}.")
        for name in ("title", "text")
        if summary.looked >= _FEW and summary.filled[name] < _HALF * summary.looked
    ]


def _cure(settings: ItemSettings, paths: Sequence[str], lacking: Sequence[str]) -> str:
    """What the records have, and which setting reads it."""
    if not paths:
        return "."
    told = f": the records have {', '.join(paths[:_TOLD])}{', …' if len(paths) > _TOLD else ''}. "
    shape = shape_of({one.split(".")[0] for one in paths})
    if all(set(alternatives(PRESETS[shape][one])) & set(paths) for one in lacking):
        if settings.preset not in (AUTO, shape):
            given = ", and take [item.fields] out" if settings.fields else ""
            return f'{told}Set preset = "auto" under [item] in the settings (--config FILE){given}: it reads {shape}.'
        if settings.fields:
            return f"{told}Take {' and '.join(lacking)} out of [item.fields]: they are found without."
    example = _example(paths, lacking)
    if not example:
        return f"{told}If one of them is it, name it under [item.fields] in the settings (--config FILE)."
    return f"{told}Name them under [item.fields] in the settings (--config FILE){example}."


def _list_of_items(paths: Sequence[str]) -> str | None:
    """The list in which a record has both what looks like titles and what looks like texts, as answers of an API do."""
    title, text = _guess("title", paths), _guess("text", paths)
    if not title or not text:
        return None
    lists = [path.rpartition(".0.")[0] for path in (title, text)]
    return lists[0] if lists[0] and lists[0] == lists[1] else None


def _example(paths: Sequence[str], lacking: Sequence[str]) -> str:
    guesses = {name: _guess(name, paths) for name in lacking}
    told = [f'{name} = "{path}"' for name, path in guesses.items() if path]
    return f", such as {', '.join(told)}" if told else ""


def _guess(name: str, paths: Sequence[str]) -> str | None:
    """The field that is probably meant: by its name, of a text the longest."""
    if name == "text":
        return next((one for one in paths if not any(likely.search(one) for likely in _LIKELY.values())), None)
    return min(filter(_LIKELY[name].search, paths), key=len, default=None)


def _dates(summary: Summary, window: int, paths: Sequence[str]) -> Told:
    dates, told = summary.dates, []
    is_record = dates.origin == "timestamp"
    if dates.unreadable:
        told.append(
            (
                "unreadable-dates",
                f"{dates.unreadable:,} date{'s' if dates.unreadable > 1 else ''} cannot be read ({dates.examples[0]}). "
                f"What can be read: {_READABLE}.",
            )
        )
    if dates.latest is not None and dates.latest < _SECONDS_AS_MS:
        cure = (
            "Let the producer write milliseconds since 1970."
            if is_record
            else "Write ISO 8601, or seconds or milliseconds since 1970."
        )
        told.append(
            (
                "dates-1970",
                f"All dates lie in January 1970 ({moment(dates.latest)} at the latest): they look like seconds where "
                f"milliseconds are meant. {cure}",
            )
        )
    if not dates.known and dates.missing and not is_record and not summary.all_bad:
        told.append(
            (
                "no-dates",
                "No item has a date, so no original is ever too old. If the records have one, name its field under "
                f"[item.fields]{_example(paths, ['published'])}.",
            )
        )
    if dates.future:
        told.append(
            (
                "future-dates",
                f"{_some(dates.future)} in the future ({dates.first_future}) and "
                f"{'do' if dates.future > 1 else 'does'} not count. Is the clock right that gave "
                f"{'them' if dates.future > 1 else 'it'}?",
            )
        )
    if (dates.backwards or 0) >= max(_FEW, _MOSTLY * dates.forwards):
        told.append(
            (
                "backwards",
                "The dates run backwards: of each pair the later copy would be let through, the earlier held back. "
                + _SORT,
            )
        )
    if dates.jumps:
        places = "1 place" if dates.jumps == 1 else f"{dates.jumps:,} places"
        cure = _SORT
        if is_record and dates.earliest is not None and dates.earliest < _SECONDS_AS_MS:
            cure = (
                f"The earliest is of January 1970 ({moment(dates.earliest)}): a producer writes seconds where "
                "milliseconds are meant, or no time. Correct its record timestamps."
            )
        elif is_record:
            cure = "Is an archive replayed, or a producer's clock wrong?"
        told.append(
            (
                "jumps-back",
                f"At {places} the dates jump back by more than the window ({span(window)}), by "
                f"{span(dates.furthest_back)} at most. {cure}",
            )
        )
    return told


def _names(summary: Summary, paths: Sequence[str]) -> Told:
    told = []
    if summary.looked and not summary.names:
        told.append(
            (
                "no-id",
                "No item has an id, so a new version of an article is not known as one; its place stands in, such as "
                "0:17 (line 17 of the first file; on Kafka partition and offset). If the records have one, name its "
                f"field under [item.fields]{_example(paths, ['id'])}.",
            )
        )
    elif summary.compared >= _FEW and summary.repeated > _HALF * summary.compared:
        told.append(
            (
                "same-ids",
                f"{summary.repeated:,} of {summary.compared:,} items have the id of an earlier one, and count as new "
                "versions of it. Is [item.fields] id the field that tells articles apart?",
            )
        )
    if summary.looked and not summary.largest:
        told.append(
            (
                "no-source",
                "No item has a source or url, so a site's own series cannot be told from copies on other sites. If the "
                f"records have one, name its field under [item.fields]{_example(paths, ['source', 'url'])}.",
            )
        )
    return told


def _all(count: int) -> str:
    return f"All {count:,} items are" if count > 1 else "The only item is"


def _some(count: int) -> str:
    return f"{count:,} dates lie" if count > 1 else "1 date lies"
