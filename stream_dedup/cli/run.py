"""`stream-dedup run --config FILE`: run the worker on Kafka until SIGTERM or Ctrl-C."""

import logging
import os
import signal
import sys
import threading
from typing import NoReturn

from stream_dedup.cli.common import ConfigOption, version_text
from stream_dedup.observe import logs

log = logging.getLogger("stream_dedup.run")

_SHADOW = (
    "shadow mode: the worker holds nothing back; items that it would hold back are marked in headers and copied to %s. "
    "To hold them back, set [policy] shadow to false"
)


def run_command(config: ConfigOption = None) -> None:
    """Run the worker on Kafka, until SIGTERM or Ctrl-C.

    Reads the input topic and forwards items that are not near-duplicates, exactly once. Stops within 10 s of SIGTERM.
    """
    from stream_dedup.observe.watch import Watch
    from stream_dedup.precompile.compilations import report_long_compilation
    from stream_dedup.settings import load_settings, secrets_of
    from stream_dedup.worker.broker_watch import BrokerWatch
    from stream_dedup.worker.worker import Worker

    settings = load_settings(config)
    logs.set_up(logs.form_of(settings, sys.stderr.isatty()), secrets_of(settings))
    stop = stop_on_signals()
    with Watch(settings, version_text()) as watch:
        log.info(
            "group %s, %s -> %s, scope %s",
            settings.kafka.group_id,
            settings.topics.input,
            settings.topics.output,
            settings.worker.scope,
        )
        if settings.policy.shadow:
            log.warning(_SHADOW, settings.topics.duplicates)
        with report_long_compilation(log.info), BrokerWatch(settings, watch):
            Worker(settings, observer=watch, deduplicator=watch.deduplicator).run(stop)
    log.info("stopped; each batch in work is committed or will be read again")
    _exit()


def _exit() -> NoReturn:
    """End the process at once with exit code 0; call it after everything is closed.

    A regular interpreter exit frees every object first: with the compiled kernels loaded this takes .6 to 1.5 s of
    processor time, 15 s on an overloaded machine, and it waits for a running merge of the index. Container runtimes
    kill the process ten seconds after SIGTERM.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and Ctrl-C set; a second signal ends the process at once."""
    stop = threading.Event()

    def handle(number: int, _frame: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    return stop
