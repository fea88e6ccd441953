"""The Dockerfile says what it promises; that it works is tried out in test_image.py."""

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


def test_hadolint_has_nothing_to_say() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    said = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr


def test_what_it_copies_is_there_and_passes_the_dockerignore() -> None:
    ignore = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert "*" in ignore, "what is not named does not go into the image"
    let_in = {line[1:] for line in ignore if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(?:--\S+ )*(.+) \S+$", dockerfile(), re.M)
    sources = {source for line in copied for source in line.split()}
    assert sources == let_in
    for source in sources:
        assert (ROOT / source).exists(), source


def test_every_base_is_pinned_to_a_version_and_the_last_stage_is_not_root() -> None:
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", dockerfile(), re.M)
    names = {name for _, name in stages if name}
    for base, _ in stages:
        assert base in names or re.search(r":\d+\.\d+", base), base
    last = dockerfile().rpartition("FROM ")[2]
    assert re.search(r"^USER \d+:\d+$", last, re.M), "Kubernetes can tell only of a number that it is not root"
    assert re.search(r'^ENTRYPOINT \["', last, re.M), "a shell would keep SIGTERM to itself"


def test_the_kernels_are_compiled_for_the_processor_that_the_run_names() -> None:
    named = set(re.findall(r"NUMBA_CPU_NAME=(\S+)", dockerfile()))
    features = set(re.findall(r"NUMBA_CPU_FEATURES=(\S+)", dockerfile()))
    defaults = set(re.findall(r"^ARG KERNEL_CPU=(\S+)$", dockerfile(), re.M))
    assert (len(named), len(features), len(defaults)) == (1, 1, 1)


def test_the_version_is_the_same_everywhere() -> None:
    version = PROJECT["project"]["version"]
    assert f"ARG VERSION={version}" in dockerfile()
    [compose] = documents(DEPLOY / "compose.yaml")
    assert compose["x-ours"]["image"] == f"stream-dedup:{version}"
    [kustomization] = documents(DEPLOY / "kubernetes" / "kustomization.yaml")
    assert kustomization["images"] == [{"name": "stream-dedup", "newTag": version}]


@pytest.mark.parametrize(
    "wanted",
    PROJECT["build-system"]["requires"]
    + PROJECT["project"]["dependencies"]
    + [one for extra in PROJECT["project"]["optional-dependencies"].values() for one in extra],
)
def test_each_requirement_has_one_version_that_fits(wanted: str) -> None:
    requirement = Requirement(wanted)
    versions = {canonicalize_name(name): version for name, version in CONSTRAINTS.items()}
    assert requirement.specifier.contains(Version(versions[canonicalize_name(requirement.name)]))


def test_whatever_the_worker_needs_is_pinned_with_all_it_needs_itself() -> None:
    pinned = {canonicalize_name(name) for name in CONSTRAINTS}
    found, asked = set(), {canonicalize_name(Requirement(one).name) for one in PROJECT["project"]["dependencies"]}
    while asked - found:
        name = (asked - found).pop()
        found.add(name)
        for line in importlib.metadata.requires(name) or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                asked.add(canonicalize_name(needed.name))
    assert found <= pinned


def test_no_registry_is_named_anywhere() -> None:
    hosts = re.compile(r"https?://|--(extra-)?index-url|--trusted-host|deb \[|(^|\s)(docker|ghcr|quay)\.io", re.M)
    for name in ("Dockerfile", "constraints.txt", "entrypoint.sh", "kubernetes/deployment.yaml"):
        assert not hosts.search((DEPLOY / name).read_text("utf-8")), name
