"""Watch the brokers while a worker runs: does any of them answer, and is a certificate wrong?

To a consumer an outage looks like a quiet topic, because a poll returns nothing either way. A worker without input
commits nothing, so nothing fails, and a worker that cannot start waits inside a call of the client. So `BrokerWatch`
asks a broker every few seconds, over a connection of its own, and never waits for the answer (`Question`).

    with BrokerWatch(settings, observer):
        Worker(settings, observer=observer).run(stop)
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from stream_dedup.errors import Stalled
from stream_dedup.kafka import client, errors
from stream_dedup.kafka.cluster import KeptAdmin
from stream_dedup.kafka.errors import DISTRUSTED, KafkaError, error_text, is_throttled, kafka_errors
from stream_dedup.kafka.runtime import Bounded
from stream_dedup.settings import Settings
from stream_dedup.worker.observer import Observer

T = TypeVar("T")
log = logging.getLogger(__name__)

# A request that never returns costs a thread, so the patience doubles with each in a row, up to some hours.
_DOUBLINGS = 9
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
# client, and the next probe gets a new thread and a new client.
_HUNG_SECONDS = 30.0


class Question(Generic[T]):
    """A question that is asked again and again, in a thread that `thread` makes, by what `make` makes.

    After `patience` seconds without an answer both are given up and made anew.
    """

    def __init__(
        self, thread: Callable[[], Bounded], make: Callable[[], Callable[[], T]], every: float, patience: float
    ) -> None:
        self._thread, self._make, self.every, self._patience = thread, make, every, patience
        self._asked_at = float("-inf")
        self._hung = 0  # requests in a row that have not come back
        self._renew()

    def _renew(self) -> None:
        self.calls, self._ask = self._thread(), self._make()
        self.pending: Future[T] | None = None

    def silent_since(self) -> float | None:
        """Return when the question that has no answer yet was asked."""
        return self._asked_at if self.pending is not None and not self.pending.done() else None

    def poll(self, now: float) -> Future[T] | None:
        """Return the answer, once, failed with `Stalled` if it is late. Asks again when it is time."""
        answer: Future[T] | None = None
        if self.pending is not None and self.pending.done():
            answer, self.pending, self._hung = self.pending, None, 0
        if self.pending is None:
            if now - self._asked_at >= self.every:
                self._asked_at, self.pending = now, self.calls.start("asking Kafka", self._ask)
        elif now - self._asked_at > self._patience * 2 ** min(self._hung, _DOUBLINGS):
            answer = Future()
            answer.set_exception(Stalled(f"the client has not come back for {now - self._asked_at:.0f} s"))
            self.calls.end()
            self._renew()
            self._hung += 1
        return answer


class AdvertisedError(KafkaError):  # type: ignore[misc]  # kafka-python ships no types
    """A bootstrap server answers, and no broker can be reached under the address that it advertises."""


class BrokerProbe(KeptAdmin):
    """Asks any broker whether it answers, over a connection that stays open until it fails."""

    def __call__(self) -> None:
        """Ask a broker. Raises KafkaError if none answers."""
        is_new = self.admin is None  # then a bootstrap server has answered just now
        try:
            with self.open() as admin:  # after an error the next probe asks the bootstrap servers
                admin.describe_topics([])  # not describe_cluster: kafka-python 3.0.12 cannot read it before Kafka 3.7
        except KafkaError as error:
            if is_new and (unreached := errors.unreached(client.client_id(self.settings))):
                raise AdvertisedError(unreached) from error
            raise


class BrokerWatch:
    """Probes the brokers inside its `with` block. `clock`: monotonic seconds; `make_probe` replaces `BrokerProbe`."""

    def __init__(
        self,
        settings: Settings,
        observer: Observer,
        *,
        clock: Callable[[], float] = time.monotonic,
        make_probe: Callable[[Settings], BrokerProbe] = BrokerProbe,
    ) -> None:
        self._settings, self._observer, self._clock = settings, observer, clock
        name = f"{settings.kafka.group_id}-reach-client"

        def new_probe() -> BrokerProbe:
            self._probe = make_probe(settings)
            return self._probe

        self._question = Question(lambda: Bounded(name), new_probe, _PROBE_SECONDS, _HUNG_SECONDS)
        self._servers = settings.kafka.bootstrap_servers
        self._answered_at = self._ticked_at = clock()  # before the first answer: the start of the watch
        self._never_answered = True
        self._reason, self._is_advertised = "no answer yet", False
        self._logged_at = float("-inf")  # -inf: the brokers are not away
        self._distrusted: dict[str, str] = {}  # as last reported
        self._stopped = threading.Event()

    def __enter__(self) -> "BrokerWatch":
        threading.Thread(target=self._run, name=f"{self._settings.kafka.group_id}-reach", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the watch without waiting: a pending probe ends by itself."""
        self._stopped.set()
        self._question.calls.end(self._probe.close)

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
        answer = self._question.poll(now)
        if answer is not None:
            self._take_answer(answer, now)
        self._report_distrusted()
        self._report_outage(now)

    def _take_answer(self, answer: Future[None], now: float) -> None:
        error = answer.exception()
        # A refusal is an answer, and so is a quota. After any other error no broker has answered.
        if not (error is None or isinstance(error, kafka_errors.AuthorizationError) or is_throttled(error)):
            self._reason = _reason_of(error)
            if not isinstance(error, kafka_errors.NodeNotReadyError | Stalled):
                self._is_advertised = isinstance(error, AdvertisedError)
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
        seconds = now - self._answered_at
        if seconds < AWAY:
            return
        reason = "; ".join(self._distrusted.values()) or self._reason
        outage = f"no broker {'of the cluster' if self._is_advertised else f'at {self._servers}'} has answered"
        self._observer.brokers_unreachable(seconds, f"{outage} for {seconds:.0f} s: {reason}")
        if now - self._logged_at < _LOG_AGAIN_SECONDS:
            return
        self._logged_at = now
        cure = (
            "The worker waits"
            if self._is_advertised or "[kafka]" in reason  # kafka/errors.py has looked closer
            else "Check [kafka] bootstrap_servers and security_protocol, and that the brokers run"
            if self._never_answered
            else "Look at the brokers and the network; nothing is lost, and the worker goes on when they are back"
        )
        log.warning(
            "%s for %.0f s (%s): nothing goes through. %s. Logged again each minute",
            outage, seconds, reason, cure, extra={"seconds": round(seconds, 1)},
        )  # fmt: skip


def _reason_of(error: BaseException) -> str:
    """Say why no broker has answered."""
    if isinstance(error, kafka_errors.NodeNotReadyError):  # its own text is about the client's internals
        return "every connection is broken"
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        return str(errors.translate(error, "logging in"))
    return str(error.args[0]) if isinstance(error, AdvertisedError | Stalled) else error_text(error)
