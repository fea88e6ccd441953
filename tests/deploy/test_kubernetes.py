"""The manifests: valid for old and new clusters, without rights, never both members down, secrets by reference."""

import json
import re
import shutil
from collections import Counter
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import kubernetes_validate
import pytest
import yaml

from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.index.footprint import most_originals
from stream_dedup.kafka.topics import Topic, problems, topic_names
from stream_dedup.observe.health import stall_seconds
from stream_dedup.settings import PREFIX, is_setting, load_settings
from stream_dedup.tools.feeds.web import is_public
from stream_dedup.tools.topics.setup import new_config
from stream_dedup.worker.worker import STOP_SECONDS
from tests.deploy.files import DEPLOY, KUBERNETES, dockerfile, documents, kustomization, kustomized, manifest, manifests

LABEL = {"app.kubernetes.io/name": "stream-dedup"}
# Kinds of an external operator, which have no schema in Kubernetes.
FOREIGN_KINDS = {"ServiceMonitor", "PrometheusRule"}


def pod() -> dict[str, Any]:
    return manifest("Deployment")["spec"]["template"]["spec"]


def worker() -> dict[str, Any]:
    [container] = pod()["containers"]
    return container


@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_every_object_is_valid(version: str) -> None:
    """The validator raises for an object that breaks its schema."""
    examples = documents(KUBERNETES / "secret.example.yaml")
    for entry in [*manifests(), *examples]:
        if entry["kind"] not in FOREIGN_KINDS:
            kubernetes_validate.validate(entry, version, strict=True)


def test_the_limit_of_memory_has_room_for_what_the_comment_says() -> None:
    """No other setting bounds the originals, so the worker derives them from this limit."""
    assert worker()["resources"]["limits"]["memory"] == worker()["resources"]["requests"]["memory"]
    text = (KUBERNETES / "deployment.yaml").read_text("utf-8")
    stated = re.search(r"1\.5 GiB have room for some ([\d,]+) originals", text)
    settings = load_settings(
        KUBERNETES / "stream-dedup.toml", worker={"memory": worker()["resources"]["limits"]["memory"]}
    )
    assert settings.window.max_originals is None
    assert stated
    assert most_originals(settings, Scheme(settings.fingerprint)) == int(stated[1].replace(",", ""))


def test_every_file_is_a_resource_and_every_resource_a_file() -> None:
    listed = {*kustomization()["resources"], "kustomization.yaml", "secret.example.yaml"}
    assert {entry.name for entry in KUBERNETES.glob("*.yaml")} == listed


USER, GROUP = re.findall(r"^USER (\d+):(\d+)$", dockerfile(), re.M)[0]


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        # The restricted standard of pods, with the user of the image.
        ("Deployment", "spec.template.spec.securityContext.runAsNonRoot", True),
        ("Deployment", "spec.template.spec.securityContext.runAsUser", int(USER)),
        ("Deployment", "spec.template.spec.securityContext.runAsGroup", int(GROUP)),
        ("Deployment", "spec.template.spec.securityContext.seccompProfile", {"type": "RuntimeDefault"}),
        ("Deployment", "spec.template.spec.containers.0.securityContext", {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }),
        ("Deployment", "spec.template.spec.automountServiceAccountToken", False),
        ("ServiceAccount", "automountServiceAccountToken", False),
        # At least one of two members always runs.
        ("Deployment", "spec.replicas", 2),
        ("Deployment", "spec.strategy.rollingUpdate.maxUnavailable", 0),
        ("PodDisruptionBudget", "spec.maxUnavailable", 1),
        # All selectors use the label of the pods.
        ("Deployment", "spec.selector.matchLabels", LABEL),
        ("PodDisruptionBudget", "spec.selector.matchLabels", LABEL),
        ("NetworkPolicy", "spec.podSelector.matchLabels", LABEL),
        ("Service", "spec.selector", LABEL),
        # Only a stuck process is restarted, and only a member that works is ready.
        ("Deployment", "spec.template.spec.containers.0.livenessProbe.httpGet.path", "/livez"),
        ("Deployment", "spec.template.spec.containers.0.livenessProbe.httpGet.port", "health"),
        ("Deployment", "spec.template.spec.containers.0.readinessProbe.httpGet.path", "/healthz"),
        ("Deployment", "spec.template.spec.containers.0.readinessProbe.httpGet.port", "health"),
    ],
)  # fmt: skip
def test_a_field_has_its_value(kind: str, path: str, expected: object) -> None:
    value: Any = manifest(kind)
    for name in path.split("."):
        value = value[int(name) if name.isdigit() else name]
    assert value == expected


