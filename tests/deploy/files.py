"""What stands in deploy/, read: YAML documents, and the manifests as kustomize gives them."""

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
    return [one for one in yaml.safe_load_all(path.read_text("utf-8")) if one is not None]


def kustomization() -> dict[str, Any]:
    [found] = documents(KUBERNETES / "kustomization.yaml")
    return found


def manifests() -> list[dict[str, Any]]:
    """All objects of the kustomization: built where kubectl is, else as the files have them."""
    if shutil.which("kubectl"):
        built = subprocess.run(
            ["kubectl", "kustomize", str(KUBERNETES)], capture_output=True, text=True, check=True, timeout=60
        )
        return list(yaml.safe_load_all(built.stdout))
    return [one for name in kustomization()["resources"] for one in documents(KUBERNETES / name)]


def the(kind: str) -> dict[str, Any]:
    """The one object of this kind."""
    [found] = [one for one in manifests() if one["kind"] == kind]
    return found


def dockerfile() -> str:
    """The Dockerfile without comments, continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.M)
    return re.sub(r"\\\n\s*", "", text)
