"""Commands of a worker on Kafka: `run` and `health`. Each takes the worker's settings file."""

from __future__ import annotations

import gc
import logging
import os
import sys
from typing import Annotated, NoReturn

from stream_dedup import cli
from stream_dedup.cli import ConfigOption, option
from stream_dedup.errors import ConfigError
from stream_dedup.extras import consequences
from stream_dedup.observe import logs
from stream_dedup.phrases import version_text

log = logging.getLogger("stream_dedup.run")

_SHADOW = (
    "shadow mode: the worker holds nothing back; items that it would hold back are marked in headers and copied to %s. "
    "To hold them back, set [policy] shadow to false"
)
_FOREIGN = (
    "not settings, and ignored: %s. Kubernetes makes them of a Service whose name begins with stream-dedup; to have "
    "none, set enableServiceLinks: false in the Pod's spec"
)


def run_command(config: ConfigOption = None) -> None:
    """Run the worker on Kafka, until SIGTERM or Ctrl-C.

    Reads the input topic and forwards items that are not near-duplicates, exactly once. Stops within 10 s of SIGTERM.
    """
    from stream_dedup.observe.watch import Watch
    from stream_dedup.settings import secrets_of, service_variables
    from stream_dedup.worker.cluster_watch import BrokerWatch
    from stream_dedup.worker.worker import Worker

    settings = cli.settings_of(config)
    logs.set_up("text" if sys.stderr.isatty() else "json", secrets_of(settings), waits=False)
    if foreign := service_variables():
        log.info(_FOREIGN, ", ".join(foreign))
    stop = cli.stop_on_signals()
    for consequence in consequences():
        log.info("%s", consequence)
    with Watch(settings, version_text(), show=cli.tool("tools.page.show:show")) as watch:
        topics = settings.topics
        log.info("group %s, %s -> %s, scope %s", settings.kafka.group_id, topics.input, topics.output,
                 settings.worker.scope)  # fmt: skip
        if settings.policy.shadow:
            log.warning(_SHADOW, topics.duplicates)
        gc.freeze()  # what the imports have made: a full collection of it stops every thread for 33 ms
        # A batch makes thousands of tuples and no cycle. By default Python looks for cycles after every 700 new objects
        # (2,000 from 3.13 on), which takes 2 µs an item.
        gc.set_threshold(20_000)
        with BrokerWatch(settings, watch):
            Worker(settings, observer=watch, decider=watch.decider).run(stop)
    log.info("stopped; each batch in work is committed or will be read again")
    _exit()


def _exit() -> NoReturn:
    """End the process at once with exit code 0; call it after everything is closed.

    A regular exit of the interpreter waits for a running merge of the index, and frees every object. Container runtimes
    kill the process ten seconds after SIGTERM.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


# -- health ----------------------------------------------------------------------------------------------


def health_command(
    url: Annotated[
        str | None, option("The worker's /healthz (or /livez), instead of the one from the settings.", "URL")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Ask a running worker for its health.

    Exit code 0 if the worker is active or stands by, 1 otherwise. The settings give the worker's address
    (`observe.host`, the port after `observe.port`), certificate and token: use its --config and environment.

    For a health check every few seconds, use `python -m stream_dedup.observe.probe [URL or PATH]`, which prints the
    same and starts faster. With the path /livez it asks whether the worker is stuck, and only then should be restarted.
    """
    from stream_dedup.observe import probe

    if config is None:
        sys.exit(probe.main([] if url is None else [url]))
    observe = cli.settings_of(config).observe
    if url is None:
        if not observe.host:
            raise ConfigError("[observe] host is empty: a worker with these settings has no /healthz to ask")
        if observe.port == 0:
            raise ConfigError(
                "[observe] port is 0, and so health has any free port: take the URL from the worker's log and pass it "
                "with --url"
            )
        url = probe.url_of(observe.host, observe.health_port, "https" if observe.tls_certfile else "http")
    sys.exit(probe.report(url, observe.tls_certfile, observe.secret("token")))
