"""Detect that no broker answers, or that one has a wrong certificate, and report it to an observer.

    with BrokerWatch(settings, observer):
        Worker(settings, observer=observer).run(stop)

To a consumer, an outage looks like a quiet topic, since a poll returns nothing either way. A worker without input
commits nothing, so nothing fails, and a worker that cannot start waits inside a call of the client. So a thread of its
own asks a broker for the cluster's members every two seconds, over a connection of its own, and another thread checks
the age of the last answer.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from stream_dedup.kafka import client
from stream_dedup.kafka.bounded import Bounded
from stream_dedup.kafka.client import KafkaAdminClient
from stream_dedup.kafka.errors import DISTRUSTED, AuthorizationError, KafkaError, NodeNotReadyError, error_text
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import Observer

log = logging.getLogger(__name__)

# An answer takes some milliseconds, and a broker serves thousands of such requests a second.
_PROBE_SECONDS = 2.0
# Without an answer for this long, the brokers are away: three probes have failed, and with the pause between probes and
# a tick it is still reported within ten seconds. A leader election or one broker's restart does not matter, since any
# broker may answer.
AWAY = 7.0
_TICK_SECONDS = 0.5
# Log again while the outage lasts, so that the end of the log shows it.
_LOG_AGAIN_SECONDS = 60.0
# A tick this late means that this process was stopped, starved or suspended; it says nothing about the brokers.
_SUSPENDED_SECONDS = 5.0
# A probe ends by itself within about ten seconds (measured with a frozen broker). After this long it hangs in the
# client, and the next probe gets a new thread and a new client. A thread that hangs is lost, so the patience doubles
# with each in a row, up to some hours.
_HUNG_SECONDS = 30.0
_DOUBLINGS = 9
# Half of what other clients wait: a frozen broker must not use up the time of many probes.
_TIMEOUT_MS = 5000


class BrokerWatch:
    """Probes the brokers inside its `with` block. `clock`: monotonic seconds; `make_probe` replaces `BrokerProbe`."""

    def __init__(
        self,
        settings: Settings,
        observer: Observer,
        *,
        clock: Callable[[], float] = time.monotonic,
        make_probe: "Callable[[Settings], BrokerProbe] | None" = None,
    ) -> None:
        self._settings, self._observer, self._clock = settings, observer, clock
        self._make_probe = make_probe or BrokerProbe
        self._servers = settings.kafka.bootstrap_servers
        self._answered_at = self._ticked_at = clock()  # before the first answer: the start of the watch
        self._never_answered = True
        self._reason = "no answer yet"
        self._logged_at = float("-inf")  # -inf: the brokers are not away
        self._probed_at = float("-inf")
        self._pending: Future[None] | None = None
        self._hung = 0  # probes in a row
        self._distrusted: dict[str, str] = {}  # as last reported
        self._stopped = threading.Event()
        self._start_probing()

    def __enter__(self) -> "BrokerWatch":
        threading.Thread(target=self._run, name=f"{self._settings.kafka.group_id}-reach", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Does not wait: a pending probe ends by itself."""
        self._stopped.set()
        self._calls.end(self._probe.close)

    def _run(self) -> None:
        is_logged = False
        while not self._stopped.wait(_TICK_SECONDS):
            try:
                self.tick()
            except Exception as error:  # such as no thread for a new client: the watch goes on
                self._reason = error_text(error)
                if not is_logged:
                    log.exception("watching the brokers failed (logged once); it goes on, and so does the worker")
                is_logged = True

    def tick(self) -> None:
        """Take an answer, report an outage, start the next probe. Never waits."""
        now = self._clock()
        if now - self._ticked_at > _SUSPENDED_SECONDS:
            self._answered_at += now - self._ticked_at
        self._ticked_at = now
        if self._pending is not None and self._pending.done():
            self._take_answer(self._pending, now)
            self._pending = None
        self._report_distrusted()
        self._report_outage(now)
        if self._pending is None and now - self._probed_at >= _PROBE_SECONDS:
            self._probed_at = now
            self._pending = self._calls.start("asking for the brokers", self._probe)
        elif self._pending is not None and now - self._probed_at > _HUNG_SECONDS * 2 ** min(self._hung, _DOUBLINGS):
            self._reason = f"the client has not come back for {now - self._probed_at:.0f} s"
            self._calls.end()
            self._start_probing()
            self._hung += 1

    def _start_probing(self) -> None:
        self._calls = Bounded(f"{self._settings.kafka.group_id}-reach-client")
        self._probe = self._make_probe(self._settings)
        self._pending = None

    def _take_answer(self, answer: Future[None], now: float) -> None:
        self._hung = 0
        try:
            answer.result()
        except AuthorizationError:
            pass  # a refusal is an answer
        except NodeNotReadyError:  # its own text is about the client's internals
            self._reason = "every connection is broken"
            return
        except Exception as error:  # noqa: BLE001 - after any error no broker has answered, and the watch goes on
            self._reason = error_text(error)
            return
        if self._logged_at > float("-inf"):
            self._logged_at = float("-inf")
            log.info("the brokers answer again, after %.0f s", now - self._answered_at)
            self._observer.brokers_reachable()
        self._answered_at, self._never_answered = now, False

    def _report_distrusted(self) -> None:
        """Report the brokers whose certificate is refused, each once; the clients go on trying."""
        problems = DISTRUSTED.recent(client.client_id(self._settings))
        if problems == self._distrusted:
            return
        for server in problems.keys() - self._distrusted.keys():
            log.error("%s. What this broker leads does not go through", problems[server], extra={"broker": server})
        if not problems:
            log.info("no broker's certificate is refused any more: %s", ", ".join(self._distrusted))
        self._distrusted = problems
        self._observer.brokers_distrusted(problems)

    def _report_outage(self, now: float) -> None:
        away = now - self._answered_at
        if away < AWAY:
            return
        reason = "; ".join(self._distrusted.values()) or self._reason
        self._observer.brokers_unreachable(
            away, f"no broker at {self._servers} has answered for {away:.0f} s: {reason}"
        )
        if now - self._logged_at < _LOG_AGAIN_SECONDS:
            return
        self._logged_at = now
        cure = (
            "The worker waits"
            if "[kafka]" in reason  # addresses.py or tls.py has looked closer
            else "Check [kafka] bootstrap_servers and security_protocol, and that the brokers run"
            if self._never_answered
            else "Look at the brokers and the network; nothing is lost, and the worker goes on when they are back"
        )
        log.warning(
            "no broker at %s has answered for %.0f s (%s): nothing goes through. %s. Logged again each minute",
            self._servers, away, reason, cure, extra={"seconds": round(away, 1)},
        )  # fmt: skip


class BrokerProbe:
    """Asks any broker for the cluster's members, over a connection that stays open until it fails."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._admin: Any = None

    def __call__(self) -> None:
        """Raises KafkaError if no broker answers."""
        if self._admin is None:
            timeouts = {"request_timeout_ms": _TIMEOUT_MS, "bootstrap_timeout_ms": _TIMEOUT_MS}
            # Each time anew: a password may have been replaced, which the worker's own clients read from its file, too.
            self._admin = client.make(KafkaAdminClient, client.connection(self._settings) | timeouts)
        try:
            self._admin.describe_topics([])  # not describe_cluster: kafka-python 3.0.12 cannot read it before Kafka 3.7
        except KafkaError:
            self.close()  # the next probe asks the bootstrap servers
            raise

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()
