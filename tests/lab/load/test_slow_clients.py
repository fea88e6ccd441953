"""A worker within 1 GiB and 256 descriptors, under load, while 1,500 slow clients hold its ports for a minute.

What must come out: each item once, health true throughout, probes answered in time, and no word of it in the log.
"""

import http.client
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stream_dedup.tools.demo.embedded import EmbeddedKafka
from tests.harness.check import lost_and_repeated, outcome
from tests.harness.feed import Load
from tests.harness.member import Command
from tests.harness.topics import make_settings, ready, worked_off
from tests.lab.load.process import DESCRIPTORS, entering, limited
from tests.lab.load.test_memory_limit import MEMORY
from tests.lab.measured import record
from tests.observe.slow import slow_clients

CLIENTS, SECONDS, RATE = 1500, 60.0, 300.0
PROBE_SECONDS = 0.2
# Seconds for a probe. It holds for all but the slowest in a hundred, on two cores that also run the
# broker, the load and the clients.
LONGEST = 0.1


def asked(address: str, path: str) -> tuple[float, str]:
    """The seconds until the answer, and what was wrong with it."""
    began, wrong = time.monotonic(), ""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            answer.read()
    except (OSError, http.client.HTTPException) as error:
        wrong = f"{path}: {error!r}"
    return time.monotonic() - began, wrong


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
        Command("a", settings, tmp_path, within=entering(group)) as worker,
        Load(settings, RATE) as load,
    ):
        worker.start().wait_until("ok")
        places = [worker.address, worker.health_address][: 1 + (ports == "both ports")]
        targets = [(host, int(port)) for host, port in (place.split(":") for place in places)]
        before = load.sent
        with slow_clients(CLIENTS, *targets):
            probes, most, pages, end = [], 0, 0, time.monotonic() + SECONDS
            while time.monotonic() < end:
                time.sleep(PROBE_SECONDS)
                probes += [asked(worker.health_address, path) for path in ("/livez", "/healthz")]
                most = max(most, len(list(Path(f"/proc/{worker.pid}/fd").iterdir())))
                pages += worker.status == "ok"
        sent = load.sent - before
        load.__exit__()
        worked_off(settings)
        log = worker.log()
        assert worker.stop()[0] == 0
    times = np.array([seconds for seconds, _ in probes]) * 1000
    figures = {
        "items_a_second": sent / SECONDS, "probes": len(times), "descriptors": most,
        "healthz_on_the_page_port_ok": pages, "probe_ms_max": float(times.max()),
        **{f"probe_ms_p{rank}": float(np.percentile(times, rank)) for rank in (50, 99)},
    }  # fmt: skip
    record("load", {f"{CLIENTS} slow clients on {ports}, {DESCRIPTORS} descriptors": figures})
    assert not [wrong for _, wrong in probes if wrong]
    if ports != "both ports":  # a probe beside as many others on its own port is answered, but may wait
        assert np.percentile(times, 99) < LONGEST * 1000
    assert most < DESCRIPTORS
    assert pages > SECONDS / 3, "the port of the page answers, too"
    assert "open files" not in log
    assert lost_and_repeated(settings) == ([], [])
    assert len(outcome(settings).fates) == load.sent
