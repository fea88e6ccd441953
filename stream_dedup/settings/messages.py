"""Messages about wrong settings: one line a problem, in the words of the settings file, without secret values."""

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from stream_dedup.settings.schema import TABLES, variable


def explain(error: ValidationError, path: Path | None, prefix: tuple[str, ...] = ()) -> str:
    """Describe each problem of a validation error on a line of its own, without pydantic's vocabulary.

    `path` is the settings file; `prefix` are the names that lead to the validated table.
    """
    lines = []
    for problem in error.errors(include_url=False, include_input=False):
        if problem["type"] == "default_factory_not_called":  # it follows from a setting that is wrong itself
            continue
        names = [*prefix, *(str(part) for part in problem["loc"] if part != "[key]")]
        setting = "[" + names[0] + "]" + (" " + ".".join(names[1:]) if names[1:] else "") if names else "settings"
        message = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        if problem["type"] == "extra_forbidden":
            message = unknown_setting(names)
        elif names[:2] == ["item", "fields"] and problem["type"] == "literal_error":
            message += ' (ours is on the left, yours on the right, such as title = "head.line")'
        elif problem["type"] == "dict_type":
            message = 'must be a table, such as { name = "value" }'
        elif problem["type"] == "model_type":
            message = f"this is a table: write [{names[0]}] and its settings below it"
        origin = f" (from {variable(*names)})" if variable(*names) in os.environ else ""
        lines.append(f"{setting}: {message}{origin}")
    return f"settings{f' in {path}' if path else ''} are not usable:\n  " + "\n  ".join(lines)


def unknown_setting(names: Sequence[str]) -> str:
    """The message for an unknown table (one name) or an unknown setting in a table (two or more names).

    >>> unknown_setting(["kafka", "bootstrap_server"])
    'there is no such setting (did you mean [kafka] bootstrap_servers?); see `stream-dedup config reference`'
    >>> unknown_setting(["input"])
    'there is no such setting (did you mean [topics] input?); see `stream-dedup config reference`'
    """
    last = names[-1]
    if len(names) == 1:
        similar = [f"[{match}]" for match in get_close_matches(last.lower(), TABLES, n=1)]
    else:
        matches = get_close_matches(last.lower(), TABLES.get(names[0], []), n=1)
        similar = [f"[{names[0]}] {match}" for match in matches]
    similar += [f"[{table}] {last}" for table, fields in TABLES.items() if last in fields]
    hint = f" (did you mean {' or '.join(similar)}?)" if similar else ""
    return f"there is no such setting{hint}; see `stream-dedup config reference`"
