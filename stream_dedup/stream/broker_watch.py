"""Notices that the brokers are away, whatever the worker does at the moment: settings -> two hooks of an observer.

    with BrokerWatch(settings, watch):
        Worker(settings, observer=watch).run(stop)

Why apart: to a consumer, brokers that are away look like a quiet topic, since a poll returns nothing either way. A
worker without input has nothing to commit and so nothing that fails. And one that cannot even start waits in a call of
the client. So a broker is asked for the cluster's members every two seconds, over a connection of its own, in a thread
of its own; another thread looks at how old the last answer is.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from kafka import errors as kafka_errors
from kafka.admin import KafkaAdminClient

from stream_dedup.settings import Settings
from stream_dedup.stream import client
from stream_dedup.stream.bounded import Bounded
from stream_dedup.stream.observer import Observer

log = logging.getLogger(__name__)

# An answer takes some milliseconds, and a broker serves thousands of such requests a second.
_EVERY = 2.0
# Brokers without an answer for so long are away: after three questions, and with the pause between them and a tick
# still within ten seconds. A leader's election or a broker's restart behind others is no reason: any broker may answer.
AWAY = 7.0
_TICK = 0.5
# Said again while it lasts: whoever opens the log then should not have to search for it.
_AGAIN = 60.0
# A tick that comes so late tells of this process (stopped, starved, a laptop asleep), not of the brokers.
_ASLEEP = 5.0
# Each question ends by itself within ten seconds or so (measured with a frozen broker). One that has not by then hangs
# in the client, and the next one gets a new thread and a new client.
_HUNG = 30.0
# Half of what other clients wait: a frozen broker must not use up the time between two questions many times over.
_TIMEOUT_MS = 5000


class BrokerWatch:
    """Asks from `with` to its end. `clock`: monotonic seconds; `asker` makes what asks once and raises KafkaError."""

    def __init__(
        self,
        settings: Settings,
        observer: Observer,
        *,
        clock: Callable[[], float] = time.monotonic,
        asker: "Callable[[Settings], BrokerProbe] | None" = None,
    ) -> None:
        self._settings, self._observer, self._clock = settings, observer, clock
        self._asker = asker or BrokerProbe
        self._servers = settings.kafka.bootstrap_servers
        self._answered = self._ticked = clock()  # when a broker answered last, or this began
        self._never = True  # nobody has answered since this began
        self._reason = "no answer yet"
        self._said = float("-inf")  # when it was logged last; -inf: they are not away
        self._asked = float("-inf")
        self._under_way: Future[None] | None = None
        self._over = threading.Event()
        self._begin_asking()

    def __enter__(self) -> "BrokerWatch":
        threading.Thread(target=self._watch, name=f"{self._settings.kafka.group_id}-reach", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Waits for nothing: a question that is on its way ends by itself."""
        self._over.set()
        self._calls.end(self._question.close)

    def _watch(self) -> None:
        while not self._over.wait(_TICK):
            self.look()

    def look(self) -> None:
        """One tick: takes an answer, asks the next question, and tells what there is to tell. Never waits."""
        now = self._clock()
        if now - self._ticked > _ASLEEP:
            self._answered += now - self._ticked
        self._ticked = now
        if self._under_way is not None and self._under_way.done():
            self._take(self._under_way, now)
            self._under_way = None
        self._tell(now)
        if self._under_way is None and now - self._asked >= _EVERY:
            self._asked = now
            self._under_way = self._calls.start("asking for the brokers", self._question)
        elif self._under_way is not None and now - self._asked > _HUNG:
            self._reason = f"the client has not come back for {_HUNG:.0f} s"
            self._calls.end()
            self._begin_asking()

    def _begin_asking(self) -> None:
        self._calls = Bounded(f"{self._settings.kafka.group_id}-reach-client")
        self._question = self._asker(self._settings)
        self._under_way = None

    def _take(self, answer: Future[None], now: float) -> None:
        try:
            answer.result()
        except kafka_errors.AuthorizationError:
            pass  # a broker has said so
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody has answered, and the watching goes on
            self._reason = _reason(error)
            return
        if self._said > float("-inf"):
            self._said = float("-inf")
            log.info("the brokers answer again, after %.0f s", now - self._answered)
            self._observer.brokers_back()
        self._answered, self._never = now, False

    def _tell(self, now: float) -> None:
        away = now - self._answered
        if away < AWAY:
            return
        self._observer.brokers_away(away, f"no broker at {self._servers} has answered for {away:.0f} s: {self._reason}")
        if now - self._said < _AGAIN:
            return
        self._said = now
        cure = (
            "Check [kafka] bootstrap_servers and security_protocol, and that the brokers run"
            if self._never
            else "Look at the brokers and the network; nothing is lost, and the worker goes on when they are back"
        )
        log.warning(
            "no broker at %s has answered for %.0f s (%s): nothing goes through. %s. Said again each minute",
            self._servers, away, self._reason, cure, extra={"seconds": round(away, 1)},
        )  # fmt: skip


def _reason(error: Exception) -> str:
    """For a person.

    >>> _reason(kafka_errors.KafkaTimeoutError("Unable to bootstrap"))
    'KafkaTimeoutError: Unable to bootstrap'
    """
    if isinstance(error, kafka_errors.NodeNotReadyError):  # its own text is about the client's insides
        return "every connection is broken"
    name, text = type(error).__name__, str(error)
    return text if name in text else f"{name}: {text}"


class BrokerProbe:
    """Asks any broker once for the cluster's members, over a connection that stays open while it works."""

    def __init__(self, settings: Settings) -> None:
        self._config = client.connection(settings) | {
            "request_timeout_ms": _TIMEOUT_MS,
            "bootstrap_timeout_ms": _TIMEOUT_MS,
        }
        self._admin: Any = None

    def __call__(self) -> None:
        """Raises KafkaError if nobody answers."""
        if self._admin is None:
            self._admin = client.make(KafkaAdminClient, self._config)
        try:
            self._admin.describe_cluster()
        except kafka_errors.KafkaError:
            self.close()  # the next one asks the bootstrap servers
            raise

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()
