"""The rules for the Prometheus operator and the dashboard for Grafana's sidecar, from the same sources as the files.

`make reference` writes them. `RUNBOOKS` is the one place for the address of the pages that alerts link to.
"""

import json
from pathlib import Path

from deploy.grafana import build as grafana

# Where your copy of this repository's pages is served: set it, and run `make reference`.
RUNBOOKS = "https://runbooks.example/stream-dedup/"
RULES = Path(__file__).with_name("rules.yml")
_FOLDER = "deploy/kubernetes/monitoring/rules"
_MADE = "# Made by deploy/prometheus/build.py from {}; `make reference` writes it.\n"


def prometheus_rule() -> str:
    """rules.yml as a PrometheusRule, with absolute addresses."""
    groups = RULES.read_text("utf-8").partition("\ngroups:\n")[2].replace("runbook_url: ", f"runbook_url: {RUNBOOKS}")
    head = (
        "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: stream-dedup\n  labels: {}\n"
        "spec:\n  groups:\n"
    )
    return _MADE.format("rules.yml") + head + _indented(groups, 2)


def dashboard() -> str:
    """The dashboard as a ConfigMap. In one line, because people read it in Grafana."""
    head = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: stream-dedup-dashboard\n  labels:\n"
        '    grafana_dashboard: "1"\ndata:\n  stream-dedup.json: |\n'
    )
    text = json.dumps(grafana.dashboard(), ensure_ascii=False, separators=(",", ":"))
    return _MADE.format("deploy/grafana/build.py") + head + _indented(f"{text}\n", 4)


def files() -> dict[str, str]:
    """Both files, by path."""
    return {f"{_FOLDER}/prometheusrule.yaml": prometheus_rule(), f"{_FOLDER}/dashboard.yaml": dashboard()}


def _indented(text: str, by: int) -> str:
    return "".join(" " * by + line if line.strip() else line for line in text.splitlines(keepends=True))
