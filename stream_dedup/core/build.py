"""Compile the core: the build hook of hatchling, and by hand `python stream_dedup/core/build.py [--changed]`.

The C files beside this one become `_core.so`, in the wheel, or beside them for an editable installation. The compiler
is $CC, cc, gcc or clang; without one it is `ziglang`, a C compiler in a wheel, which is then a build requirement.
ziglang also makes the wheels of a release: WHEEL_PLATFORM names one of `PLATFORMS`. With one compiler, equal sources
give equal bytes.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FOLDER = Path(__file__).absolute().parent
LIBRARY = FOLDER / "_core.so"
# -O3 without -march: one library for all processors; measured, -march gains nothing. FMA would change the last bit of
# results. -g0: zig's debugging information names folders.
FLAGS = (
    *("-std=c11", "-O3", "-g0", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"),
    *("-fPIC", "-fvisibility=hidden"),
)
DOOR = FOLDER / "__init__.py"  # has the version of what core.h declares, by which a library of other sources is refused
PLATFORMS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
}
"""The wheels of a release: the platform in the wheel's name, and zig's target. glibc 2.17 is of 2012; macOS 11 is the
first on arm64."""
# By default zig compiles for the processor that it runs on.
ZIG = (sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline")
CURE = (
    "install a C compiler (Debian: apt-get install gcc; macOS: xcode-select --install), "
    f"or {sys.executable} -m pip install ziglang"
)


def compiler() -> list[str]:
    """The command of a C compiler; empty if there is none. Raises SystemExit if $CC names one that is not there."""
    if named := shlex.split(os.environ.get("CC", "")):
        if shutil.which(named[0]) is None:
            raise SystemExit(f"stream_dedup's core is written in C, and CC names {named[0]}, which is not here: {CURE}")
        return named
    for command in ("cc", "gcc", "clang"):
        if shutil.which(command):
            return [command]
    return [*ZIG] if find_spec("ziglang") else []


def build(target: Path = LIBRARY, *options: str, command: list[str] | None = None) -> None:
    """Compile all C files into `target`. Raises SystemExit, with the compiler's words, if that fails."""
    command = command or compiler()
    if not command:
        raise SystemExit(f"stream_dedup's core is written in C, and there is no compiler here: {CURE}")
    version = DOOR.read_text("utf-8").partition("\nVERSION = ")[2].partition("\n")[0]
    sources = sorted(path.name for path in FOLDER.glob("*.c"))
    with TemporaryDirectory(dir=target.parent, prefix="_core.") as name, ThreadPoolExecutor() as pool:

        def run(folder: str | Path, *arguments: str) -> None:
            whole = [*command, *FLAGS, f"-DSOURCES_VERSION={version}", *options, *arguments]
            # zig keeps a cache at home, also where HOME is not set.
            home = {"HOME": str(Path.home())} | os.environ
            done = subprocess.run(whole, cwd=folder, env=home, check=False, capture_output=True, text=True)  # noqa: S603
            if done.returncode:
                words = f"compiling stream_dedup's core failed: {shlex.join(whole)}\n{done.stderr}\nElse {CURE}"
                raise SystemExit(words)

        # Relative names: the bytes do not depend on where the sources lie.
        list(pool.map(lambda source: run(FOLDER, "-c", source, "-o", f"{name}/{source}.o"), sources))
        run(name, "-shared", *(f"{source}.o" for source in sources), "-lm", "-o", target.name)
        Path(name, target.name).replace(target)


def build_changed() -> None:
    """Compile into `LIBRARY`, unless it is newer than each source."""
    sources = [
        path for path in FOLDER.iterdir() if path.suffix in {".c", ".h"} or path in (DOOR, FOLDER / Path(__file__).name)
    ]
    if not LIBRARY.exists() or LIBRARY.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        build()


def get_build_hook() -> type:
    """Return the hook. hatchling calls this, and only where it builds is hatchling installed."""
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class Hook(BuildHookInterface[Any]):
        _folder: TemporaryDirectory[str] | None = None

        def dependencies(self) -> list[str]:
            return ["ziglang>=0.14"] if os.environ.get("WHEEL_PLATFORM") or not compiler() else []

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            local = sysconfig.get_platform().replace("universal2", platform.machine())
            wheel = os.environ.get("WHEEL_PLATFORM", "")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{(wheel or local).replace('-', '_').replace('.', '_')}"
            if version == "editable":
                build()
                return
            self._folder = TemporaryDirectory()
            target = Path(self._folder.name, LIBRARY.name)
            build(target, command=[*ZIG, "-target", PLATFORMS[wheel]] if wheel else None)
            build_data["force_include"][str(target)] = f"stream_dedup/core/{LIBRARY.name}"

        def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
            if self._folder:
                self._folder.cleanup()

    return Hook


if __name__ == "__main__":
    build_changed() if "--changed" in sys.argv else build()
