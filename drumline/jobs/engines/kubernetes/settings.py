"""The settings of a Kubernetes cluster, as `drumline engine add` takes them."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from drumline.jobs.engines.engine import SettingError

_LABEL = re.compile(r"[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?", re.A)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_IMAGE = re.compile(r"[a-z0-9][\w./:@+-]*", re.A)
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclasses.dataclass(frozen=True)
class Gang:
    """How a scheduler learns which pods start together.

    Attributes:
        version: of its PodGroups, with the group.
        mark: the label or the annotation of a pod that names its PodGroup.
        annotation: whether it is an annotation.
        scheduler: the name of the scheduler, if it is not the cluster's own.
    """

    version: str
    mark: str
    annotation: bool
    scheduler: str


GANGS = {
    # https://github.com/kubernetes-sigs/scheduler-plugins/tree/master/pkg/coscheduling
    "coscheduling": Gang(
        "scheduling.x-k8s.io/v1alpha1", "scheduling.x-k8s.io/pod-group", False, ""
    ),
    # https://volcano.sh/en/docs/podgroup/
    "volcano": Gang(
        "scheduling.volcano.sh/v1beta1", "scheduling.k8s.io/group-name", True, "volcano"
    ),
}


@dataclasses.dataclass(frozen=True)
class KubernetesSettings:
    """A cluster, as it was added.

    Attributes:
        image: of processes whose size names none; drumline is installed in it.
        kubeconfig: the file; empty in a pod of the cluster.
        context: of the kubeconfig; the current one if it is empty.
        namespace: the context's if it is empty.
        python: the Python of the image, which has drumline.
        queue: Kueue's local queue, or the empty string; Volcano's queue with that gang.
        jobset: ``never`` for Jobs of their own also where Kueue could admit the roles of a job
            together, as one JobSet; otherwise empty.
        gang: one of `GANGS` if all pods of a job are to start together, by a PodGroup; otherwise
            empty.
        scheduler: the name of another scheduler than the cluster's own, or the gang's.
        priority_class: of the pods.
        work_claim: a claim that all pods can write, in which the working copies of jobs are kept.
        gpu: the resource that is one GPU.
        node_selector: labels that nodes must have.
        tolerations: taints that are tolerated, as ``gpu=true:NoSchedule``.
        pull_secrets: names of Secrets for the registry.
        service_account: of the pods; empty for the namespace's, without its token.
    """

    image: str
    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""
    python: str = "python"
    queue: str = ""
    jobset: str = ""
    gang: str = ""
    scheduler: str = ""
    priority_class: str = ""
    work_claim: str = ""
    gpu: str = "nvidia.com/gpu"
    node_selector: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tolerations: tuple[str, ...] = ()
    pull_secrets: tuple[str, ...] = ()
    service_account: str = ""

    @property
    def local_queue(self) -> str:
        """Kueue's queue, or the empty string."""
        return "" if self.gang == "volcano" else self.queue

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> KubernetesSettings:
        """The settings that `dataclasses.asdict` has written."""
        lists = {name: tuple(fields.get(name, ())) for name in ("tolerations", "pull_secrets")}
        return cls(**{**fields, **lists})


def read_settings(
    given: Sequence[str], environ: Mapping[str, str] = os.environ
) -> KubernetesSettings:
    """The settings in words as ``image=drumline/train:0.1``.

    `node-selector`, `tolerations` and `pull-secrets` may be given several times.

    Args:
        given: the words.
        environ: its ``KUBECONFIG`` names the file if no word does.

    Raises:
        SettingError: naming the word that cannot be.
    """
    known = [field.name.replace("_", "-") for field in dataclasses.fields(KubernetesSettings)]
    fields: dict[str, Any] = {"node_selector": {}, "tolerations": (), "pull_secrets": ()}
    for word in given:
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            raise SettingError(f"{word!r} is not understood; known are {', '.join(known)} (as "
                               "--set namespace=team)")  # fmt: skip
        name = key.replace("-", "_")
        if name == "node_selector":
            label, equals, wanted = value.partition("=")
            if not equals:
                raise SettingError(f"{word!r} must be node-selector=LABEL=VALUE")
            fields[name][label] = wanted
        elif name in ("tolerations", "pull_secrets"):
            fields[name] += (value,)
        elif name in fields:
            raise SettingError(f"{key} is given twice")
        else:
            fields[name] = value
    if not fields.get("image"):
        raise SettingError(
            "the image is missing, in which jobs run: --set image=registry.example.com/train:1"
        )
    if "kubeconfig" not in fields:
        fields["kubeconfig"] = _usual_kubeconfig(environ)
    elif fields["kubeconfig"]:
        fields["kubeconfig"] = str(Path(fields["kubeconfig"]).expanduser().absolute())
    settings = KubernetesSettings(**fields)
    _check(settings)
    return settings


