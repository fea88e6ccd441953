"""`make observe` leaves no alert out."""

import re

from tests.lab.operate.prometheus import RULES
from tests.lab.operate.run import FAULTS


def test_every_alert_has_one_fault_that_fires_it() -> None:
    alerts = re.findall(r"- alert: StreamDedup(\w+)", RULES.read_text("utf-8"))
    assert sorted(alert for fault in FAULTS for alert in fault.alerts) == sorted(alerts)
