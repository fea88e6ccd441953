"""The pages build as a site: each link and anchor leads somewhere, and nothing is loaded from elsewhere."""

import doctest
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("material", reason="needs the extra docs")
ROOT = Path(__file__).parents[1]


def test_the_examples_of_the_hook_are_true() -> None:
    assert doctest.testmod(import_module("docs.pages")) == (0, 2)


def build(root: Path, to: Path) -> str:
    """What mkdocs says; empty if it built the site."""
    arguments = ["build", "--strict", "--config-file", root / "docs" / "mkdocs.yml", "--site-dir", to]
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", *map(str, arguments)],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr if done.returncode else ""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert build(ROOT, folder) == ""
    return folder


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        html = page.read_text("utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=[\"']?([^\"'\s>]+)", html)
        loaded += re.findall(r"<link(?![^>]*canonical)[^>]*\shref=[\"']?([^\"'\s>]+)", html)
        assert loaded
        assert not [address for address in loaded if "//" in address], page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text("utf-8")), style.name
    assert "window.length" in (site / "search" / "search_index.js").read_text("utf-8"), "for pages on a disk"
    assert "IFrameWorker" in (site / "iframe-worker.js").read_text("utf-8")


def test_tables_and_lists_are_those_of_a_code_host(site: Path) -> None:
    """Here a list in a list needs four spaces, and a table an empty line before it."""
    for page in [ROOT / "README.md", *sorted(ROOT.glob("deploy/*.md")), *sorted(ROOT.glob("docs/*.md"))]:
        if page.name == "api.md":  # its lists and tables come from docstrings
            continue
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S)
        made = site / page.relative_to(ROOT).with_name(page.name.replace("README", "index")).with_suffix(".html")
        article = re.search(r"<article.*</article>", made.read_text("utf-8"), re.S)
        assert article
        tables = len(re.findall(r"^\|(?: -+ \|)+$", text, re.M))
        items = len(re.findall(r"^\s*(?:[-*]|\d+\.) ", text, re.M))
        assert (article[0].count("<table"), len(re.findall(r"<li\b", article[0]))) == (tables, items), page.name


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("[x](nowhere.md)", "nowhere.md"),
        ("[x](decision.md#nowhere)", "#nowhere"),
        ("[x](../deploy/nowhere)", "../deploy/nowhere"),
    ],
)
def test_a_broken_link_or_anchor_fails(tmp_path: Path, link: str, said: str) -> None:
    for name in ("docs", "config", "deploy", "tests/lab/labels", "tests/lab/benchmarks/results", "tests/lab/results"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests" / "model").mkdir()
    page = tmp_path / "docs" / "glossary.md"
    page.write_text(f"{page.read_text('utf-8')}\n{link}\n")
    assert said in build(tmp_path, tmp_path / "site")


# Some of the questions in other words.
TYPED = {
    "exclude a source": "can-i-exclude-a-source",
    "per customer": "can-i-deduplicate-per-language-or-per-customer",
    "hold for N seconds": "can-it-hold-back-an-item-for-some-seconds-and-wait-for-a-better-one",
    "why was this dropped": "why-was-this-item-dropped",
    "memory for 2 million a day": "how-much-memory-do-2-million-articles-a-day-need",
    "tuning": "can-i-tune-how-strict-it-is",
    "gdpr removal": "can-i-delete-an-article-for-gdpr",
    "whitelist": "can-i-exclude-a-source",
    "MSK": "does-it-run-on-msk-confluent-cloud-redpanda-or-strimzi",
    "GPU": "does-it-need-a-gpu-or-a-language-model",
    "Helm": "is-there-a-helm-chart",
    "license": "what-is-the-licence-or-license-what-does-it-cost",
    "how fast": "how-fast-is-it-in-items-a-second",
}
SEARCH = """question => {
    const toggle = document.querySelector("#__search")
    toggle.checked = true
    toggle.dispatchEvent(new Event("change"))
    const field = document.querySelector("[data-md-component=search-query]")
    field.focus()
    field.value = question
    field.dispatchEvent(new Event("keyup"))
}"""
FOUND = """anchor => [...document.querySelectorAll(".md-search-result__item")].slice(0, 3).some(
    result => result.querySelector(`a[href*="can-it.html"][href$="#${anchor}"]`)
)"""


def test_each_plain_question_as_typed_finds_its_answer_among_the_first_three(site: Path, page: "Page") -> None:
    questions = re.findall(r"^### (.+)$", (ROOT / "docs" / "can-it.md").read_text("utf-8"), re.M)
    assert len(questions) >= 30
    anchors = {question: re.sub(r"[^\w -]", "", question).lower().replace(" ", "-") for question in questions}
    page.goto((site / "index.html").as_uri())
    for question, anchor in (anchors | TYPED).items():
        page.evaluate(SEARCH, question)
        page.wait_for_function(FOUND, arg=anchor, timeout=10_000)


def test_the_pictures_are_small_light_and_dark_and_on_the_pages(site: Path) -> None:
    pictures = sorted((ROOT / "docs" / "pictures").glob("*.png"))
    names = [
        f"{name}-{scheme}.png" for name in ("decision", "page", "report", "topology") for scheme in ("dark", "light")
    ]
    assert [path.name for path in pictures] == names
    for path in pictures:
        assert path.stat().st_size < 100_000
        assert (site / "docs" / "pictures" / path.name).exists()
