"""A worker within 1 GiB and 256 descriptors, under load, while 1,500 slow clients hold its ports for a minute.

What must come out: each item once, health true throughout, probes answered in time, and no word of it in the log.
"""

import http.client
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.demo.embedded import EmbeddedKafka
from tests.load.cgroup import DESCRIPTORS, entering, limited
from tests.load.test_memory_limit import MEMORY
from tests.measured import record
from tests.observe.slow import slow_clients
from tests.operate.stage import Load, Member, lost_and_repeated, worked_off
from tests.worker.support import make_settings, outcome, ready

CLIENTS, SECONDS, RATE = 1500, 60.0, 300.0
PROBE_SECONDS = 0.2
# Seconds for a probe. It holds for all but the slowest in a hundred, on two cores that also run the
# broker, the load and the clients.
LONGEST = 0.1


class Prober:
    """Asks for health every fifth of a second, in a thread of its own."""

    def __init__(self, address: str) -> None:
        self._host, port = address.split(":")
        self._port = int(port)
        self.seconds: list[float] = []
        self.bad: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(PROBE_SECONDS):
            for path in ("/livez", "/healthz"):
                began = time.monotonic()
                try:
                    with closing(http.client.HTTPConnection(self._host, self._port, timeout=10)) as connection:
                        connection.request("GET", path)
                        answer = connection.getresponse()
                        body = answer.read()
                    if answer.status != 200:
                        self.bad.append(f"{path}: {answer.status} {body!r}")
                except (OSError, http.client.HTTPException) as error:
                    self.bad.append(f"{path}: {error!r}")
                self.seconds.append(time.monotonic() - began)

    def stop(self) -> None:
        self._over.set()
        self._thread.join(30)


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ports", ["the page's port", "both ports"])
def test_slow_clients_cost_neither_items_nor_health(
    kafka: EmbeddedKafka, topic_name: Callable[[str], str], tmp_path: Path, ports: str
) -> None:
    settings = ready(make_settings(kafka.bootstrap, topic_name))
    with (
        limited(MEMORY) as group,
        Member("a", settings, tmp_path, within=entering(group)) as worker,
        Load(settings, RATE) as load,
    ):
        worker.start().wait_until("ok")
        places = [worker.address, worker.health_address][: 1 + (ports == "both ports")]
        targets = [(host, int(port)) for host, port in (place.split(":") for place in places)]
        before = load.sent
        with slow_clients(CLIENTS, *targets):
            prober, most, until = Prober(worker.health_address), 0, time.monotonic() + SECONDS
            pages = 0
            while time.monotonic() < until:
                time.sleep(1)
                most = max(most, len(list(Path(f"/proc/{worker.pid}/fd").iterdir())))
                pages += worker.status == "ok"
            prober.stop()
        sent = load.sent - before
        load.__exit__()
        worked_off(settings)
        log = worker.log()
        assert worker.stop()[0] == 0
    times = np.array(prober.seconds) * 1000
    record(
        "load",
        {
            f"{CLIENTS} slow clients on {ports}, {DESCRIPTORS} descriptors": {
                "items_a_second": sent / SECONDS,
                "probes": len(times),
                "probe_ms_p50": float(np.percentile(times, 50)),
                "probe_ms_p99": float(np.percentile(times, 99)),
                "probe_ms_max": float(times.max()),
                "descriptors": most,
                "healthz_on_the_page_port_ok": pages,
            }
        },
    )
    assert not prober.bad
    if ports != "both ports":  # a probe beside as many others on its own port is answered, but may wait
        assert np.percentile(times, 99) < LONGEST * 1000
    assert most < DESCRIPTORS
    assert pages > SECONDS / 3, "the port of the page answers, too"
    assert "open files" not in log
    assert lost_and_repeated(settings) == ([], [])
    assert len(outcome(settings).fates) == load.sent
