"""What a warning proposes works when it is followed to the letter, on shapes that no preset knows."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import Settings, load_settings
from stream_dedup.tools.inputs.lines import LineReader, item_of
from stream_dedup.tools.survey.summary import Summary
from stream_dedup.tools.survey.survey import Survey

WORDS = ("bridge", "ferry", "museum")
TEXTS = [f"The {word} of Larkmoor opens on Monday, two years late, the mayor of the town said." for word in WORDS]
NEWS = list(zip(WORDS, TEXTS, strict=True))
FIELD = re.compile(r'\b(id|title|text|source|url|published) = "([^"]+)"')
QUERY = re.compile(r"query = '([^']+)'")

RECORDS: dict[str, Any] = {
    "names of another language": [{"otsikko": f"Silta {w}", "runko": t, "pvm": "5.1.2026"} for w, t in NEWS],
    "nested": [{"a": {"b": {"kop": f"Elm {w}", "inhoud": t}}} for w, t in NEWS],
    "dates before the text": [{"x": {"seen": "2026-01-05T10:00:00Z", "t": t}} for t in TEXTS],
    "a cursor and kinds": [{"cursor": "abc", "typ": "hero", "vel": {"txt": t}, "n": n} for n, t in enumerate(TEXTS)],
    "templates": [{"header_title": "{{title}}", "x": {"y": t}} for t in TEXTS],
    "no text at all": [{"n": n, "seen": "2026-01-05", "ok": True} for n in range(3)],
    "a title that all share": [{"site_title": "Elm Wire", "x": {"y": t}} for t in TEXTS],
    "paragraphs": [{"kop": f"Elm {w}", "x": [{"t": t}, {"t": t[::-1]}]} for w, t in NEWS],
    "a text of another name": [{"id": w, "title": f"Elm {w}", "inhoud": t} for w, t in NEWS],
    "a date of another name": [{"id": w, "title": w, "text": t, "time_seen": "2026-01-05"} for w, t in NEWS],
}  # fmt: skip
DOCUMENTS: dict[str, Any] = {
    "a list of unknown names": {"x": [{"kop": f"Elm {w}", "inhoud": t} for w, t in NEWS]},
    "a nested list": {"cursor": "x", "d": {"r": [{"k": {"uid": w}, "m": {"inhoud": t}} for w, t in NEWS]}},
    "names with a hyphen": {"r-s": [{"d-e": {"inhoud-x": t, "kop-head": f"Elm {w}"}} for w, t in NEWS]},
    "paragraphs in a list": {"r": [{"k": w, "p": [{"z": t}, {"z": t}]} for w, t in NEWS]},
}  # fmt: skip


def surveyed(path: Path, settings: Settings) -> tuple[Summary, list[Item]]:
    reader, decode = LineReader([str(path)], query=settings.item.query), Decoder(settings.item)
    survey, items = Survey(decode.read, settings), []
    for line in reader:
        item = item_of(decode, line)
        survey.add(item, line.value, line.input, line.number)
        items += [item] if isinstance(item, Item) else []
    return survey.summary(), items


def proposed(summary: Summary) -> list[dict[str, Any]]:
    """The settings that the warnings and reasons propose, one by one."""
    texts = [*summary.reasons, *(each.text for each in summary.warnings)]
    fields = [{"fields": {field: path}} for text in texts for field, path in FIELD.findall(text)]
    return fields + [{"query": query} for text in texts for query in QUERY.findall(text) if "PATH" not in query]


@pytest.mark.parametrize(("name", "rows"), RECORDS.items(), ids=list(RECORDS))
def test_each_field_that_is_proposed_is_read(tmp_path: Path, name: str, rows: list[Any]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    proposals = proposed(surveyed(path, load_settings())[0])
    assert bool(proposals) is (name != "no text at all")
    for item in proposals:
        found, items = surveyed(path, load_settings(item=item))
        (field, _), *_ = item["fields"].items()
        assert found.filled[field] == len(rows), item
        if field in ("title", "text"):
            values = [getattr(each, field) for each in items]
            assert all(" " in value for value in values), (item, values)
            assert len({*values}) == len(rows), "what all items share is no headline and no text"
            assert not any(value.startswith(("2026", "{{")) for value in values)
        if field == "published":
            assert found.dates.earliest == found.dates.latest is not None


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=list(DOCUMENTS))
def test_the_query_that_is_proposed_gives_the_items(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document, indent=1))
    (item,) = proposed(surveyed(path, load_settings())[0])
    found, items = surveyed(path, load_settings(item=item))
    assert (len(items), found.bad) == (3, 0)
    assert [each.text[: len(text)] for each, text in zip(items, TEXTS, strict=True)] == TEXTS
