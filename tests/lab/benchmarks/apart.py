"""Run peers whose dependencies conflict with ours, each in its own virtual environment and process.

`apart/PEER.txt` has a peer's requirements; a script `apart/SCRIPT.py` prints its result as JSON in its last line. The
environment is created on first use, under .venv/apart. If a peer cannot be installed, its figures are missing.
"""

import json
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SCRIPTS = Path(__file__).parent / "apart"
_ENVIRONMENTS = Path(__file__).parents[3] / ".venv" / "apart"


def python_of(peer: str, report: Callable[[str], object] = lambda _: None) -> Path | None:
    """Return the interpreter of the peer's environment; None if the peer cannot be installed."""
    requirements, home = _SCRIPTS / f"{peer}.txt", _ENVIRONMENTS / peer
    python, stamp = home / "bin" / "python", home / "installed.txt"
    if stamp.is_file() and stamp.read_text("utf-8") == requirements.read_text("utf-8"):
        return python
    report(f"Installing {peer} in its own environment ...")
    venv.create(home, clear=True, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        report(f"{peer} cannot be installed here, so its figures are left out: {done.stderr.strip().splitlines()[-1]}")
        return None
    stamp.write_text(requirements.read_text("utf-8"), "utf-8")
    return python


def run(python: Path, script: str, *arguments: str) -> dict[str, Any]:
    """Run `apart/SCRIPT.py` and return the JSON of its last line. If it fails, print its standard error and raise."""
    # -P: modules in the script's folder must not shadow the packages that it imports.
    command = [str(python), "-P", str(_SCRIPTS / f"{script}.py"), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    return json.loads(done.stdout.strip().splitlines()[-1])
