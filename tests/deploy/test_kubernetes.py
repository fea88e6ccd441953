"""The manifests: valid for old and new clusters, no rights, two members that never go at once, secrets by reference."""

import re
from typing import Any

import kubernetes_validate
import pytest

from stream_dedup.observe.health import stall_seconds
from stream_dedup.settings import PREFIX, is_setting, load_settings
from stream_dedup.stream.worker import STOP_SECONDS
from tests.deploy.files import KUBERNETES, ROOT, documents, kustomization, manifests, the

LABEL = {"app.kubernetes.io/name": "stream-dedup"}
# From an external operator: its schema is not Kubernetes' own.
FOREIGN = {"ServiceMonitor"}


def pod() -> dict[str, Any]:
    found: dict[str, Any] = the("Deployment")["spec"]["template"]["spec"]
    return found


def worker() -> dict[str, Any]:
    [container] = pod()["containers"]
    found: dict[str, Any] = container
    return found


@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_every_object_is_valid(version: str) -> None:
    examples = documents(KUBERNETES / "secret.example.yaml")
    for one in [*manifests(), *examples]:
        if one["kind"] not in FOREIGN:
            kubernetes_validate.validate(one, version, strict=True)


def test_every_file_is_a_resource_and_every_resource_a_file() -> None:
    named = {*kustomization()["resources"], "kustomization.yaml", "secret.example.yaml"}
    assert {one.name for one in KUBERNETES.glob("*.yaml")} == named


def test_the_pods_meet_the_restricted_standard() -> None:
    context = pod()["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] > 0
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    own = worker()["securityContext"]
    assert own == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod()["automountServiceAccountToken"] is False
    assert the("ServiceAccount")["automountServiceAccountToken"] is False
    writable = [one["name"] for one in worker()["volumeMounts"] if not one.get("readOnly")]
    [tmp] = [one for one in pod()["volumes"] if one["name"] in writable]
    assert tmp["emptyDir"]["medium"] == "Memory"


def test_the_user_is_the_image_s() -> None:
    user, group = re.findall(r"^USER (\d+):(\d+)$", (ROOT / "deploy/Dockerfile").read_text("utf-8"), re.M)[0]
    assert (pod()["securityContext"]["runAsUser"], pod()["securityContext"]["runAsGroup"]) == (int(user), int(group))


def test_one_of_two_members_is_always_there() -> None:
    spec = the("Deployment")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert the("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_selectors_find_the_pods_and_the_service_alone() -> None:
    assert the("Deployment")["spec"]["template"]["metadata"]["labels"].items() >= LABEL.items()
    assert the("Deployment")["spec"]["selector"]["matchLabels"] == LABEL
    assert the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == LABEL
    assert the("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == LABEL
    assert the("Service")["spec"]["selector"] == LABEL


def test_the_monitor_finds_the_service_and_names_the_job_as_the_rules_know_it() -> None:
    monitor, service = the("ServiceMonitor")["spec"], the("Service")
    assert service["metadata"]["labels"].items() >= monitor["selector"]["matchLabels"].items()
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "stream-dedup"
    [endpoint], [port] = monitor["endpoints"], service["spec"]["ports"]
    assert endpoint["port"] == port["name"]
    assert port["targetPort"] in {one["name"] for one in worker()["ports"]}


def test_a_pod_gets_the_time_that_a_stop_takes() -> None:
    assert pod()["terminationGracePeriodSeconds"] >= STOP_SECONDS + 4


@pytest.mark.parametrize("name", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_probes_ask_for_the_worker_s_health(name: str) -> None:
    assert worker()[name]["httpGet"] == {"path": "/healthz", "port": "metrics"}


def test_a_member_that_restores_or_waits_for_kafka_is_not_ended_at_once() -> None:
    def seconds(name: str) -> float:
        return float(worker()[name]["periodSeconds"] * worker()[name]["failureThreshold"])

    assert seconds("startupProbe") >= 600
    assert seconds("livenessProbe") >= 2 * stall_seconds(load_settings())


def test_the_settings_are_usable_and_the_environment_names_settings() -> None:
    settings = load_settings(KUBERNETES / "stream-dedup.toml")
    [port] = worker()["ports"]
    assert settings.observe.port == port["containerPort"]
    for one in worker()["env"]:
        assert one["name"].startswith(PREFIX)
        assert is_setting(one["name"])


def test_secrets_come_by_reference_alone() -> None:
    for one in manifests():
        assert one["kind"] != "Secret"
    for one in worker()["env"]:
        assert "value" not in one
        assert "secretKeyRef" in one["valueFrom"]
    [example] = documents(KUBERNETES / "secret.example.yaml")
    assert set(example["stringData"].values()) == {""}
