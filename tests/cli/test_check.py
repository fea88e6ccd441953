"""`stream-dedup check` on files: what it shows, how it ends, and that each cure works when followed to the letter.

On topics: tests/worker/test_check_kafka.py.
"""

import gzip
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.errors import InputError, UsageError
from tests.cli.commands import json_of, run, words
from tests.tools.batch.feed import feed, story, write

ODD = [json.dumps({"headline": f"Elm {i}", "body": f"Bridge {i} opened. " * 9}).encode() for i in range(30)]


def test_a_sound_file_is_shown_on_80_columns(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(write(tmp_path / "in.jsonl", feed(200)))], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert max(map(len, result.stdout.split("\nbad")[0].splitlines())) <= 80
    shown = " ".join(result.stdout.split())
    assert " title " in shown
    assert "items 200 items," in shown
    assert "dates 2023-11-14 22:13 to 2023-11-15 01:" in shown
    assert "bad, the first reasons:" in shown
    assert result.stderr == ""  # no bar where nobody looks


def test_a_feed_that_is_all_bad_ends_with_1_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "plain.toml").write_text('[item]\npreset = "plain"\n')
    shown = words("check", write(tmp_path / "in.jsonl", ODD), "--config", tmp_path / "plain.toml", code=1)
    assert "warning: All 30 items are bad" in shown
    assert f"{tmp_path / 'in.jsonl'}:1: empty: " in shown
    assert 'title = "headline", text = "body"' in shown


def test_nothing_ends_with_1(tmp_path: Path) -> None:
    assert "The input is empty" in words("check", write(tmp_path / "in.jsonl", []), code=1)


def test_packed_files_and_standard_input_are_read(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(b"\n".join([story(1), b"", story(2)])))
    assert json_of("check", tmp_path / "in.jsonl.gz")["items"] == 2
    assert json_of("check", "-", input=story(1) + b"\n" + story(2))["items"] == 2


def test_places_are_file_and_line(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", [story(1)]), write(tmp_path / "b", [b"", story(2), b"{"])
    assert json_of("check", first, second)["reasons"][0].startswith(f"{second}:3: json")


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ([], UsageError, "--topic NAME"),
        (["nowhere.jsonl"], InputError, "if it is a topic, write --topic nowhere.jsonl"),
        (["-", "-"], UsageError, "only once"),
    ],
)
def test_wrong_usage_names_the_cure(arguments: list[str], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=re.escape(said)):
        run("check", *arguments)


def test_the_format_may_be_written_large(tmp_path: Path) -> None:
    run("check", "-", "--format", "CSV", input=b"id,title,text\n1,Elm bridge,It opened.\n")


def test_a_name_that_is_no_utf_8_is_shown(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path / "news") + b"\xff.jsonl"))
    path.write_text('{"id": "1", "title": "Elm bridge opens", "text": "On Monday."}\n{broken\n')
    assert r"news\xff.jsonl:2: json" in json_of("check", path)["reasons"][0]


# -- cures -----------------------------------------------------------------------------------------------

TEXT = "The bridge over the Elm opened on Monday, two years late, the mayor said at the harbour."
ROWS: list[dict[str, Any]] = [
    {"nr": f"n{n}", "kop": f"Elm bridge {word} opens", "tekst": f"{TEXT} It is bridge {word}."}
    for n, word in enumerate(("one", "two", "three"))
]
KNOWN = [{"id": row["nr"], "title": row["kop"], "text": row["tekst"]} for row in ROWS]


def lines(rows: list[Any]) -> bytes:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()


