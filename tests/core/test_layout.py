"""Every struct that Python passes to the core has the layout that core.h gives it, and every record too."""

import ctypes
import importlib
import re
import subprocess
from pathlib import Path

import stream_dedup
from stream_dedup.core import RECORDS, Struct
from tests.core.compilers import compiled, needs_compiler

PACKAGE = Path(stream_dedup.__file__).parent
_USES_CORE = re.compile(r"^from stream_dedup(\.core)? import .*(core|record|Struct)", re.M)


def import_all_declarations() -> None:
    """Import each module of the package that may declare a struct or a record."""
    for path in PACKAGE.rglob("*.py"):
        if _USES_CORE.search(path.read_text("utf-8")):
            importlib.import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))


Layout = dict[str, tuple[int, int]]


def layouts_of_python() -> dict[str, Layout]:
    """The offset and size of each field, and under "" those of the whole, by the struct's name."""
    import_all_declarations()
    found: dict[str, Layout] = {}
    for name, struct in Struct.known.items():
        fields = [(field[0], getattr(struct, field[0])) for field in struct._fields_]
        found[name] = {"": (0, ctypes.sizeof(struct))} | {key: (one.offset, one.size) for key, one in fields}
    for name, dtype in RECORDS.items():
        assert dtype.fields is not None
        fields_of_rows = {key: (int(one[1]), one[0].itemsize) for key, one in dtype.fields.items()}
        found[name] = {"": (0, dtype.itemsize)} | fields_of_rows
    return found


def layouts_of_c(expected: dict[str, Layout], folder: Path) -> dict[str, Layout]:
    """What a C compiler makes of the same structs and fields."""
    lines = []
    for name, layout in expected.items():
        lines.append(f'printf("{name}  0 %zu\\n", sizeof({name}));')
        for field in filter(None, layout):
            size = f"sizeof((({name} *)0)->{field})"
            lines.append(f'printf("{name} {field} %zu %zu\\n", offsetof({name}, {field}), {size});')
    body = "\n".join(lines)
    program = compiled(folder, f'#include "core.h"\n#include <stdio.h>\nint main(void) {{\n{body}\nreturn 0;\n}}\n')
    found: dict[str, Layout] = {name: {} for name in expected}
    for line in subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines():
        name, field, offset, size = line.split(" ")
        found[name][field] = int(offset), int(size)
    return found


@needs_compiler
def test_structs_and_records_have_the_layout_of_core_h(tmp_path: Path) -> None:
    expected = layouts_of_python()
    assert "signatures" in expected, "all declarations are imported"
    assert layouts_of_c(expected, tmp_path) == expected


@needs_compiler
def test_a_field_in_another_place_is_found(tmp_path: Path) -> None:
    (tmp_path / "core.h").write_text(
        "#include <stddef.h>\n#include <stdint.h>\ntypedef struct { int32_t a; int64_t b; } pair;\n"
    )
    aligned, packed = {"": (0, 16), "a": (0, 4), "b": (8, 8)}, {"": (0, 12), "a": (0, 4), "b": (4, 8)}
    assert layouts_of_c({"pair": packed}, tmp_path) == {"pair": aligned}
