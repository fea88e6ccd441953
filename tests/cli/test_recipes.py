"""Each line of a shell block in the pages is run on small files, or the table says why it cannot be.

The lines of a section run in order, in a folder that has the inputs that pages name. tests/test_pages.py checks the
names and options of all commands.
"""

import csv
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stream_dedup.tools.demo.newsroom import sample_feed

ROOT = Path(__file__).parents[2]
# A line that contains one of these is not run, for this reason.
NOT_RUN = {
    "make ": "its target runs the tests, or for minutes",
    "docker ": "needs a container engine",
    "kubectl ": "needs Kubernetes",
    "kafka-": "needs a cluster and Kafka's tools",
    "--bootstrap": "needs a cluster",
    "topics create": "needs a cluster",
    "stream-dedup groups": "needs a cluster",
    "stream-dedup run": "needs a cluster",
    "stream-dedup migrate": "needs a cluster",
    "stream-dedup trial": "needs a cluster",
    "stream-dedup give-back": "needs a cluster",
    "stream-dedup send": "needs a cluster",
    "stream-dedup tail": "needs a cluster",
    "stream-dedup feeds": "needs feeds on the network",
    "stream-dedup sample": "needs a terminal; tests/tools/cli/test_sample.py runs it",
    "DIRECTORY/": "needs what a person has labelled",
    "--labels": "needs what a person has labelled",
    "pip install": "installs packages",
    "apt-get": "installs packages",
    "--engine spark": "tests/tools/spark runs it",
    "spark-submit": "needs a cluster",
    "env/bin/": "needs an environment of its own, or runs tests",
    "job.py": "the script of spark-submit",
    "evaluate CORPUS": "needs the extra `report`, or labels; tests/tools/evaluate runs it",
}


PROGRAMS = re.compile(
    r"(?:[A-Z_]+=\S+ )*"
    r"(?:stream-dedup|jq|zcat|cp|for|make|docker|kubectl|pip|python|printf|sudo|(?:\.v)?env/|kafka-|spark-)"
)


def shell_lines(page: str) -> list[str]:
    """The commands of a page's blocks; a line that ends with a backslash goes on."""
    found = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.S | re.M):
        lines = [line for line in re.sub(r"\\\n\s*", "", block).splitlines() if line.strip()]
        if not language and any(map(PROGRAMS.match, lines)):
            unknown = [line for line in lines if not PROGRAMS.match(line)]
            assert not unknown, f"is this a command? {unknown}"
            found += lines
    return found


def sections(path: Path) -> dict[str, list[str]]:
    """The commands of each section that can be run, by page and heading."""
    parts = re.split(r"^##+ ", path.read_text("utf-8"), flags=re.M)
    return {
        f"{path.relative_to(ROOT)}: {part.partition(chr(10))[0]}": runnable
        for part in parts
        if (runnable := [line for line in shell_lines(part) if not any(word in line for word in NOT_RUN)])
    }


PAGES = [path for pattern in ("*.md", "deploy/*.md", "docs/*.md") for path in sorted(ROOT.glob(pattern))]
SECTIONS = {name: lines for path in PAGES for name, lines in sections(path).items()}


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """A folder with the inputs of the pages, and the command on its path."""
    items = [{key: value for key, value in item.items() if key != "kind"} for item in sample_feed(120)]
    lines = "".join(f"{json.dumps(item)}\n" for item in items).encode()
    for name in ("news.jsonl", "new-1.jsonl"):
        (tmp_path / name).write_bytes(lines)
    for name in ("news.jsonl.gz", "FILE.jsonl.gz", "CORPUS.jsonl.gz", "archive-1.jsonl.gz"):
        (tmp_path / name).write_bytes(gzip.compress(lines))
    older = b"".join(lines.splitlines(keepends=True)[:40])
    (tmp_path / "archive-2.jsonl.gz").write_bytes(gzip.compress(older.replace(b'{"id": "', b'{"id": "old-')))
    with (tmp_path / "export.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(items[0]))
        table.writeheader()
        table.writerows(items)
    (tmp_path / "eigen.csv").write_text(
        "Kop,Tekst\n" + "".join(f"{n}. dag,De veerboot vaart {n} keer.\n" for n in "123")
    )
    (tmp_path / "lines.txt").write_text("".join(f"{item['text']}\n" for item in items[:9]))
    (tmp_path / "simhash.toml").write_text('[fingerprint]\nfamily = "simhash"\n')
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "stream-dedup"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m stream_dedup "$@"\n')
    command.chmod(0o755)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("section", SECTIONS)
def test_the_commands_of_a_section_work(section: str, shell: Path) -> None:
    if any("jq " in line for line in SECTIONS[section]) and shutil.which("jq") is None:
        pytest.skip("needs jq: apt-get install jq")
    path = f"{shell / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for line in SECTIONS[section]:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=shell,
            env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_recipes_are_run_and_each_reason_is_needed() -> None:
    assert len([name for name in SECTIONS if name.startswith("docs/recipes.md")]) >= 7
    everything = "\n".join(line for path in PAGES for line in shell_lines(path.read_text("utf-8")))
    assert [word for word in NOT_RUN if word not in everything] == []
