"""Equal fingerprints, verdicts, evidence and pairs, whichever compiler made the core and whichever processor runs it.

aarch64 is emulated: Debian's qemu-user-static runs Debian's Python for arm64, unpacked in a folder, with the packages
of deploy/requirements.txt for that processor, and the core of its wheel. Nothing is installed on this machine.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stream_dedup.core import build
from tests.core.compilers import ROOT, needs_ziglang
from tests.debian import apt
from tests.deploy.files import DEPLOY

pytestmark = [
    pytest.mark.operate, pytest.mark.timeout(3600),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="compares with x86-64"),
]  # fmt: skip
_COMMAND = ("-m", "tests.core.verdicts")
_DEBIAN = (
    "libbz2-1.0", "libc6", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1", "liblzma5", "libsqlite3-0", "libssl3",
    "libstdc++6", "libuuid1", "zlib1g",
)  # fmt: skip
_CONFIGURATION = """
APT::Architecture "arm64";
APT::Architectures {{"arm64";}};
Dir::State "{0}/state";
Dir::State::status "{0}/status";
Dir::Cache "{0}/cache";
"""


def package(folder: Path, command: list[str], *options: str) -> Path:
    """A copy of the package and its tests with a core that this compiler made."""
    for name in ("stream_dedup", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "_core.*"))
    build.build(folder / "stream_dedup" / "core" / build.LIBRARY.name, *options, command=command)
    return folder


def output(folder: Path, *command: str | Path, **variables: str) -> str:
    done = subprocess.run(command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the core of this machine's compiler says."""
    folder = package(tmp_path_factory.mktemp("native"), build.compiler())
    return output(folder, sys.executable, *_COMMAND, PYTHONPATH=str(folder))


@pytest.mark.parametrize(
    ("command", "options"),
    [
        pytest.param(["gcc"], ["-O0"], id="gcc without optimisation"),
        pytest.param(["clang"], [], id="clang"),
        pytest.param(
            [*build.ZIG], ["-target", build.PLATFORMS["manylinux_2_17_x86_64"]], id="zig", marks=needs_ziglang
        ),
    ],
)
def test_every_compiler_gives_equal_verdicts(
    command: list[str], options: list[str], expected: str, tmp_path: Path
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}: apt-get install {command[0]}")
    folder = package(tmp_path / "copy", command, *options)
    assert output(folder, sys.executable, *_COMMAND, PYTHONPATH=str(folder)) == expected


def emulated_python(folder: Path) -> tuple[list[str | Path], str]:
    """The command of an arm64 Python of this Debian, and its version."""
    for name in ("state/lists/partial", "cache/archives/partial", "debs"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    configuration = folder / "apt.conf"
    configuration.write_text(_CONFIGURATION.format(folder))
    shown = output(folder, "apt-cache", "depends", "python3-minimal")
    [python] = set(re.findall(r"Depends: (python3\.\d+)-minimal", shown))
    packages = [f"{python}-minimal", f"lib{python}-minimal", f"lib{python}-stdlib", *_DEBIAN]
    ours = ["--config-file", str(configuration)]
    apt(["update", "-q"], ["download", "qemu-user-static"], folder=folder / "debs")
    apt([*ours, "update", "-q"], [*ours, "download", *packages], folder=folder / "debs")
    for deb in (folder / "debs").glob("*.deb"):
        output(folder, "dpkg", "-x", deb, folder / "root")
    root = folder / "root"
    return [root / "usr/bin/qemu-aarch64-static", "-L", root, root / "usr/bin" / python], python.removeprefix("python")


@needs_ziglang
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs Debian's packages")
def test_aarch64_gives_equal_verdicts(expected: str, tmp_path: Path) -> None:
    python, version = emulated_python(tmp_path / "arm64")
    site = tmp_path / "site"
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (17, 24, 26, 27, 28, 31, 34)]
    output(
        tmp_path, sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", site,
        "--only-binary", ":all:", *platforms, f"--python-version={version}", "--implementation", "cp",
        "--requirement", DEPLOY / "requirements.txt",
    )  # fmt: skip
    folder = package(tmp_path / "copy", [*build.ZIG], "-target", build.PLATFORMS["manylinux_2_17_aarch64"])
    assert output(folder, *python, "-c", "import platform; print(platform.machine())") == "aarch64\n"
    assert output(folder, *python, *_COMMAND, PYTHONPATH=f"{folder}:{site}") == expected
