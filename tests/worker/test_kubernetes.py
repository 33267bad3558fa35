"""The manifests in examples/kubernetes are valid, and say what the worker and KEDA's scalers understand."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ragtrace.settings import load
from ragtrace.worker.worker_settings import load_worker
from ragtrace_brokers.address import parse_address
from tests.row_files import table

FOLDER = Path(__file__).parents[2] / "examples" / "kubernetes"
SCHEMA = json.loads((Path(__file__).parents[1] / "schemas" / "keda-scaled-object.json").read_text("utf-8"))
VERSION = "1.37"
TRIGGERS: dict[str, tuple[str, list[str]]] = table(__file__, "triggers")
"""Each broker's scaler, and the keys that KEDA's documentation describes, as far as the manifests may use them."""
BROKERS = list(TRIGGERS)


def rendered(folder: Path) -> Iterator[dict[str, Any]]:
    """The objects of a kustomization that only lists resources and a namespace."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    assert set(kustomization) <= {"apiVersion", "kind", "namespace", "resources"}
    for name in kustomization["resources"]:
        path = (folder / name).resolve()
        inner = rendered(path) if path.is_dir() else yaml.safe_load_all(path.read_text("utf-8"))
        for each in inner:
            if "namespace" in kustomization:
                each["metadata"]["namespace"] = kustomization["namespace"]
            yield each


def of_kind(broker: str, kind: str) -> list[dict[str, Any]]:
    return [each for each in rendered(FOLDER / broker) if each["kind"] == kind]


@pytest.mark.parametrize("broker", BROKERS)
def test_manifests_are_valid(broker: str) -> None:
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for each in rendered(FOLDER / broker):
        if each["apiVersion"].startswith("keda.sh"):
            jsonschema.validate(each, SCHEMA)
        else:
            validator.validate(each, VERSION, strict=True)


@pytest.mark.parametrize("broker", BROKERS)
def test_kustomize_renders_the_same(broker: str) -> None:
    """`kubectl kustomize` gives the objects that these tests look at."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    command = ["kubectl", "kustomize", str(FOLDER / broker)]
    text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    mine = {(each["kind"], each["metadata"]["name"]): each for each in rendered(FOLDER / broker)}
    assert {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)} == mine


@pytest.mark.parametrize("broker", BROKERS)
def test_the_workers_settings_are_ragtraces(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pool's environment has only names that ragtrace knows; its probes ask the port of its metrics."""
    (config,) = (each for each in of_kind(broker, "ConfigMap") if each["metadata"]["name"] == "ragtrace-broker")
    for deployment in of_kind(broker, "Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["worker"]
        assert container["envFrom"] == [{"configMapRef": {"name": "ragtrace-broker"}}]
        values = {each["name"]: each.get("value", "redis://cache:6379/0") for each in container["env"]}
        with monkeypatch.context() as environment:
            for name, value in {**config["data"], **values}.items():
                environment.setenv(name, value)
            worker, settings = load_worker(), load()
        pool = deployment["metadata"]["labels"]["app.kubernetes.io/component"]
        assert (worker.group, parse_address(worker.source).scheme) == (pool, broker)
        assert settings.prometheus_port == container["ports"][0]["containerPort"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] == "metrics"
        assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > worker.exit_seconds + 5


@pytest.mark.parametrize("broker", BROKERS)
def test_scalers_look_at_the_workers_stream(broker: str) -> None:
    """Each Deployment has a scaler that asks its own broker, stream and group, and a budget of disruptions."""
    (config,) = (each for each in of_kind(broker, "ConfigMap") if each["metadata"]["name"] == "ragtrace-broker")
    address = parse_address(config["data"]["RAGTRACE_WORKER_SOURCE"])
    deployments = {each["metadata"]["name"]: each for each in of_kind(broker, "Deployment")}
    scalers = {each["spec"]["scaleTargetRef"]["name"]: each["spec"] for each in of_kind(broker, "ScaledObject")}
    budgets = [each["spec"]["selector"] for each in of_kind(broker, "PodDisruptionBudget")]
    assert set(scalers) == set(deployments)
    assert budgets == [each["spec"]["selector"] for each in deployments.values()]
    for name, spec in scalers.items():
        group = deployments[name]["metadata"]["labels"]["app.kubernetes.io/component"]
        (trigger,) = spec["triggers"]
        kind, keys = TRIGGERS[broker]
        own = trigger["metadata"]
        assert trigger["type"] == kind
        assert own.keys() <= set(keys)
        assert own.get("stream", own.get("topic")) == address.stream
        assert own.get("consumer", own.get("consumerGroup")) in (group, f"{address.stream}.{group}")
        host = own.get("address") or own.get("bootstrapServers") or own["natsServerMonitoringEndpoint"]
        assert host.partition(":")[0] == address.servers[0].partition(":")[0]