def _usual_kubeconfig(environ: Mapping[str, str]) -> str:
    listed = [each for each in environ.get("KUBECONFIG", "").split(":") if each]
    if len(listed) > 1:
        raise SettingError("KUBECONFIG names several files; choose one by --set kubeconfig=FILE")
    path = Path(listed[0] if listed else Path.home() / ".kube" / "config").absolute()
    return str(path) if listed or path.exists() else ""


def _check(settings: KubernetesSettings) -> None:
    def need(right: object, text: str) -> None:
        if not right:
            raise SettingError(text)

    need(_IMAGE.fullmatch(settings.image), f"{settings.image!r} is no name of an image")
    for name in ("queue", "priority_class", "work_claim", "service_account"):
        value = getattr(settings, name)
        shown = name.replace("_", "-")
        need(not value or _NAME.fullmatch(value), f"{shown}: {value!r} is no name in Kubernetes")
    for value in settings.pull_secrets:
        need(_NAME.fullmatch(value), f"pull-secrets: {value!r} is no name in Kubernetes")
    namespace = settings.namespace
    need(not namespace or is_namespace(namespace),
         f"namespace: {namespace!r} is no name of a namespace")  # fmt: skip
    known = ", ".join(GANGS)
    need(settings.gang in ("", *GANGS), f"gang: {settings.gang!r}; known are {known}")
    need(settings.jobset in ("", "never"), f"jobset: {settings.jobset!r}; known is never")
    need(not settings.scheduler or _NAME.fullmatch(settings.scheduler),
         f"scheduler: {settings.scheduler!r} is no name in Kubernetes")  # fmt: skip
    need(is_label_name(settings.gpu), f"gpu: {settings.gpu!r} is no name of a resource")
    for label, value in settings.node_selector.items():
        need(is_label_name(label) and (not value or _LABEL.fullmatch(value)),
             f"node-selector: {label}={value} is no label of a node")  # fmt: skip
    for text in settings.tolerations:
        toleration(text)


def is_namespace(text: str) -> bool:
    """Whether it can be the name of a namespace."""
    return bool(_NAMESPACE.fullmatch(text))


def is_label_name(text: str) -> bool:
    """Whether it is the key of a label: ``name`` or ``example.com/name``."""
    prefix, slash, name = text.rpartition("/")
    return bool(_LABEL.fullmatch(name) and (not slash or _NAME.fullmatch(prefix)))


def toleration(text: str) -> dict[str, str]:
    """The toleration of ``key=value:Effect``, ``key:Effect``, ``key=value`` or ``key``.

    Raises:
        SettingError: it has another form.
    """
    taint, _, effect = text.partition(":")
    key, equals, value = taint.partition("=")
    right = is_label_name(key) and (not effect or effect in _EFFECTS)
    if not right or (value and not _LABEL.fullmatch(value)):
        raise SettingError(
            f"tolerations: {text!r} must be KEY=VALUE:EFFECT or KEY:EFFECT, with an effect of "
            f"{', '.join(_EFFECTS)}"
        )
    found = {"key": key, "operator": "Equal", "value": value} if equals else {
        "key": key, "operator": "Exists"
    }  # fmt: skip
    return found | ({"effect": effect} if effect else {})
