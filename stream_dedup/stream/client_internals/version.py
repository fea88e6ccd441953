"""The version of kafka-python that the patches are made for."""

import kafka

from stream_dedup.errors import ConfigError

VERSION = "3.0.12"


def check_version() -> None:
    """Raise ConfigError if another version of kafka-python is installed.

    An error and no silent fallback: the public calls cost a third more processor time, and an unexpected lag
    is found later than a refused start.
    """
    if kafka.__version__ != VERSION:
        raise ConfigError(
            f"kafka-python {kafka.__version__} is installed, and [kafka] client = 'patched' needs {VERSION} exactly: "
            f"install kafka-python=={VERSION}, or set [kafka] client = 'public' (slower, any version; "
            "STREAM_DEDUP_KAFKA__CLIENT=public)"
        )
