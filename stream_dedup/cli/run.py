"""`stream-dedup run --config FILE`: the worker on Kafka, until SIGTERM or Ctrl-C."""

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
    "shadow mode: nothing is held back; what would be is marked in headers, and copied to %s. To hold it back set "
    "[policy] shadow to false"
)


def run_command(config: ConfigOption = None) -> None:
    """Run the worker on Kafka, until SIGTERM or Ctrl-C.

    Reads the input topic and forwards what is not a near-duplicate, exactly once. Ends within 10 s of SIGTERM.
    """
    from stream_dedup.observe.watch import Watch
    from stream_dedup.precompile.compilations import compiling_is_said
    from stream_dedup.settings import load_settings
    from stream_dedup.stream.broker_watch import BrokerWatch
    from stream_dedup.stream.worker import Worker

    settings = load_settings(config)
    logs.set_up(logs.form_of(settings, sys.stderr.isatty()), logs.secrets_of(settings))
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
        with compiling_is_said(log.info), BrokerWatch(settings, watch):
            Worker(settings, observer=watch, deduplicator=watch.deduplicator).run(stop)
    log.info("stopped; everything that was begun is committed or will be read again")
    _end()


def _end() -> NoReturn:
    """Ends the process at once, with exit code 0; everything is closed by then.

    Python's own end takes everything apart piece by piece, which the kernel does in no time: with the compiled kernels
    loaded it is .6 to 1.5 s of processor time beside other work, 15 s on a starved machine, and it waits for a merge of
    the index that is under way. Container runtimes kill ten seconds after SIGTERM.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM and Ctrl-C set; a second Ctrl-C ends the process at once."""
    stop = threading.Event()

    def ask(number: int, _frame: object) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, ask)
    return stop
