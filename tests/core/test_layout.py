"""What core.h and Python both declare is equal: the layout of every struct and record, and every constant."""

import ctypes
import importlib
import re
import subprocess
import sys
from enum import IntEnum
from pathlib import Path

import numpy as np

import stream_dedup
from stream_dedup.core import RECORDS, Struct, build
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.settings import FingerprintSettings
from tests.core.compilers import compiled, needs_compiler

PACKAGE = Path(stream_dedup.__file__).parent
_FOLDERS = ("core", "fingerprint", "index", "dedup")  # whose constants are the core's, too
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
Layout = dict[str, tuple[int, int]]


def import_all_declarations() -> None:
    """Import each module of the package that may declare a struct, a record or a constant."""
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name in _FOLDERS or "stream_dedup.core import" in path.read_text("utf-8"):
            importlib.import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))


def printed(folder: Path, lines: list[str]) -> list[str]:
    """The lines that a C program prints with these statements."""
    body = "\n".join(lines)
    program = compiled(folder, f'#include "core.h"\n#include <stdio.h>\nint main(void) {{\n{body}\nreturn 0;\n}}\n')
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


def layouts_of_python() -> dict[str, Layout]:
    """The offset and size of each field, and under "" those of the whole, by the struct's name."""
    import_all_declarations()
    found: dict[str, Layout] = {}
    for name, struct in Struct.known.items():
        fields = ((key, getattr(struct, key)) for key, *_ in struct._fields_)
        found[name] = {"": (0, ctypes.sizeof(struct))} | {key: (one.offset, one.size) for key, one in fields}
    for name, dtype in RECORDS.items():
        offsets = {key: (int(one[1]), one[0].itemsize) for key, one in (dtype.fields or {}).items()}
        found[name] = {"": (0, dtype.itemsize)} | offsets
    return found


def layouts_of_c(expected: dict[str, Layout], folder: Path) -> dict[str, Layout]:
    """What a C compiler makes of the same structs and fields."""
    lines = []
    for name, layout in expected.items():
        lines.append(f'printf("{name}  0 %zu\\n", sizeof({name}));')
        for field in filter(None, layout):
            size = f"sizeof((({name} *)0)->{field})"
            lines.append(f'printf("{name} {field} %zu %zu\\n", offsetof({name}, {field}), {size});')
    found: dict[str, Layout] = {name: {} for name in expected}
    for line in printed(folder, lines):
        name, field, offset, size = line.split(" ")
        found[name][field] = int(offset), int(size)
    return found


@needs_compiler
def test_structs_and_records_have_the_layout_of_core_h(tmp_path: Path) -> None:
    expected = layouts_of_python()
    assert "signatures" in expected, "all declarations are imported"
    assert layouts_of_c(expected, tmp_path) == expected


def constants_of_python() -> set[tuple[str, int]]:
    """Name, without a leading underscore, and value of each whole number that a module declares."""
    import_all_declarations()
    found = set[tuple[str, int]]()
    for name, module in list(sys.modules.items()):
        if name.startswith((*(f"stream_dedup.{folder}" for folder in _FOLDERS), "stream_dedup.tools.marks")):
            for key, value in vars(module).items():
                if isinstance(value, int | np.integer) and not isinstance(value, bool):
                    found.add((key.lstrip("_"), int(value)))
                elif isinstance(value, type) and issubclass(value, IntEnum):
                    found |= {(member.name, member.value) for member in value}
    signature = Scheme(FingerprintSettings()).signature_dtype
    found |= {(f"{key.upper()}_AT", int(one[1])) for key, one in (signature.fields or {}).items()}
    return found


def constants_of_c(folder: Path) -> dict[str, int]:
    """All constants of core.h by name."""
    header = _COMMENT.sub("", (build.FOLDER / "core.h").read_text("utf-8"))
    members = ",".join(re.findall(r"enum \{(.*?)\}", header, re.S)).split(",")
    names = [one.partition("=")[0].strip() for one in members] + re.findall(r"^#define (\w+) +[^_]", header, re.M)
    lines = [f'printf("{name} %lld\\n", (long long){name});' for name in filter(None, names)]
    return {name: int(value) for name, value in (line.split(" ") for line in printed(folder, lines))}


@needs_compiler
def test_constants_of_one_name_have_one_value(tmp_path: Path) -> None:
    ours, theirs = constants_of_python(), constants_of_c(tmp_path)
    del theirs["VERSION"]  # a finding; in Python, also the versions of some modules
    shared = {(name, value) for name, value in ours if name in theirs}
    assert {(name, value) for name, value in shared if theirs[name] % 2**64 != value % 2**64} == set()
    assert {
        *("ANY_TIME", "CODE_MASK", "DIFFERENT", "EDGE", "FAR_FUTURE", "FILTER_BITS", "FORGOTTEN", "GOLDEN"),
        *("GROWTH", "HASH_BITS", "HEADLINE_FEATURES", "IN_TEXT", "ITEM_SHIFT", "KIND_SHIFT", "LATE"),
        *("LEXICON_BITS", "MAX_CANDIDATES", "MAX_MEMBERS", "MOST_HEADLINE_NUMBERS", "MOST_NUMBERS"),
        *("MOST_PASSAGES", "MOST_SEQUENCE", "NON_JOINER", "OLD_HIGH", "RECENT_STEPS", "RING_SIZE", "ROW_ID_AT"),
        *("ROW_SHIFT", "SEGMENT_BITS", "SEQUENCE_HEAD", "SIGHTINGS", "SLACK", "START", "START_BITS", "TOMBSTONE"),
        *("TREES_AT_ONCE", "TREE_DEPTH", "WORD_SET_BYTES"),
    } <= {name for name, _ in shared}, "a constant has another name in C or in Python"