def test_nothing_but_a_tmp_in_memory_can_be_written() -> None:
    writable = [entry["name"] for entry in worker()["volumeMounts"] if not entry.get("readOnly")]
    [tmp] = [entry for entry in pod()["volumes"] if entry["name"] in writable]
    assert tmp["emptyDir"]["medium"] == "Memory"


def test_the_monitor_selects_the_service_and_sets_the_job_name_of_the_rules() -> None:
    [found] = documents(KUBERNETES / "monitoring" / "scrape" / "servicemonitor.yaml")
    monitor, service = found["spec"], manifest("Service")
    assert service["metadata"]["labels"].items() >= monitor["selector"]["matchLabels"].items()
    assert service["metadata"]["labels"][monitor["jobLabel"]] == "stream-dedup"
    [endpoint], [port] = monitor["endpoints"], service["spec"]["ports"]
    assert endpoint["port"] == port["name"]
    assert port["targetPort"] in {entry["name"] for entry in worker()["ports"]}


def test_a_stop_has_time_and_a_stuck_process_is_restarted_within_minutes() -> None:
    assert pod()["terminationGracePeriodSeconds"] >= STOP_SECONDS + 4
    probe = worker()["livenessProbe"]
    assert stall_seconds(load_settings()) <= probe["periodSeconds"] * probe["failureThreshold"] <= 300
    assert "startupProbe" not in worker(), "it would end a restore that takes longer, though it goes on"


def test_the_settings_are_valid_and_every_variable_is_a_setting() -> None:
    settings = load_settings(KUBERNETES / "stream-dedup.toml")
    ports = {port["name"]: port["containerPort"] for port in worker()["ports"]}
    assert ports == {"metrics": settings.observe.port, "health": settings.observe.health_port}
    for entry in worker().get("env", ()):
        assert entry["name"].startswith(PREFIX)
        assert is_setting(entry["name"])


def test_secrets_come_only_by_reference() -> None:
    for entry in manifests():
        assert entry["kind"] != "Secret"
    for entry in worker().get("env", ()):
        assert "value" not in entry
        assert "secretKeyRef" in entry["valueFrom"]
    [example] = documents(KUBERNETES / "secret.example.yaml")
    assert set(example["stringData"].values()) == {""}
    mounted = {entry["name"]: entry["secret"]["secretName"] for entry in pod()["volumes"] if "secret" in entry}
    assert example["metadata"]["name"] == mounted["login"], "as a file, which a rotation replaces"


@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_the_job_creates_the_topics_with_the_settings_of_the_workers(version: str) -> None:
    [job] = documents(KUBERNETES / "topics" / "job.yaml")
    kubernetes_validate.validate(job, version, strict=True)
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["args"][:2] == ["topics", "create"]
    paths = {mount["name"]: mount["mountPath"] for mount in worker()["volumeMounts"]}
    assert {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]} == paths
    assert container["securityContext"] == worker()["securityContext"]
    assert job["spec"]["template"]["spec"]["securityContext"] == pod()["securityContext"]


def test_the_objects_of_strimzi_are_the_topics_and_rights_that_the_worker_needs() -> None:
    settings = load_settings(KUBERNETES / "stream-dedup.toml")
    objects = documents(KUBERNETES / "strimzi" / "kafka.yaml")
    topics = {one["spec"]["topicName"]: one["spec"] for one in objects if one["kind"] == "KafkaTopic"}
    names = topic_names(settings)
    assert topics.keys() == set(names)
    source = Topic(topics[settings.topics.input]["partitions"], as_config(topics[settings.topics.input]))
    assert problems(settings, {name: Topic(spec["partitions"], as_config(spec)) for name, spec in topics.items()}) == []
    for name in names[1:]:
        wanted = new_config(settings, name, source)
        assert as_config(topics[name]).items() >= wanted.items(), wanted
    [user] = [one for one in objects if one["kind"] == "KafkaUser"]
    rights = {rule["resource"]["name"]: set(rule["operations"]) for rule in user["spec"]["authorization"]["acls"]}
    assert rights[settings.kafka.group_id] == {"Read"}
    assert rights[f"{settings.kafka.group_id}-"] == {"Write"}
    assert {name for name in names if "DescribeConfigs" in rights[name]} == set(names)


