"""What an API server refuses, or a cluster cannot run, and the published schemas let pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

LABEL = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
KEY = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[\w.-]{0,61}\w)?")
DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
SERVICE = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
IMAGE = re.compile(r"[a-z0-9][\w./:@+-]*")
LARGEST = 1 << 20


PLAIN = {"int": int, "str": str, "bool": bool, "map": dict, "list": list}
FIELDS = {
    # As in the definitions of these kinds (CustomResourceDefinition), which no schema above has.
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"): (
        "minMember int, minResources map, scheduleTimeoutSeconds int"
    ),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): (
        "minMember int, minResources map, minTaskMember map, priorityClassName str, queue str"
    ),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): (
        "coordinator map, failurePolicy map, managedBy str, network map, replicatedJobs list, "
        "startupPolicy map, successPolicy map, suspend bool, ttlSecondsAfterFinished int"
    ),
    "network": "enableDNSHostnames bool, publishNotReadyAddresses bool, subdomain str",
    "replicatedJobs": "name str, replicas int, template map",
    "template": "metadata map, spec map",
}


def extension_problems(
    body: dict[str, Any], job_problems: Callable[[dict[str, Any]], list[str]]
) -> list[str]:
    """What is wrong with an object of a kind that Kubernetes itself does not have.

    Args:
        body: the object.
        job_problems: those of a Job.
    """
    key = (body["apiVersion"], body["kind"])
    if key not in FIELDS:
        return [f"there is no {key[1]} in {key[0]}"]
    spec = body["spec"]
    found = [*_unknown(body, "apiVersion str, kind str, metadata map, spec map"),
             *_unknown(spec, FIELDS[key])]  # fmt: skip
    if body["kind"] == "PodGroup" and spec.get("minMember", 0) < 1:
        found.append("spec.minMember: must be at least 1")
    if body["kind"] == "JobSet":
        found += _unknown(spec.get("network") or {}, FIELDS["network"])
        names = [each["name"] for each in spec["replicatedJobs"]]
        if len(set(names)) < len(names):
            found.append("replicatedJobs: a name is given twice")
        for each in spec["replicatedJobs"]:
            found += _unknown(each, FIELDS["replicatedJobs"])
            found += _unknown(each["template"], FIELDS["template"])
            metadata = each["template"].get("metadata") or {}
            name = f"{body['metadata']['name']}-{each['name']}-0"
            job = {"apiVersion": "batch/v1", "kind": "Job", "spec": each["template"]["spec"],
                   "metadata": {**metadata, "name": name}}  # fmt: skip
            found += [*job_problems(job), *broken_rules(job)]
            # Names of pods have five characters more than their host names.
            if len(f"{name}-{job['spec']['completions'] - 1}-01234") > 63:
                found.append(f"replicatedJobs: {each['name']}: names of pods are too long")
    return found


def _unknown(value: dict[str, Any], fields: str) -> list[str]:
    known = dict(each.split(" ") for each in fields.split(", "))
    return [
        f"{name}: {field!r} is no {known.get(name, 'field')}"
        for name, field in value.items()
        if name not in known or type(field) is not PLAIN[known[name]]
    ]


def broken_rules(body: dict[str, Any]) -> list[str]:
    """A sentence for each rule that an object breaks."""
    return list(_broken(body))


def _broken(body: dict[str, Any]) -> Iterator[str]:
    metadata = body["metadata"]
    name = metadata.get("name", "")
    if not SUBDOMAIN.fullmatch(name):
        yield f"metadata.name: {name!r} is no DNS subdomain"
    yield from _labels(metadata.get("labels") or {}, "metadata.labels")
    for owner in metadata.get("ownerReferences") or []:
        if not owner.get("uid"):
            yield "metadata.ownerReferences: has no uid"
    kind = body["kind"]
    if kind == "Service" and not SERVICE.fullmatch(name):
        yield f"metadata.name: {name!r} is no name of a Service"
    if kind in ("ConfigMap", "Secret"):
        yield from _data(body)
    if kind == "Job":
        yield from _job(body)


def _labels(labels: dict[str, Any], where: str) -> Iterator[str]:
    for key, value in labels.items():
        if not KEY.fullmatch(key):
            yield f"{where}: {key!r} is no key"
        if not LABEL.fullmatch(value):
            yield f"{where}: {value!r} is no value: at most 63 letters, digits, '-', '_', '.'"


def _data(body: dict[str, Any]) -> Iterator[str]:
    size = sum(len(each.encode()) for each in (body.get("data") or {}).values())
    size += sum(len(each.encode()) for each in (body.get("stringData") or {}).values())
    size += sum(len(each) * 3 // 4 for each in (body.get("binaryData") or {}).values())
    if size > LARGEST:
        yield f"data: Too long: must have at most {LARGEST} bytes"
    for field in ("data", "stringData", "binaryData"):
        for key in body.get(field) or {}:
            if not re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", key):
                yield f"{field}: {key!r} is no key"


def _job(body: dict[str, Any]) -> Iterator[str]:
    name, spec = body["metadata"]["name"], body["spec"]
    for field in ("parallelism", "completions", "backoffLimit", "backoffLimitPerIndex",
                  "activeDeadlineSeconds", "ttlSecondsAfterFinished"):  # fmt: skip
        if spec.get(field, 0) < 0:
            yield f"spec.{field}: must not be negative"
    indexed = spec.get("completionMode") == "Indexed"
    if indexed and "completions" not in spec:
        yield "spec.completions: Required with Indexed"
    if "backoffLimitPerIndex" in spec and not indexed:
        yield "spec.backoffLimitPerIndex: only with Indexed"
    last = f"{name}-{spec.get('completions', 1) - 1}"
    if not DNS_LABEL.fullmatch(last):
        yield f"metadata.name: {last!r}, the host name of the last pod, is no DNS label"
    if len(name) > 63:
        yield "metadata.name: more than 63 characters, as a label of the pods"
    template = spec["template"]
    yield from _labels(template.get("metadata", {}).get("labels") or {}, "template.labels")
    yield from _pod(template["spec"])


def _pod(spec: dict[str, Any]) -> Iterator[str]:
    if spec.get("restartPolicy") not in ("Never", "OnFailure"):
        yield f"restartPolicy: {spec.get('restartPolicy')!r}: a Job needs Never or OnFailure"
    if "subdomain" in spec and not DNS_LABEL.fullmatch(spec["subdomain"]):
        yield f"subdomain: {spec['subdomain']!r} is no DNS label"
    if spec.get("activeDeadlineSeconds", 1) < 1:
        yield "activeDeadlineSeconds: must be at least 1"
    volumes = [volume["name"] for volume in spec.get("volumes") or []]
    for volume in spec.get("volumes") or []:
        if not DNS_LABEL.fullmatch(volume["name"]):
            yield f"volumes: {volume['name']!r} is no DNS label"
        if len(volume) != 2:
            yield f"volumes: {volume['name']!r} has no source, or several"
    if len(set(volumes)) < len(volumes):
        yield "volumes: a name is given twice"
    yield from _labels(spec.get("nodeSelector") or {}, "nodeSelector")
    for each in spec.get("tolerations") or []:
        if each.get("operator") == "Exists" and "value" in each:
            yield "tolerations: Exists has no value"
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    names = [container["name"] for container in containers]
    if len(set(names)) < len(names):
        yield "containers: a name is given twice"
    for container in containers:
        yield from _container(container, volumes)


def _container(container: dict[str, Any], volumes: list[str]) -> Iterator[str]:
    where = f"container {container['name']}"
    if not IMAGE.fullmatch(container.get("image", "")):
        yield f"{where}: image: {container.get('image')!r} is no name of an image"
    paths = []
    for each in container.get("volumeMounts") or []:
        paths.append(each["mountPath"])
        if each["name"] not in volumes:
            yield f"{where}: volumeMounts: there is no volume {each['name']!r}"
        if not each["mountPath"].startswith("/") or ":" in each["mountPath"]:
            yield f"{where}: volumeMounts: {each['mountPath']!r} is no absolute path"
        if each.get("subPath", "").startswith("/") or ".." in each.get("subPath", "").split("/"):
            yield f"{where}: volumeMounts: subPath: {each['subPath']!r}"
    if len(set(paths)) < len(paths):
        yield f"{where}: volumeMounts: a path is given twice"
    seen = set()
    for each in container.get("env") or []:
        if not VARIABLE.fullmatch(each["name"]):
            yield f"{where}: env: {each['name']!r} is no name of a variable"
        if each["name"] in seen:
            yield f"{where}: env: {each['name']} is given twice"
        seen.add(each["name"])
        if each.get("value") and each.get("valueFrom"):
            yield f"{where}: env: {each['name']} has a value and valueFrom"
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, wanted in requests.items():
        if "/" in name and limits.get(name) != wanted:
            yield f"{where}: resources: {name}: the request must equal the limit"
        if not re.fullmatch(r"\d+(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?", str(wanted)):
            yield f"{where}: resources: {name}: {wanted!r} is no quantity"
