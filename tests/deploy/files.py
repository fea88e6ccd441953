"""Read the files in deploy/: YAML documents, the Dockerfile, and the manifests that kustomize builds."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"


def documents(path: Path) -> list[dict[str, Any]]:
    return [value for value in yaml.safe_load_all(path.read_text("utf-8")) if value is not None]


def kustomization() -> dict[str, Any]:
    [value] = documents(KUBERNETES / "kustomization.yaml")
    return value


def manifests() -> list[dict[str, Any]]:
    """Return all objects of the kustomization, built by kubectl if it is installed, else read from the files."""
    if shutil.which("kubectl"):
        return list(yaml.safe_load_all(kustomized(KUBERNETES)))
    return [value for name in kustomization()["resources"] for value in documents(KUBERNETES / name)]


def kustomized(folder: Path) -> str:
    """Return what kubectl builds of a kustomization."""
    command = ["kubectl", "kustomize", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def manifest(kind: str) -> dict[str, Any]:
    """Return the only object of this kind."""
    [value] = [value for value in manifests() if value["kind"] == kind]
    return value


def dockerfile() -> str:
    """Return the Dockerfile without comments and with continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.M)
    return re.sub(r"\\\n\s*", "", text)