# The kind of the warning that has the cure, the name of a file and its content, and a field and where it is read after.
CASES: list[tuple[str, str, bytes, str, str]] = [
    ("no-fields", "a.jsonl", lines(ROWS), "text", "tekst"),
    ("no-fields", "a.jsonl", lines([{"x": {"y": row}} for row in ROWS]), "text", "x.y.tekst"),
    ("no-fields", "a.jsonl", lines([{"kop": "T", "parts": [{"tekst": TEXT}, {"tekst": TEXT}]}]), "text", "parts.tekst"),
    ("no-fields", "a.csv", b'3,"Elm bridge opens","It opened on Monday at last, the mayor said."\n', "text", "column3"),
    ("no-fields", "a.csv", f'Kop.,Lang.Tekst.\nElm,"{TEXT}"\n'.encode(), "text", "Lang.Tekst."),
    ("no-text", "a.jsonl", lines([{"title": "T", "tekst": TEXT, "media_name": "Elm"}]), "text", "tekst"),
    ("no-title", "a.jsonl", lines([{"meta.title": "Elm bridge", "content.text": TEXT}]), "title", "meta.title"),
    ("no-published", "a.jsonl", lines([KNOWN[0] | {"first_seen_date": "2026-01-05"}]), "published", "first_seen_date"),
    ("no-id", "a.jsonl", lines([KNOWN[0] | {"id": None, "wire_id": "7"}]), "id", "wire_id"),
    ("no-id", "a.jsonl", lines([{"title": "T", "text": TEXT, "html": {"asked_url": "https://elm.example/7"}}]), "id",
     "html.asked_url"),
    ("no-source", "a.jsonl", lines([KNOWN[0] | {"the_site": "elm.example"}]), "source", "the_site"),
    ("longer-field", "a.jsonl", lines([KNOWN[0] | {"text": "Short.", "tekst": TEXT * 2}]), "text", "tekst"),
    (
        "shared-ids", "a.jsonl",
        lines([{"id": "x", "title": title, "text": text, "url": f"https://elm.example/{title}"}
               for title, text in (("Elm bridge opens", TEXT), ("Ferry strike goes on", "Crews stayed ashore."))]),
        "id", "url",
    ),
    ("all-bad", "a.jsonl", lines([{"title": "T", "content": {"lang": "en", "plain": TEXT}}]), "text", "content.plain"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name", "data", "field", "origin"), CASES, ids=[f"{case[0]} {case[4]}" for case in CASES]
)
def test_the_settings_that_check_proposes_work(
    tmp_path: Path, kind: str, name: str, data: bytes, field: str, origin: str
) -> None:
    (tmp_path / name).write_bytes(data)
    found = json_of("check", tmp_path / name, code=int(kind in ("no-fields", "all-bad")))
    text = next(warning["text"] for warning in found["warnings"] if warning["kind"] == kind)
    cures = re.findall(r'\b(id|title|text|source|url|published) = ("[^"]+")', text)
    assert field in dict(cures), text
    assert not re.search(r'"[^"]*\.\d', str(cures)), "no cure has an index in it"
    settings = tmp_path / "s.toml"
    settings.write_text("[item.fields]\n" + "".join(f"{each} = {path}\n" for each, path in cures))
    cured = json_of("check", tmp_path / name, "--config", settings)
    assert kind not in [each["kind"] for each in cured["warnings"]]
    assert list(cured["origins"][field]) == [origin]
    assert cured["bad"] == 0


def test_iconv_makes_latin_1_readable(tmp_path: Path) -> None:
    row = {"id": "1", "title": "Größe", "text": TEXT}
    (tmp_path / "a.jsonl").write_bytes(lines([row, row | {"id": "2"}]).decode().encode("latin-1"))
    (warning,) = [each["text"] for each in json_of("check", tmp_path / "a.jsonl", code=1)["warnings"] if
                  each["kind"] == "not-utf-8"]  # fmt: skip
    command = warning[warning.index("iconv") :].replace("FILE", "a.jsonl").replace("OTHER", "b.jsonl").split(" > ")
    with (tmp_path / command[1]).open("wb") as to:
        subprocess.run(command[0].split(), cwd=tmp_path, stdout=to, check=True)
    assert json_of("check", tmp_path / "b.jsonl")["bad"] == 0


def test_the_list_that_a_note_names_can_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"top": KNOWN[:1], "rest": KNOWN}))
    (note,) = json_of("check", tmp_path / "a.json")["notes"]
    assert 'items of rest (3), top (1). If that is wrong, say it: [item] query = "PATH[]"' in note
    (tmp_path / "s.toml").write_text('[item]\nquery = "top[]"\n')
    assert json_of("check", tmp_path / "a.json", "--config", tmp_path / "s.toml")["items"] == 1


def test_check_ends_with_what_was_read_or_what_to_do_first(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines([KNOWN[0] | {"url": "https://elm.example/1", "summary": "Short."}]))
    shown = words("check", tmp_path / "a.jsonl")
    assert "text from text 100 % shorter texts summary 100 %" in shown.replace("100%", "100 %")
    assert shown.endswith("read 1 of 1 as plain: title from title, text from text, id from id, url from url")
    (tmp_path / "b.jsonl").write_bytes(lines(ROWS))
    assert "read 0 of 3. To do first: " in words("check", tmp_path / "b.jsonl", code=1)
