"""What needs a package of an extra says which command installs it; nothing else needs one."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from stream_dedup import extras

# Begins a Python that has none of the packages of the extras.
WITHOUT = """
import sys
from stream_dedup.extras import EXTRAS
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""
MAIN = WITHOUT + "from stream_dedup.cli.main import main; sys.argv[0] = 'stream-dedup'; main()"
ITEMS = [
    {"id": str(n), "title": "Elm bridge opens", "text": "The bridge over the Elm opened on Monday."} for n in (1, 2)
]
ATOM = "<feed><entry><id>1</id><title>Elm bridge opens</title><summary>On Monday.</summary></entry></feed>"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MAIN, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def news(tmp_path: Path) -> Path:
    path = tmp_path / "news.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    return path


def test_json_lines_need_no_extra(news: Path) -> None:
    done = run("filter", news, "--output", news.with_name("out.jsonl"))
    assert done.returncode == 0, done.stderr
    assert len(news.with_name("out.jsonl").read_text().splitlines()) == 1
    assert run("pairs", news, "--output", news.with_name("pairs.jsonl")).returncode == 0
    assert run("check", news).returncode == 0


def run_code(code: str) -> str:
    """Run Python code without the packages of the extras; return what it prints."""
    done = subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_worker_and_the_python_interface_need_no_extra() -> None:
    run_code("import stream_dedup.worker.worker, stream_dedup.observe.watch; from stream_dedup import *")


def test_without_its_extra_the_status_page_says_so_and_metrics_are_served() -> None:
    printed = run_code("""
import urllib.error, urllib.request
from stream_dedup.observe.watch import Watch
from stream_dedup.settings import load_settings
from stream_dedup.tools.page.show import show
with Watch(load_settings(observe={"port": 0}), "1", show=show) as watch:
    print(b"stream_dedup_role" in urllib.request.urlopen(watch.url + "/metrics").read())
    try:
        urllib.request.urlopen(watch.url)
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
""")
    assert printed.startswith("True\n501 the status page needs the extra `page`")


def test_a_file_of_xml_names_the_command_that_installs_its_reader(tmp_path: Path) -> None:
    (tmp_path / "feed.xml").write_text(ATOM)
    for command, *rest in (["check"], ["filter", "--output", "-"]):
        done = run(command, tmp_path / "feed.xml", *rest)
        assert done.returncode == 2, done.stderr
        assert "XML needs lxml: " in done.stderr
        assert "[files]'" in done.stderr


def test_a_record_of_xml_becomes_a_dead_letter_that_names_the_command() -> None:
    decoded = f"Decoder(Settings().item)({ATOM.encode()!r}, None, 0)"
    printed = run_code(f"from stream_dedup import Decoder, Settings; print(repr({decoded}))")
    assert "BadItem" in printed
    assert "XML needs lxml: " in printed


def test_a_query_names_the_command_before_anything_is_read(news: Path) -> None:
    done = run("check", news, "--query", "@")
    assert done.returncode == 2, done.stderr
    assert "[item] query needs jmespath: " in done.stderr
    run_code("""
from stream_dedup import Decoder
from stream_dedup.errors import ConfigError
from stream_dedup.settings import load_settings
settings = load_settings(item={"query": "@"})
try:
    Decoder(settings.item)
except ConfigError:
    raise SystemExit(0) from None
raise SystemExit(1)
""")


def test_without_the_extra_a_query_is_still_proposed(tmp_path: Path) -> None:
    texts = "The bridge over the Elm opened on Monday.", "A goat stopped the train to Wexcombe for an hour."
    (tmp_path / "news.json").write_text(json.dumps({"a": [{"b": {"tekst": text}} for text in texts]}))
    done = run("check", tmp_path / "news.json")
    assert "set [item] query = 'a[].{text: b.tekst}'" in " ".join(done.stdout.split()), done.stdout


def test_a_month_of_another_language_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "news.jsonl").write_text(json.dumps(ITEMS[0] | {"published": "5. Dezember 2025 10:00"}) + "\n")
    done = run("check", tmp_path / "news.jsonl")
    assert "a word of another language, without the extra `files`" in " ".join(done.stdout.split()), done.stdout


def test_a_table_in_an_unknown_encoding_names_the_command(tmp_path: Path) -> None:
    (tmp_path / "news.csv").write_bytes("id;title\n1;Die Brücke über die Elm ist geöffnet\n".encode("cp1252"))
    done = run("check", tmp_path / "news.csv")
    assert done.returncode == 2
    assert "text that is not UTF-8 needs chardet: " in done.stderr


def test_a_tool_names_the_command_that_installs_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "list.opml").write_text("")
    done = run("feeds", tmp_path / "list.opml")
    assert done.returncode == 2, done.stderr
    assert "needs httpx: " in done.stderr


def test_explain_needs_no_extra() -> None:
    done = run("explain", *map(json.dumps, ITEMS[:2]))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("origin", "source"),
    [
        ('{"url": "file://FOLDER/a%20clone", "dir_info": {"editable": true}}', "--editable 'FOLDER/a clone[report]'"),
        ('{"url": "file://FOLDER/a%20clone", "dir_info": {}}', "'FOLDER/a clone[report]'"),
        ('{"url": "file://FOLDER/gone.whl", "archive_info": {}}', "'PATH-OF-CLONE-OR-WHEEL[report]'"),
        ('{"url": "https://me:password@git.example/x.whl"}', "'PATH-OF-CLONE-OR-WHEEL[report]'"),
        (None, "'PATH-OF-CLONE-OR-WHEEL[report]'"),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came(
    origin: str | None, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a clone").mkdir()
    text = origin and origin.replace("FOLDER", str(tmp_path))
    monkeypatch.setattr(extras, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))
    expected = f"{sys.executable} -m pip install {source.replace('FOLDER', str(tmp_path))}"
    assert extras.install_command("report") == expected


def test_no_message_names_an_index_that_lacks_the_package() -> None:
    root = Path(extras.__file__).parent
    assert not [path for path in root.rglob("*.py") if "stream-dedup[" in path.read_text("utf-8")]
