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

from tests.deploy.files import DEPLOY, ROOT, dockerfile, documents

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CONSTRAINTS = (DEPLOY / "constraints.txt").read_text("utf-8").splitlines()
PINNED = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in CONSTRAINTS if line[0] != "#"}


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


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["project"]["version"]
    assert f"ARG VERSION={version}" in dockerfile()
    [compose] = documents(DEPLOY / "compose.yaml")
    assert compose["x-ours"]["image"] == f"stream-dedup:{version}"
    [kustomization] = documents(DEPLOY / "kubernetes" / "kustomization.yaml")
    assert kustomization["images"] == [{"name": "stream-dedup", "newTag": version}]


def test_all_direct_and_indirect_dependencies_are_pinned() -> None:
    """`make env` shows that the versions suit what is required: pip keeps to them."""
    required, visited = names(PROJECT["project"]["dependencies"]), set[str]()
    while missing := required - visited:
        visited |= missing
        for line in (line for name in missing for line in importlib.metadata.requires(name) or ()):
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                required.add(canonicalize_name(needed.name))
    assert visited <= PINNED.keys()


HASHED = re.compile(r"([\w.-]+)==(\S+)((?: \\\n {4}--hash=sha256:[0-9a-f]{64})+)\n")
EXTRAS = {path.stem.partition("-")[2]: path for path in DEPLOY.glob("requirements-*.txt")}


def hashed(path: Path) -> dict[str, str]:
    """Return the packages of a file with their versions. Each has hashes, and nothing else is there."""
    text = path.read_text("utf-8")
    assert HASHED.sub("", text) == ""
    return {canonicalize_name(name): version for name, version, _ in HASHED.findall(text)}


OPTIONAL = PROJECT["project"]["optional-dependencies"]


def names(requirements: list[str]) -> set[str]:
    """Return the packages of requirements, those of our own extras included."""
    parsed = [Requirement(text) for text in requirements]
    own = [text for one in parsed if one.name == "stream-dedup" for extra in one.extras for text in OPTIONAL[extra]]
    others = {canonicalize_name(one.name) for one in parsed if one.name != "stream-dedup"}
    return others | names(own) if own else others


def test_the_image_installs_the_pinned_versions_by_their_hashes() -> None:
    base = hashed(DEPLOY / "requirements.txt")
    used = [*PROJECT["project"]["dependencies"], *OPTIONAL["files"], *OPTIONAL["page"], *OPTIONAL["feeds"]]
    assert names(used) <= set(base), "run `make sbom`"
    for extra, path in EXTRAS.items():
        found = hashed(path)
        required = PROJECT["build-system"]["requires"] if extra == "build" else OPTIONAL[extra]
        assert names(required) <= found.keys() | (base.keys() if extra != "build" else set()), "run `make sbom`"
        assert (base | found).items() <= PINNED.items(), "run `make sbom`"
    documented = re.search(r"`EXTRAS` \| none \|(.*)", (DEPLOY / "README.md").read_text("utf-8"))
    assert documented
    assert {*re.findall(r"`\[(\w+)\]`", documented[1])} | {"build"} == EXTRAS.keys()


def test_nothing_is_installed_into_the_image_without_a_hash() -> None:
    """Our own wheel aside, which is built there, and cannot bring anything."""
    for line in re.findall(r"/pip install (.*?)(?: &&|$)", dockerfile(), re.M):
        assert "--require-hashes" in line or "--no-index --no-deps" in line


ALL_EXTRAS = "embedded,all,spark,docs,dev"


@pytest.mark.parametrize(
    ("target", "extras", "starts"),
    [("run", "embedded,files,page,feeds", "bin/stream-dedup demo"), ("test", ALL_EXTRAS, "bin/pytest -m")],
)
def test_make_installs_pinned_versions_in_one_go_and_compiles_what_changed(
    target: str, extras: str, starts: str, tmp_path: Path
) -> None:
    command = ["make", "--dry-run", "--no-print-directory", target, f"VENV={tmp_path / 'none'}"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    [installation] = re.findall(r".*pip install .*", output)
    assert f"--constraint deploy/constraints.txt --editable '.[{extras}]'" in installation
    assert output.index("pip install") < output.index("core/build.py --changed") < output.index(starts)
    assert "make test" in (ROOT / ".ci" / "run").read_text("utf-8")
