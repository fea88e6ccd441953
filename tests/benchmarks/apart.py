"""Peers that do not install beside our pins: each in an environment of its own, as a process of its own.

In: a peer's name with `apart/PEER.txt` (what to install), and a script `apart/NAME.py`. Out: the last line that the
script prints, as JSON. The environment is made on first use, under .venv/apart; where a peer cannot be installed its
figures are absent.
"""

import json
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent / "apart"
_ENVIRONMENTS = Path(__file__).parents[2] / ".venv" / "apart"


def python_of(peer: str, say: Callable[[str], object] = lambda _: None) -> Path | None:
    """The interpreter that has the peer, or None."""
    wanted, home = _HERE / f"{peer}.txt", _ENVIRONMENTS / peer
    python, stamp = home / "bin" / "python", home / "installed.txt"
    if stamp.is_file() and stamp.read_text("utf-8") == wanted.read_text("utf-8"):
        return python
    say(f"Installing {peer} into an environment of its own ...")
    venv.create(home, clear=True, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(wanted)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        say(f"{peer} cannot be installed here, its figures are left out: {done.stderr.strip().splitlines()[-1]}")
        return None
    stamp.write_text(wanted.read_text("utf-8"), "utf-8")
    return python


def run(python: Path, script: str, *arguments: str) -> dict[str, Any]:
    """What `apart/SCRIPT.py` prints on its last line; what it complains of is shown when it fails."""
    # -P: the script's folder must not stand in for what it imports.
    command = [str(python), "-P", str(_HERE / f"{script}.py"), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
