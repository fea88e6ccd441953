"""The project keeps to the field's terms: private words and mannerisms of earlier versions do not come back.

Names, comments and docstrings of the package are checked, and the pages. docs/glossary.md has the terms that remain.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
PAGES = [*sorted((HOME / "docs").glob("*.md")), HOME / "README.md", HOME / "CONTRIBUTING.md"]
MODULES = sorted((HOME / "stream_dedup").rglob("*.py"))

INSTEAD = {
    "lane": "partition task, or task",
    "lanes": "partition tasks, or tasks",
    "surroundings": "context",
    "furniture": "boilerplate",
    "owed": "pending deletions",
    "oddities": "odd times",
    "told": "reported, shown, or what exactly it was",
    "untold": "unreported",
    "whoever": "the caller, the reader, or who exactly it is",
    "nobody": "no caller, no member, or none",
    "somebody": "a caller, a member, or who exactly it is",
    "settle": "decide, wait for merges, or what exactly is done",
}
PHRASES = re.compile(r"\b(for one in|is to be|are to be|for good|so many|as it stands)\b")
# Label files of other projects call boilerplate so.
ALLOWED = {
    ("furniture", "labels.py"),
    ("furniture", "labels.md"),
    ("furniture", "glossary.md"),
    ("furniture", "evaluate.py"),
}


def words_in(module: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each name, comment and docstring; doctests and other strings are data."""
    source = module.read_text()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NAME, tokenize.COMMENT):
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text = re.sub(r"(?m)^ *>>>.*(\n *\S.*)*", "", node.value.value)
            yield node.lineno, text


@pytest.mark.parametrize("path", [*MODULES, *PAGES], ids=lambda path: str(path.relative_to(HOME)))
def test_standard_terms_are_used(path: Path) -> None:
    texts = words_in(path) if path.suffix == ".py" else enumerate(path.read_text().splitlines(), 1)
    found = [
        f"{path.relative_to(HOME)}:{line}: {word!r}: {INSTEAD.get(word, 'rephrase')}"
        for line, text in texts
        for word in (*re.split(r"[\W_]+", text.lower()), *PHRASES.findall(text.lower()))
        if (word in INSTEAD or PHRASES.fullmatch(word)) and (word, path.name) not in ALLOWED
    ]
    assert not found, "\n".join(found)
