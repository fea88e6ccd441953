"""Peers that do not install beside our pins: each in an environment of its own, as a process of its own.

In: a peer's name, `apart/NAME.txt` (what to install) and `apart/NAME.py` (what to run). Out: the last line that the
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


def run(python: Path, peer: str, *arguments: str) -> dict[str, Any]:
    """What `apart/NAME.py` prints on its last line. Its other output goes to our stderr when it fails."""
    done = subprocess.run(
        [str(python), str(_HERE / f"{peer}.py"), *arguments], check=False, capture_output=True, text=True
    )
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
