"""Every module that decodes bytes from outside has a target, or a reason why it needs none.

A module decodes if it calls one of `PRIMITIVES`, the functions that all decoders here are made of.
"""

import ast
from pathlib import Path

import stream_dedup
from tests.fuzz.targets import targets

PACKAGE = Path(stream_dedup.__file__).parent
PRIMITIVES = {
    "loads", "decode_varint", "frombuffer", "unpack_from", "from_bytes", "decompress", "decompressobj", "lz4_decode",
    "snappy_decode", "ZstdDecompressor", "LZ4FrameDecompressor", "GzipFile", "fromisoformat", "strptime",
    "parsedate_to_datetime", "urlsplit", "parse_qs", "b64decode", "unescape", "LexborHTMLParser", "ParquetFile",
    "json.decode", "json.Decoder", "decode_json", "decode_object", "msgspec.convert", "csv.reader", "unpack",
    "documents_of", "RobotFileParser", "AsyncClient",
}  # fmt: skip

TARGETS_OF = {
    "tools/inputs/avro_files.py": ["avro"],
    "tools/batch/filter_state.py": ["state of filter"],
    "tools/inputs/packing.py": ["gzip", "zstd"],
    "tools/inputs/json_files.py": ["documents"],
    "tools/inputs/tables.py": ["csv", "lines", "parquet"],
    "changelog/block.py": ["block", "block, signed", "block, restored"],
    "changelog/journal.py": ["journal", "entries", "saved state"],
    "changelog/headers.py": ["headers"],
    "tools/evaluate/labels.py": ["labels"],
    "tools/evaluate/sampling.py": ["sample", "evidence", "row of duplicates"],
    "tools/feeds/database.py": ["state of feeds"],
    "tools/feeds/feed_entries.py": ["feed"],
    "tools/feeds/pages.py": ["page"],
    "tools/feeds/schedule.py": ["answer"],
    "tools/feeds/subscriptions.py": ["list of feeds"],
    "tools/feeds/web.py": ["answer"],
    "kafka/assignor.py": ["claim"],
    "kafka/fetch.py": ["record batch", "fetch"],
    "loose_json.py": ["decode auto", "documents"],
    "news/dates.py": ["dates"],
    "news/decode.py": ["decode auto", "sources"],
    "news/formats.py": ["decode events"],
    "news/fields.py": ["decode auto", "decode rss"],
    "news/clean.py": ["clean auto", "clean html"],
    "news/repair.py": ["decode xml"],
    "news/plain_values.py": ["decode auto"],
    "news/xml.py": ["decode xml"],
    "tools/page/page.py": ["request"],
    "tools/survey/survey.py": ["survey"],
    "observe/probe.py": ["health check"],
    "observe/http.py": ["request"],
    "registry/readers.py": ["framed", "avro"],
    "registry/__init__.py": ["framed"],
    "settings/__init__.py": ["settings", "environment"],
    "worker/resume.py": ["note"],
}
NEEDS_NONE = {
    "tools/topics/give_back.py": "a header whose every error is caught, and means that the record is not ours",
    "tools/demo/newsroom.py": "items that it has just made up",
    "dedup/rule.py": "a table of the package",
    "tools/batch/articles.py": "arrays that the same process has just made",
    "tools/batch/corpus.py": "arrays that the same process has just written",
    "index/rows.py": "sequences that the core has just packed",
    "tools/topics/groups.py": "a date in an option of a command",
    "tools/marks.py": "sequences that the core has just packed",
    "fingerprint/characters.py": "tables of its own",
    "fingerprint/kernel.py": "the bytes of a text that was decoded before",
    "dedup/similarity.py": "sets in a block; target block, restored",
    "fingerprint/scheme.py": "a digest of its own",
    "tools/spark/tasks.py": "what an executor of the same job has made",
    "kafka/client.py": "an address in the settings",
    "extras.py": "what pip has written about its own installation",
    "tools/addresses.py": "an address, of which only a part is shown; tests/fuzz/feeds.py has hostile ones",
}


def called(module: Path) -> set[str]:
    """The primitives that a module uses."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Attribute):
            owner = node.value
            prefix = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            found |= {node.attr, f"{prefix}.{node.attr}"} & PRIMITIVES
        elif isinstance(node, ast.Name):
            found |= {node.id} & PRIMITIVES
    return found


def decoders() -> dict[str, set[str]]:
    """Modules that decode, and by what."""
    names = {path.relative_to(PACKAGE).as_posix(): called(path) for path in PACKAGE.rglob("*.py")}
    return {name: found for name, found in names.items() if found}


def test_every_module_that_decodes_has_a_target_or_a_reason() -> None:
    known, decoding = TARGETS_OF.keys() | NEEDS_NONE.keys(), decoders()
    missing = {name: found for name, found in decoding.items() if name not in known}
    assert not missing, "add a target to tests/fuzz and name it in TARGETS_OF"
    assert known <= decoding.keys(), "these decode no longer"
    assert not set(TARGETS_OF) & set(NEEDS_NONE)


def test_the_named_targets_exist() -> None:
    known = [target.name for target in targets()]
    assert len(known) == len(set(known))
    assert {name for names in TARGETS_OF.values() for name in names} <= set(known)
