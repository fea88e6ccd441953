"""`weights build` writes the table that the same settings then read."""

import json
from pathlib import Path

from typer.testing import CliRunner

from stream_dedup.cli.main import app
from stream_dedup.errors import InputError

TEXTS = ["the ferry was old", "the ferry was slow", "the asteroid turns fast"]


def test_build_and_use(tmp_path: Path) -> None:
    corpus, table, config = tmp_path / "corpus.jsonl", tmp_path / "table.idf", tmp_path / "c.toml"
    corpus.write_text("\n".join(json.dumps({"id": str(n), "text": text}) for n, text in enumerate(TEXTS)), "utf-8")
    config.write_text(
        f'[fingerprint]\nfamily = "simhash"\nfeatures = "tokens"\nweights = "idf"\nidf = {json.dumps(str(table))}\n'
    )
    built = CliRunner().invoke(app, ["weights", "build", str(corpus), "-o", str(table), "--config", str(config)])
    assert built.exit_code == 0, built.output
    assert "3 features of 3 texts" in built.output.replace("\n", "")
    filtered = ["filter", str(corpus), "--output", str(tmp_path / "out"), "--duplicates", str(tmp_path / "held")]
    used = CliRunner().invoke(app, [*filtered, "--config", str(config)])
    assert used.exit_code == 0, used.output


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "1", "text": "x"}\n', "utf-8")
    built = CliRunner().invoke(app, ["weights", "build", str(corpus), "-o", str(tmp_path)])
    assert isinstance(built.exception, InputError)
