"""Edits of made-up reports in twenty-five languages: is news let through, and are copies held back?

languages.toml has one report a language, and what each edit puts in the place of what. No text is of a corpus.
"""

import tomllib
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stream_dedup

Story = dict[str, Any]
Report = tuple[str, str]
"""A headline and a text."""
REPORTS: dict[str, Story] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_LETTERS = str.maketrans("łŁđĐøØ", "lLdDoO")  # those that normalisation does not take apart


def reported(one: Story, place: int) -> Report:
    name = one["places"][place]
    return one["title"].format(place=name), f"{one['lead']} {one['rest']}".format(place=name)


def _in_place(kind: str) -> Callable[[Story, str, str], Report]:
    return lambda one, title, text: (title, text.replace(*one[kind]))


def _alert(one: Story, place: int) -> Report:
    title, text = (part.format(place=one["places"][place]) for part in one["alert"])
    return title, text


def _plain(text: str) -> str:
    letters = unicodedata.normalize("NFD", text.translate(_LETTERS))
    return "".join(letter for letter in letters if not "\u0300" <= letter <= "\u036f")


NEWS: dict[str, Callable[[Story, str, str], Report]] = {
    "follow-up": lambda one, title, text: reported(
        one | dict(zip(("title", "lead"), one["follow_up"], strict=True)), 0
    ),
    "correction": lambda one, title, text: (title, f"{text.replace('14', '11')}\n{one['note']}"),
    "headline alone": lambda one, title, text: (title.replace("3", "5"), ""),
    "two sentences": lambda one, title, text: (title, f"{text}\n{one['more']}"),
    "figure": lambda one, title, text: (title, text.replace("14", "11")),
    "name": lambda one, title, text: reported(one, 1),
    "number word": _in_place("number"),
    "direction word": _in_place("turn"),
    "alert for another place": lambda one, title, text: _alert(one, 2),
}
COPIES: dict[str, Callable[[Story, str, str], Report]] = {
    "link": lambda one, title, text: (title, f"{text} https://elm.example/7?utm_source=feed&id=9"),
    "wrong encoding": lambda one, title, text: (_misread(title), _misread(text)),
    "no accents": lambda one, title, text: (_plain(title), _plain(text)),
    "kicker": lambda one, title, text: (one["kicker"] + title, ""),
}


def _misread(text: str) -> str:
    return text.encode().decode("cp1252", "replace")


def held(edit: str) -> dict[str, bool]:
    """Whether the edit of each report is held back; without those that it does not change, or robs of a letter."""
    found = {}
    for language, one in REPORTS.items():
        title, text = _alert(one, 0) if edit.startswith("alert") else reported(one, 0)
        changed = (NEWS | COPIES)[edit](one, title, text)
        earlier = title, text if changed[1] else ""
        if changed == earlier or "\ufffd" in changed[1]:
            continue
        with stream_dedup.Deduplicator() as dedup:
            verdicts = [
                dedup.check({"id": site, "source": site, "title": each[0], "text": each[1], "published": hour})
                for site, hour, each in (
                    ("a.example", "2026-01-05T08:00Z", earlier),
                    ("b.example", "2026-01-05T09:00Z", changed),
                )
            ]
        found[language] = verdicts[1].kind == "duplicate"
    return found


def languages(corpora: object) -> dict[str, dict[str, int | str]]:
    """How many reports each edit is held back of, and the languages in which that is wrong."""
    figures: dict[str, dict[str, int | str]] = {}
    for edit in NEWS | COPIES:
        found = held(edit)
        wrong = ", ".join(language for language, is_held in found.items() if is_held == (edit in NEWS))
        figures[edit] = {"held": sum(found.values()), "of": len(found), "wrong": wrong}
    return figures
