"""Edits of made-up reports in thirty-nine languages: is news let through, and are copies held back?

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


def _edit(change: Callable[[Story, str, str], Report]) -> Callable[[Story], list[Report]]:
    """The report, and what an edit makes of it."""

    def reports(one: Story) -> list[Report]:
        before = reported(one, 0)
        return [before, change(one, *before)]

    return reports


def _in_place(kind: str) -> Callable[[Story], list[Report]]:
    return _edit(lambda one, title, text: (title, text.replace(*one[kind])))


def _in_both(change: Callable[[str], str]) -> Callable[[Story], list[Report]]:
    return _edit(lambda one, title, text: (change(title), change(text)))


def _headlines(change: Callable[[Story, str], str]) -> Callable[[Story], list[Report]]:
    """The headline of the report alone, and what an edit makes of it."""

    def reports(one: Story) -> list[Report]:
        title, _ = reported(one, 0)
        return [(title, ""), (change(one, title), "")]

    return reports


def _alert(one: Story, place: int) -> Report:
    title, text = (part.format(place=one["places"][place]) for part in one["alert"])
    return title, text


def _called_off(one: Story) -> list[Report]:
    title, text, prefix, sentence = one["event"]
    return [(title, text), (prefix + title, f"{text}\n{sentence}")]


def _warned(one: Story) -> list[Report]:
    """A report gets the warning that three others had, and its headline says so."""
    warned, warning = _alert(one, 0)
    others = [(one["event"][0], one["event"][1]), (one["outcome"][0], one["more"]), (one["follow_up"][0], one["note"])]
    known = [(title.format(place=one["places"][2]), f"{text}\n{warning}") for title, text in others]
    title, text = reported(one, 0)
    return [*known, (title, text), (f"{title}; {warned}", f"{text}\n{warning}")]


def _plain(text: str) -> str:
    letters = unicodedata.normalize("NFD", text.translate(_LETTERS))
    return "".join(letter for letter in letters if not "\u0300" <= letter <= "\u036f")


def _misread(text: str) -> str:
    return text.encode().decode("cp1252", "replace")


def _exchanged(text: str) -> str:
    return text.replace("14", "\0").replace("3", "14").replace("\0", "3")


NEWS: dict[str, Callable[[Story], list[Report]]] = {
    "follow-up": _edit(
        lambda one, title, text: reported(one | dict(zip(("title", "lead"), one["follow_up"], strict=True)), 0)
    ),
    "correction": _edit(lambda one, title, text: (title, f"{text.replace('14', '11')}\n{one['note']}")),
    "headline alone": _headlines(lambda one, title: title.replace("3", "5")),
    "outcome alone": lambda one: [(title, "") for title in one["outcome"]],
    "two sentences": _edit(lambda one, title, text: (title, f"{text}\n{one['more']}")),
    "figure": _edit(lambda one, title, text: (title, text.replace("14", "11"))),
    "figures exchanged": _in_both(_exchanged),
    "name, cut": lambda one: [(reported(one, 0)[0], f"{reported(one, 0)[1]}\n{one['more']}"), reported(one, 2)],
    "name": lambda one: [reported(one, 0), reported(one, 1)],
    "number word": _in_place("number"),
    "direction word": _in_place("turn"),
    "alert for another place": lambda one: [_alert(one, 0), _alert(one, 2)],
    "called off": _called_off,
    "warning that others had": _warned,
}
COPIES: dict[str, Callable[[Story], list[Report]]] = {
    "link": _edit(lambda one, title, text: (title, f"{text} https://elm.example/7?utm_source=feed&id=9")),
    "wrong encoding": _in_both(_misread),
    "no accents": _in_both(_plain),
    "kicker": _headlines(lambda one, title: one["kicker"] + title),
    "doubled headline": _headlines(lambda one, title: f"{title} {title}"),
    "site's name": _headlines(lambda one, title: f"{title} | b.example"),
}


def held(edit: str) -> dict[str, bool]:
    """Whether the edit of each report is held back; without those that it does not change, or robs of a letter."""
    found = {}
    for language, one in REPORTS.items():
        *earlier, changed = (NEWS | COPIES)[edit](one)
        if changed == earlier[-1] or "\ufffd" in changed[1]:
            continue
        with stream_dedup.Deduplicator() as dedup:
            for number, (title, text) in enumerate((*earlier, changed)):
                site = "b.example" if number == len(earlier) else "a.example"
                time = f"2026-01-05T{8 + number:02}:00Z"
                row = {"id": str(number), "source": site, "title": title, "text": text, "published": time}
                verdict = dedup.check(row)
        found[language] = verdict.kind == "duplicate"
    return found


def languages(corpora: object) -> dict[str, dict[str, int | str]]:
    """How many reports each edit is held back of, and the languages in which that is wrong."""
    figures: dict[str, dict[str, int | str]] = {}
    for edit in NEWS | COPIES:
        found = held(edit)
        wrong = ", ".join(language for language, is_held in found.items() if is_held == (edit in NEWS))
        figures[edit] = {"held": sum(found.values()), "of": len(found), "wrong": wrong}
    return figures
