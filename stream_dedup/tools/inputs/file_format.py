"""The file formats by name. Help texts need no more, so this module imports nothing else; lines.py has the readers."""

from enum import StrEnum


class FileFormat(StrEnum):
    """The file formats; the value is what `--format` takes, and the suffix without its dot."""

    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    XML = "xml"
    AVRO = "avro"
