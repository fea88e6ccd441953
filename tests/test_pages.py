"""README.md, CONTRIBUTING.md, docs/, deploy/: what they name exists, what is generated is current, no page is long."""

import re
from pathlib import Path

import pytest

from docs import build
from stream_dedup.dedup.verdict import Stage
from stream_dedup.observe.catalogue import CATALOGUE
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import CommitStep
from tests.cli.commands import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for pattern in ("README.md", "CONTRIBUTING.md", "deploy/*.md", "docs/*.md")
    for path in sorted(ROOT.glob(pattern))
}
every_page = pytest.mark.parametrize("page", PAGES)


def anchors(page: str) -> set[str]:
    """What GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page, flags=re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def code(page: str) -> list[str]:
    """The lines of its code blocks, without their comments, and its pieces of code in the text."""
    blocks = re.findall(r"```\w*\n(.*?)```", page, re.S)
    inline = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", page, flags=re.S))
    return [line.split(" #")[0] for block in blocks for line in block.splitlines()] + inline


@every_page
def test_links_lead_somewhere(page: str) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", PAGES[page]):
        if target.startswith("https://"):
            continue
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path.read_text("utf-8")), f"{target}#{anchor}"


@every_page
def test_files_exist(page: str) -> None:
    for path in re.findall(r"(?<![\w./])(?:stream_dedup|tests|config|deploy|docs)/[\w./-]*\w", PAGES[page]):
        if not path.startswith("docs/") or page in ("README.md", "CONTRIBUTING.md"):
            assert (ROOT / path).exists(), path
    for name in re.findall(r"`(\w+\.py)`", PAGES[page]):
        assert any((ROOT / "stream_dedup").rglob(name)), name


@every_page
def test_names_stand_in_the_files_they_are_said_to_be_in(page: str) -> None:
    for name, path in re.findall(r"`([\w.]+)`\s+in\s+`((?:stream_dedup|tests)/[\w/]+(?:\.\w+)?)`", PAGES[page]):
        files = [ROOT / path, *(ROOT / path).glob("*.py")]
        text = "".join(file.read_text("utf-8") for file in files if file.is_file())
        assert re.search(rf"\b{name.split('.')[-1]}\b", text), f"{name} in {path}"


@every_page
def test_commands_and_their_options_exist(page: str) -> None:
    for line in code(PAGES[page]):
        for said in re.findall(r"(?<![\w-])(?<!namespace )stream-dedup ([a-z][^|]*)", line):
            words = re.findall(r"[a-z][a-z-]*|\S+", said)
            path = next((" ".join(words[:n]) for n in (2, 1) if is_command(words[:n])), None)
            assert path is not None, line
            known = {option for parameter in COMMANDS[path].params for option in parameter.opts} | {"--help"}
            assert set(re.findall(r"(?<!\S)--[a-z-]+", said)) <= known, line


def is_command(words: list[str]) -> bool:
    return " ".join(words) in COMMANDS


@every_page
def test_targets_of_make_exist(page: str) -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    named = {name for line in code(PAGES[page]) for name in re.findall(r"^make (\w+)", line)}
    assert named <= targets


@every_page
def test_settings_and_metrics_exist(page: str) -> None:
    for table, name in re.findall(r"`(\w+)\.(\w+)\b[^`(]*`", PAGES[page]):
        if table in Settings.model_fields and name not in ("py", "md", "toml", "db"):
            assert name in getattr(Settings(), table).__class__.model_fields, f"{table}.{name}"
    known = {spec.name for spec in CATALOGUE}
    assert set(re.findall(r"\bstream_dedup_\w+", PAGES[page])) <= known


@every_page
def test_no_page_is_long(page: str) -> None:
    words = len(PAGES[page].split())
    assert words <= (800 if page == "README.md" else 2500), f"{words} words: cut, or give each errand a page"


def test_the_readme_leads_to_every_page() -> None:
    for page in PAGES:
        assert page == "README.md" or f"]({page}" in README, f"{page} cannot be found from the README"


def test_the_steps_of_the_commit_protocol_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| (\d+) \| ([A-Z]+) \|", PAGES["docs/architecture.md"], re.M)
    assert [(int(number), name) for number, name in rows] == [(step.value, step.name) for step in CommitStep]


def test_the_stages_are_those_of_the_code() -> None:
    page = PAGES["docs/decision.md"]
    stages = page.split("## Stages")[1].split("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", stages)) == set(Stage)


def test_every_rule_of_the_client_that_the_code_cites_is_explained() -> None:
    explained = set(re.findall(r"^\| (P\d+) \|", PAGES["docs/architecture.md"], re.M))
    cited = {
        rule
        for path in (ROOT / "stream_dedup").rglob("*.py")
        for inside in re.findall(r"\((P\d+(?:, P\d+)*)\)|rule (P\d+)", path.read_text("utf-8"))
        for rule in re.findall(r"P\d+", " ".join(inside))
    }
    assert cited
    assert cited <= explained


MADE = build.made()


@pytest.mark.parametrize("path", MADE)
def test_what_is_generated_is_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text("utf-8") == MADE[path], f"{path} is out of date; run: make reference"


def test_a_page_without_the_place_of_a_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for page in ("pyproject.toml", *build.made_tables()):
        (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / page).write_text((ROOT / page).read_text("utf-8").replace(": families -->", ": family -->"))
    monkeypatch.setattr(build, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"docs/fingerprints.md has places for the tables .*'family'"):
        build.made()


def test_the_picture_shows_what_a_terminal_shows() -> None:
    made = build.picture("\x1b[?25l\x1b[32munique   \x1b[0m | Bridge <opens>\n")
    assert "unique" in made
    assert "Bridge&#160;&lt;opens&gt;" in made
    assert "\x1b" not in made
    assert "http" not in made.replace("http://www.w3.org/2000/svg", ""), "a picture loads nothing"
    assert "exactly" in build.PICTURE.read_text("utf-8")