def as_config(spec: dict[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in spec["config"].items()}


def test_the_egress_of_feeds_is_a_wall_of_what_the_program_itself_asks() -> None:
    [policy] = documents(KUBERNETES / "feeds" / "networkpolicy.yaml")
    kubernetes_validate.validate(policy, "1.31", strict=True)
    assert policy["spec"]["podSelector"]["matchLabels"] != LABEL, "the worker's pods reach Kafka only"
    *others, web = policy["spec"]["egress"]
    assert others == manifest("NetworkPolicy")["spec"]["egress"], "DNS and Kafka"
    assert web["ports"] == [{"protocol": "TCP", "port": port} for port in (80, 443)]
    blocks = [(ip_network(to["ipBlock"]["cidr"]), [*map(ip_network, to["ipBlock"]["except"])]) for to in web["to"]]

    def passes(address: IPv4Address | IPv6Address) -> bool:
        return any(address in block and not any(address in one for one in without) for block, without in blocks)

    edges = [edge for block, without in blocks for one in (block, *without) for edge in (one[0], one[-1])]
    near = [type(edge)(int(edge) + step) for edge in edges for step in (-1, 0, 1) if 0 <= int(edge) + step < 2**32]
    near += [type(edge)(int(edge) + step) for edge in edges if edge.version == 6 for step in (-1, 0, 1)]
    spread = [IPv4Address(prefix << 16 | 1) for prefix in range(2**16)]
    reached = [one for one in (*near, *spread) if passes(one)]
    assert all(map(is_public, reached))
    assert sum(map(is_public, spread)) == len({*reached} & {*spread})
    assert passes(ip_address("2606:4700::1111"))


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl, which builds overlays")
def test_monitoring_is_a_component_whose_labels_are_set_in_one_place() -> None:
    assert not FOREIGN_KINDS & {entry["kind"] for entry in manifests()}, "the base needs no CRDs"
    built = list(yaml.safe_load_all(kustomized(DEPLOY / "monitored")))
    operator = [entry for entry in built if entry["kind"] in FOREIGN_KINDS]
    assert {entry["kind"] for entry in operator} == FOREIGN_KINDS
    assert {entry["metadata"]["labels"]["release"] for entry in operator} == {"kube-prometheus-stack"}
    [dashboard] = [entry for entry in built if entry["metadata"]["name"] == "stream-dedup-dashboard"]
    kubernetes_validate.validate(dashboard, "1.31", strict=True)
    assert json.loads(dashboard["data"]["stream-dedup.json"])["panels"]


# -- two groups in one namespace -------------------------------------------------------------------------------------

GROUPS = sorted(path.parent for path in (DEPLOY / "two-groups").glob("*/kustomization.yaml"))


def test_two_groups_share_no_topic_and_no_group_id() -> None:
    names: list[str] = []
    for folder in GROUPS:
        settings = load_settings(folder / "stream-dedup.toml")
        names += [settings.kafka.group_id, *settings.topics.model_dump().values()]
    assert len(names) == len(set(names)) == 6 * len(GROUPS) == 12


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl, which builds overlays")
def test_two_groups_in_one_namespace_select_their_own_pods_only() -> None:
    built = list(yaml.safe_load_all(kustomized(DEPLOY / "two-groups")))
    kinds = Counter(entry["kind"] for entry in built)
    assert kinds.pop("Namespace") == kinds.pop("PrometheusRule") == 1
    assert kinds.pop("ConfigMap") == len(GROUPS) + 1, "the dashboard is for all groups"
    assert set(kinds.values()) == {len(GROUPS)}, kinds
    for entry in built:
        if entry["kind"] not in FOREIGN_KINDS:
            kubernetes_validate.validate(entry, "1.31", strict=True)
        assert entry["metadata"].get("namespace", "stream-dedup") == "stream-dedup"
    for group in (folder.name for folder in GROUPS):
        own = {entry["kind"]: entry for entry in built if entry["metadata"]["name"].startswith(f"stream-dedup-{group}")}
        label = LABEL | {"app.kubernetes.io/instance": group}
        deployment = own["Deployment"]["spec"]
        assert deployment["template"]["metadata"]["labels"].items() >= label.items()
        for kind in ("Deployment", "PodDisruptionBudget", "ServiceMonitor"):
            assert own[kind]["spec"]["selector"]["matchLabels"] == label, kind
        assert own["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == label
        assert own["Service"]["spec"]["selector"] == label
        [settings] = [volume for volume in deployment["template"]["spec"]["volumes"] if volume["name"] == "settings"]
        assert settings["configMap"]["name"] == own["ConfigMap"]["metadata"]["name"]
        assert f'group_id = "stream-dedup-{group}"' in own["ConfigMap"]["data"]["stream-dedup.toml"]
