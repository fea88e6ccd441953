"""Compile the core: the build hook of hatchling, and by hand `python stream_dedup/core/build.py`.

In: the C files beside this one. Out: `_core.so` beside them. The compiler is $CC, cc, gcc or clang; where there is
none, `ziglang`, a C compiler in a wheel, which is then a build requirement. Equal sources give equal bytes.
"""

import os
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parent
# -O3 without -march: measured, no gain, and one library for all processors. FMA would change the last bit of results.
FLAGS = (
    *("-std=c11", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"),
    *("-shared", "-fPIC", "-fvisibility=hidden"),
)
CURE = "install a C compiler (Debian: apt-get install gcc; macOS: xcode-select --install), or pip install ziglang"


def compiler() -> list[str]:
    """The command of a C compiler; empty if there is none."""
    named = shlex.split(os.environ.get("CC", ""))
    for command in (named, ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]):
            return command
    return [sys.executable, "-m", "ziglang", "cc"] if find_spec("ziglang") else []


def build(target: Path = FOLDER / "_core.so", *options: str, command: list[str] | None = None) -> None:
    """Compile all C files into `target`. Raises SystemExit, with the compiler's words, if that fails."""
    command = command or compiler()
    if not command:
        raise SystemExit(f"stream_dedup's core is written in C, and there is no compiler here: {CURE}")
    sources = sorted(path.name for path in FOLDER.glob("*.c"))
    # Relative names and a fixed folder: the bytes do not depend on where the sources lie.
    part = target.with_name(f"{target.name}.{os.getpid()}")
    arguments = [*command, *FLAGS, *options, "-o", str(part.absolute()), *sources, "-lm"]
    done = subprocess.run(arguments, cwd=FOLDER, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        command_line = shlex.join(arguments)
        raise SystemExit(f"compiling stream_dedup's core failed: {command_line}\n{done.stderr}\nElse {CURE}")
    part.replace(target)


if __name__ == "__main__":
    build()
