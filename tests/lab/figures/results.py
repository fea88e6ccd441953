"""What was measured, with all that it depends on: read, merged by section, written, and compared with today's code.

A section says on which files it was measured, with which settings, and under which versions. `stale` finds what has
changed since: then the figures may be wrong, and the pages that show them too.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stream_dedup.dedup import verdict
from stream_dedup.fingerprint import kernel, scheme, simhash
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import REMOVED, load_settings
from tests.lab.figures.families import Tables

ROOT = Path(__file__).parents[3]
PATH = ROOT / "tests" / "lab" / "results" / "figures.json"
COMMAND = "make figures CORPORA=DIR"
# The settings on which verdicts of files may depend.
_RELEVANT: dict[str, Any] = {
    **dict.fromkeys(("fingerprint", "decision", "policy", "window", "index", "item"), True),
    "worker": {"batch_items", "batch_bytes"},
}
_SECRETS = {"salt", "salt_file"}


@dataclass(frozen=True, slots=True)
class File:
    """A file that a section was measured on; `items`: its lines."""

    sha256: str
    items: int


@dataclass(frozen=True, slots=True)
class Section:
    """The figures of one section.

    rows: the settings of each row, where they differ from the defaults. schemes: the scheme id of each row. figures:
    what `measure` returned.
    """

    date: str
    files: dict[str, File]
    versions: dict[str, int]
    defaults: dict[str, dict[str, Any]]
    rows: dict[str, Tables]
    schemes: dict[str, str]
    figures: dict[str, Any] = field(default_factory=dict)


def versions() -> dict[str, int]:
    """Return the versions of what determines fingerprints and verdicts."""
    return {
        "kernel": kernel.VERSION,
        "simhash": simhash.VERSION,
        "layout": simhash.LAYOUT_VERSION,
        "packed_sets": scheme.SETS_VERSION,
        "rule": verdict.RULE_VERSION,
    }


def defaults() -> dict[str, dict[str, Any]]:
    """Return the default settings on which figures may depend, as JSON."""
    plain = load_settings().model_dump(mode="json", include=_RELEVANT)
    return {name: {key: value for key, value in plain[name].items() if key not in _SECRETS} for name in plain}


def scheme_of(tables: Tables) -> str:
    """Return the scheme id of a row."""
    return f"{Scheme(load_settings(fingerprint=tables.get('fingerprint', {})).fingerprint).id:016x}"


def file_of(path: Path, items: int) -> File:
    """Return what identifies a file."""
    return File(hashlib.sha256(path.read_bytes()).hexdigest(), items)


def section(date: str, files: Mapping[str, File], rows: Mapping[str, Tables], figures: dict[str, Any]) -> Section:
    """Make a section of today's code and defaults."""
    schemes = {name: scheme_of(tables) for name, tables in rows.items()}
    return Section(date, dict(files), versions(), defaults(), dict(rows), schemes, figures)


def load(path: Path = PATH) -> dict[str, Section]:
    """Read all sections; none if there is no file."""
    if not path.is_file():
        return {}
    return {
        name: Section(**saved | {"files": {file: File(**one) for file, one in saved["files"].items()}})
        for name, saved in json.loads(path.read_text("utf-8")).items()
    }


def save(sections: Mapping[str, Section], path: Path = PATH) -> dict[str, Section]:
    """Merge sections into the file; return all of them. A section that was not measured keeps its figures."""
    merged = load(path) | dict(sections)
    plain = {name: asdict(one) for name, one in sorted(merged.items())}
    path.write_text(json.dumps(plain, indent=1, ensure_ascii=False, default=str) + "\n", "utf-8")
    return load(path)


def stale(sections: Mapping[str, Section], wanted: Mapping[str, Mapping[str, Tables]]) -> list[str]:
    """Say what has changed since the figures were measured. `wanted`: the rows of each section, as of today.

    A setting that did not exist then is no change: it is left out of scheme ids at its default, and a rule that asks it
    has another RULE_VERSION. Nor is one that is gone: its default is the constant of all now.
    """
    found = [f"section {name}: never measured" for name in wanted if name not in sections]
    found += [f"section {name}: no longer measured" for name in sections if name not in wanted]
    for name in sections.keys() & wanted.keys():
        one, rows = sections[name], json.loads(json.dumps(wanted[name], default=str))
        then, now = _facts(one), _facts(section("", {}, rows, {}))
        found += [
            f"section {name}: {what} is {now.get(what)!r}, measured with {value!r}"
            for what, value in then.items()
            if now.get(what) != value
        ]
        found += [f"section {name}: {row} was never measured" for row in rows if row not in one.rows]
        for file, identity in one.files.items():
            if (own := ROOT / file).is_file() and file_of(own, identity.items).sha256 != identity.sha256:
                found.append(f"section {name}: {file} has changed")
    return found


def _facts(one: Section) -> dict[str, Any]:
    """What the figures of a section depend on, but for the files."""
    facts: dict[str, Any] = {f"version of {what}": number for what, number in one.versions.items()}
    for table, values in one.defaults.items():
        # A bound of memory, which no corpus here reaches.
        kept = {key: value for key, value in values.items() if key != "max_originals" and (table, key) not in REMOVED}
        facts |= {f"the default of {table}.{key}": value for key, value in kept.items()}
    facts |= {f"{row}: settings": tables for row, tables in one.rows.items()}
    return facts | {f"{row}: scheme": scheme for row, scheme in one.schemes.items()}
