"""`weights build` writes the table that the same settings then read."""

import json
from pathlib import Path

import pytest

from stream_dedup.errors import InputError
from tests.cli.commands import run, words

TEXTS = ["the ferry was old", "the ferry was slow", "the asteroid turns fast"]


def test_build_and_use(tmp_path: Path) -> None:
    corpus, table, config = tmp_path / "corpus.jsonl", tmp_path / "table.idf", tmp_path / "c.toml"
    corpus.write_text("\n".join(json.dumps({"id": str(n), "text": text}) for n, text in enumerate(TEXTS)), "utf-8")
    config.write_text(
        f'[fingerprint]\nfamily = "simhash"\nfeatures = "tokens"\nweights = "idf"\nidf = {json.dumps(str(table))}\n'
    )
    assert "3 features of 3 texts" in words("weights", "build", corpus, "-o", table, "--config", config)
    run("filter", corpus, "--output", tmp_path / "out", "--config", config)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "1", "text": "x"}\n', "utf-8")
    with pytest.raises(InputError, match=f"cannot write {tmp_path}"):
        run("weights", "build", corpus, "-o", tmp_path)
