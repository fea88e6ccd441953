"""What is installed: Dockerfile and pinned versions, read as text, and the commands of the Makefile by a dry run.

test_image.py builds the image.
"""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.deploy.files import DEPLOY, ROOT, dockerfile, documents

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CONSTRAINTS = dict(
    line.split("==") for line in (DEPLOY / "constraints.txt").read_text("utf-8").splitlines() if line[0] != "#"
)


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    result = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_copied_files_exist_and_pass_the_dockerignore() -> None:
    ignore = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert "*" in ignore, "only files that are listed may enter the image"
    allowed = {line[1:] for line in ignore if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", dockerfile(), re.M)
    sources = {source for line in copied for source in line.split()}
    assert sources == allowed
    for source in sources:
        assert (ROOT / source).exists(), source


def test_every_base_is_pinned_to_a_version_and_the_last_stage_is_not_root() -> None:
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", dockerfile(), re.M)
    names = {name for _, name in stages if name}
    for base, _ in stages:
        assert base in names or re.search(r":\d+\.\d+", base), base
    last = dockerfile().rpartition("FROM ")[2]
    assert re.search(r"^USER \d+:\d+$", last, re.M), "Kubernetes can check only a number for not being root"
    assert re.search(r'^ENTRYPOINT \["', last, re.M), "a shell would not pass SIGTERM on"


def test_the_compiler_stays_out_of_the_image() -> None:
    base, build, last = dockerfile().split("FROM ")[1:]
    assert "gcc" in build
    assert "gcc" not in base + last


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["project"]["version"]
    assert f"ARG VERSION={version}" in dockerfile()
    [compose] = documents(DEPLOY / "compose.yaml")
    assert compose["x-ours"]["image"] == f"stream-dedup:{version}"
    [kustomization] = documents(DEPLOY / "kubernetes" / "kustomization.yaml")
    assert kustomization["images"] == [{"name": "stream-dedup", "newTag": version}]


@pytest.mark.parametrize(
    "requirement_line",
    PROJECT["build-system"]["requires"]
    + PROJECT["project"]["dependencies"]
    + [text for extra in PROJECT["project"]["optional-dependencies"].values() for text in extra],
)
def test_each_requirement_accepts_its_pinned_version(requirement_line: str) -> None:
    requirement = Requirement(requirement_line)
    versions = {canonicalize_name(name): version for name, version in CONSTRAINTS.items()}
    assert requirement.specifier.contains(Version(versions[canonicalize_name(requirement.name)]))


def test_all_direct_and_indirect_dependencies_are_pinned() -> None:
    pinned = {canonicalize_name(name) for name in CONSTRAINTS}
    visited, required = (
        set(),
        {canonicalize_name(Requirement(text).name) for text in PROJECT["project"]["dependencies"]},
    )
    while required - visited:
        name = (required - visited).pop()
        visited.add(name)
        for line in importlib.metadata.requires(name) or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                required.add(canonicalize_name(needed.name))
    assert visited <= pinned


HASHED = re.compile(r"([\w.-]+)==(\S+)((?: \\\n {4}--hash=sha256:[0-9a-f]{64})+)\n")
EXTRAS = {path.stem.partition("-")[2]: path for path in DEPLOY.glob("requirements-*.txt")}


def hashed(path: Path) -> dict[str, str]:
    """Return the packages of a file with their versions. Each has hashes, and nothing else is there."""
    text = path.read_text("utf-8")
    assert HASHED.sub("", text) == ""
    return {canonicalize_name(name): version for name, version, _ in HASHED.findall(text)}


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def test_the_image_installs_the_pinned_versions_by_their_hashes() -> None:
    pinned = {canonicalize_name(name): version for name, version in CONSTRAINTS.items()}
    base = hashed(DEPLOY / "requirements.txt")
    assert names(PROJECT["project"]["dependencies"]) <= set(base), "run `make sbom`"
    for extra, path in EXTRAS.items():
        found = hashed(path)
        optional = PROJECT["project"]["optional-dependencies"]
        required = PROJECT["build-system"]["requires"] if extra == "build" else optional[extra]
        assert names(required) <= found.keys() | (base.keys() if extra != "build" else set()), "run `make sbom`"
        assert (base | found).items() <= pinned.items(), "run `make sbom`"
    documented = re.search(r"`EXTRAS` \| none \|(.*)", (DEPLOY / "README.md").read_text("utf-8"))
    assert documented
    assert {*re.findall(r"`\[(\w+)\]`", documented[1])} | {"build"} == EXTRAS.keys()


def test_nothing_is_installed_into_the_image_without_a_hash() -> None:
    """Our own wheel aside, which is built there, and cannot bring anything."""
    for line in re.findall(r"/pip install (.*?)(?: &&|$)", dockerfile(), re.M):
        assert "--require-hashes" in line or "--no-index --no-deps" in line


def test_no_registry_is_named_anywhere() -> None:
    hosts = re.compile(r"https?://|--(extra-)?index-url|--trusted-host|deb \[|(^|\s)(docker|ghcr|quay)\.io", re.M)
    for name in ("Dockerfile", "constraints.txt", "requirements*.txt", "kubernetes/deployment.yaml"):
        for path in DEPLOY.glob(name):
            assert not hosts.search(path.read_text("utf-8")), name


def commands(target: str, directory: Path) -> str:
    command = ["make", "--dry-run", "--no-print-directory", target, f"VENV={directory / 'none'}"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def extras(output: str) -> list[set[str]]:
    """Return the extras of the project that each installation names."""
    return [set(names.split(",")) for names in re.findall(r"pip install .*--editable '\.\[([\w,]+)\]'", output)]


def test_make_run_installs_what_running_needs_and_compiles_what_changed(tmp_path: Path) -> None:
    output = commands("run", tmp_path)
    assert extras(output) == [{"embedded"}]
    assert output.index("pip install") < output.index("core/build.py --changed") < output.index("bin/stream-dedup demo")
    assert output.rstrip().endswith("bin/stream-dedup demo")


def test_make_test_installs_everything_in_one_go(tmp_path: Path) -> None:
    output = commands("test", tmp_path)
    assert extras(output) == [{"embedded", "pages", "report", "parquet", "registry", "chinese", "spark", "docs", "dev"}]
    assert output.index("core/build.py --changed") < output.index("bin/pytest -m")
    assert "make test" in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.parametrize("target", ["run", "test"])
def test_every_installation_keeps_to_the_pinned_versions(target: str, tmp_path: Path) -> None:
    for line in re.findall(r".*pip install .*", commands(target, tmp_path)):
        assert "--constraint deploy/constraints.txt" in line
