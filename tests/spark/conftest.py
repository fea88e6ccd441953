"""One Spark session for all tests: local[2], so that rows really move between processes.

Java: that of the machine, else one that cjdk downloads once (it comes with the extra `embedded`).
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from stream_dedup.errors import ConfigError
from tests.conftest import IN_CI

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def java() -> None:
    """A Java that Spark runs on."""
    from stream_dedup.spark.session import LEAST_JAVA, require_java

    try:
        require_java()
    except ConfigError as missing:
        import cjdk

        try:
            os.environ["JAVA_HOME"] = str(cjdk.java_home(vendor="temurin-jre", version=str(LEAST_JAVA)))
            require_java()
        except Exception as error:  # no network: whatever its client raises
            if IN_CI:
                raise
            pytest.skip(f"{missing} (a download failed, too: {error})")


@pytest.fixture(scope="session")
def spark(java: None) -> "Iterator[SparkSession]":
    from stream_dedup.spark.session import open_session

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
