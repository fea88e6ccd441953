"""Two hundred thousand pages of one form pass through split mode, at a cost of a page that does not grow with them."""

from collections.abc import Callable

import pytest

from stream_dedup.demo.embedded import EmbeddedKafka
from stream_dedup.stream.roles.names import RoleName
from tests.benchmarks.kafka_texts import fill, fresh_topics
from tests.benchmarks.worker import run_worker
from tests.load.process import as_json
from tests.load.results import record
from tests.load.texts import template

# Below some 40,000 pages the buckets of their keys are not full yet, and a page costs less.
COUNTS = 50_000, 200_000
WORDS = 120
# A quadratic step would cost four times as much for a page of the larger flood. What grows is the index itself.
FLAT = 1.5
_ROLES = RoleName.FINGERPRINT, RoleName.JUDGE, RoleName.PUBLISH


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.timeout(1800)
def test_a_flood_of_one_form_costs_no_more_for_a_page(kafka: EmbeddedKafka, topic_name: Callable[[str], str]) -> None:
    costs: dict[str, list[float]] = {role: [] for role in _ROLES}
    for count in COUNTS:
        settings = fresh_topics(kafka.bootstrap, topic_name(f"flood-{count}"), is_split=True)
        values = [as_json(i.id, i.title, i.text, i.source) for i in template(count, WORDS, WORDS // 5)]
        fill(settings, values)
        for role in _ROLES:
            _, processor = run_worker(settings, count, role=role).seconds_per_item
            costs[role].append(processor)
    figures = {
        f"us_{role}_{count}": cost * 1e6 for role in _ROLES for count, cost in zip(COUNTS, costs[role], strict=True)
    }
    growth = {role: costs[role][1] / costs[role][0] for role in _ROLES}
    record("a flood of one form in split mode", figures | {f"growth_{role}": growth[role] for role in _ROLES})
    assert max(growth.values()) < FLAT
