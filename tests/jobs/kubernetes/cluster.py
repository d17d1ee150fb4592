"""A cluster of one node: controllers, and a kubelet that runs each pod as real processes.

Each pod has an address of loopback's of its own, and a hosts file in which the names of pods with a
headless Service are. Needs root, for mounts.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from tests.jobs.kubernetes.api_server import KUEUE, ApiServer, Key, ObjectStore, now

ROOT = Path(__file__).parents[3]
NAMESPACE = "team"
IMAGE = "example.com/train:1"
CONTAINER = Path(__file__).with_name("container.py")
_UNSHARE = ("unshare", "--mount", "--pid", "--fork", "--uts", "--kill-child")


def missing() -> str:
    """Why there can be no pods on this machine; empty if there can."""
    if os.geteuid() != 0:
        return "pods as processes need root, for mounts of their own"
    tried = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True)
    return f"pods as processes cannot be made here: {tried.stderr}" if tried.returncode else ""


class ProcessCluster:
    """Controllers and a kubelet on an `ApiServer`.

    Args:
        folder: for the files of pods.
        environment: variables that the image has.
        capacity: of the node, by resource.

    Attributes:
        server: the API server.
        claims: folders of claims, by name.
        images: those that can be pulled.
        labels: of the node.
        quota: how many pods there may be.
    """

    def __init__(
        self, folder: Path, environment: dict[str, str] | None = None, **capacity: float
    ) -> None:
        self.store = ObjectStore()
        self.server = ApiServer(self.store)
        self.server.delete = self.delete
        self.server.log = self._log
        self.claims: dict[str, Path] = {}
        self.images = {IMAGE}
        self.labels: dict[str, str] = {}
        self.taints: list[str] = []
        self.service_accounts = {"default"}
        self.quota: int | None = None
        self.paused = False
        self._folder = folder
        self._environment = environment or {}
        self._capacity = {"cpu": 1000.0, **capacity}
        self._hosts = folder / "hosts"
        self._hosts.write_text("127.0.0.1 localhost\n")
        self._addresses: dict[str, str] = {}
        self._pods: dict[Key, _Pod] = {}
        self._indexes: dict[str, dict[int, str]] = {}
        self.closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.closed.set()
        self._thread.join()
        for pod in self._pods.values():
            pod.kill(signal.SIGKILL)
        for pod in self._pods.values():
            pod.thread.join(20)
        self.server.close()

    def kubeconfig(self, path: Path) -> Path:
        """A kubeconfig for it."""
        user = {"token": self.server.token} if self.server.token else {}
        cluster = {"server": self.server.address}
        context = {"cluster": "c", "user": "u", "namespace": NAMESPACE}
        path.write_text(json.dumps({
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": context}],
            "current-context": "x",
        }))  # fmt: skip
        return path

    def pods(self) -> dict[str, dict[str, Any]]:
        with self.store.changed:
            return {k[2]: body for k, body in self.store.objects.items() if k[0] == "pods"}

    def kill(self, process: str, reason: str = "OOMKilled") -> None:
        """Kill the process of a pod as the kernel does for want of memory, or a kubelet."""
        for pod in list(self._pods.values()):
            if pod.process == process and not pod.ended:
                pod.killed_for = reason
                pod.kill(signal.SIGKILL)

    def lose_node(self, process: str) -> None:
        """Have nothing be heard of a pod any more, until it is taken for lost."""
        for pod in list(self._pods.values()):
            if pod.process == process and not pod.ended:
                pod.unheard = True
                pod.kill(signal.SIGKILL)
                condition = {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "DeletionByTaintManager",
                    "message": "Taint manager: deleting due to NoExecute taint",
                }

                def change(body: dict[str, Any], condition: Any = condition) -> None:
                    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                    body["status"]["conditions"] = [condition]

                self.store.update(pod.key, change)

    def evict(self, process: str) -> None:
        """Delete a pod, as an eviction does: it has its time to end."""
        for name, body in self.pods().items():
            if self._pods[("pods", NAMESPACE, name)].process == process:
                condition = {"type": "DisruptionTarget", "status": "True",
                             "reason": "EvictionByEvictionAPI"}  # fmt: skip
                self._pods[("pods", NAMESPACE, name)].conditions = [condition]
                self.delete(("pods", body["metadata"]["namespace"], name), "Background")

    def add_claim(self, name: str, folder: Path) -> None:
        """Add a claim, whose files are in a folder."""
        self.claims[name] = folder
        body = {"metadata": {"name": name}}
        self.store.create(("persistentvolumeclaims", NAMESPACE, name), body)

    def add_queue(self, name: str) -> None:
        """Have Kueue, with a local queue."""
        self.server.extensions.add(KUEUE)
        self.store.create(("localqueues", NAMESPACE, name), {"metadata": {"name": name}})

    def suspend(self, suspended: bool) -> None:
        """What Kueue does with all Jobs and JobSets."""
        for key, body in list(self.store.objects.items()):
            owners = [o["kind"] for o in body["metadata"].get("ownerReferences") or []]
            if key[0] == "jobsets" or (key[0] == "jobs" and "JobSet" not in owners):
                self.store.update(key, lambda body: body["spec"].update(suspend=suspended))

    def delete(self, key: Key, propagation: str) -> None:
        body = self.store.objects.get(key)
        if body is None:
            return
        if key[0] == "pods" or propagation == "Foreground":
            self.store.update(
                key, lambda body: body["metadata"].setdefault("deletionTimestamp", now())
            )
        else:
            self.store.remove(key)

    def _log(self, name: str, container: str) -> tuple[Path, Callable[[], bool]] | str:
        pod = next((each for key, each in self._pods.items() if key[2] == name), None)
        if pod is None or pod.key not in self.store.objects:
            return f'pods "{name}" not found'
        path = pod.folder / f"{container}.log"
        if pod.unheard:
            return "the node cannot be asked: no route to host"
        if not path.exists():
            return f'container "{container}" in pod "{name}" is waiting to start: PodInitializing'
        return path, lambda: container in pod.finished

    def _run(self) -> None:
        while not self.closed.is_set():
            if not self.paused:
                with self.store.changed:
                    self._collect_garbage()
                    for key, body in list(self.store.objects.items()):
                        if key[0] == "jobsets":
                            self._control_set(key, body)
                        if key[0] == "jobs":
                            self._control(key, body)
                    for key, body in list(self.store.objects.items()):
                        if key[0] == "pods" and key not in self._pods:
                            self._schedule(key, body)
            time.sleep(0.03)

    def _collect_garbage(self) -> None:
        uids = {body["metadata"]["uid"] for body in self.store.objects.values()}
        dying = {
            body["metadata"]["uid"] for key, body in self.store.objects.items()
            if key[0] != "pods" and "deletionTimestamp" in body["metadata"]
        }  # fmt: skip
        for key, body in list(self.store.objects.items()):
            owners = {each["uid"] for each in body["metadata"].get("ownerReferences") or []}
            if owners and (owners & dying or not owners & uids):
                if "deletionTimestamp" not in body["metadata"]:
                    self.delete(key, "Foreground" if key[0] == "jobs" else "Background")
            elif key[0] == "pods" and key not in self._pods:
                if "deletionTimestamp" in body["metadata"]:
                    self.store.remove(key)
        for key, body in list(self.store.objects.items()):
            if body["metadata"]["uid"] in dying and not self.store.owned_by(
                body["metadata"]["uid"]
            ):
                self.store.remove(key)

    def _control_set(self, key: Key, body: dict[str, Any]) -> None:
        """The controller of JobSets."""
        if "deletionTimestamp" in body["metadata"]:
            return
        owner = {
            "apiVersion": body["apiVersion"], "kind": "JobSet", "name": key[2],
            "uid": body["metadata"]["uid"], "controller": True,
        }  # fmt: skip
        suspended = bool(body["spec"].get("suspend"))
        conditions = []
        for each in body["spec"]["replicatedJobs"]:
            name = f"{key[2]}-{each['name']}-0"
            own = ("jobs", key[1], name)
            if own in self.store.objects:
                status = self.store.objects[own].get("status") or {}
                conditions += [c["type"] for c in status.get("conditions") or []]
                self.store.update(own, lambda job: job["spec"].update(suspend=suspended))
            elif f"{owner['uid']}/{name}" not in self._indexes:
                self._indexes[f"{owner['uid']}/{name}"] = {}
                labels = {**each["template"]["metadata"]["labels"],
                          "jobset.sigs.k8s.io/jobset-name": key[2]}  # fmt: skip
                self.store.create(own, {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
                    "spec": {**each["template"]["spec"], "suspend": suspended},
                })  # fmt: skip
        if "Failed" in conditions:
            # Without a failurePolicy the first Job that fails ends all others.
            for own in self.store.owned_by(owner["uid"]):
                if own[0] == "jobs" and not (self.store.objects[own].get("status") or {}).get(
                    "conditions"
                ):
                    self.delete(own, "Background")

    def _control(self, key: Key, job: dict[str, Any]) -> None:
        """The controller of Jobs."""
        spec, name = job["spec"], key[2]
        if "deletionTimestamp" in job["metadata"]:
            return
        indexes = self._indexes.setdefault(job["metadata"]["uid"], {})
        own = {
            k: body for k, body in self.store.objects.items()
            if k[0] == "pods" and any(
                o["uid"] == job["metadata"]["uid"] for o in body["metadata"]["ownerReferences"]
            )
        }  # fmt: skip
        if spec.get("suspend"):
            for k in own:
                self.delete(k, "Background")
            return
        active = set()
        for body in own.values():
            index = int(body["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"])
            phase = body.get("status", {}).get("phase", "Pending")
            if phase in ("Succeeded", "Failed"):
                if "deletionTimestamp" not in body["metadata"] or index not in indexes:
                    indexes.setdefault(index, phase)
            else:
                active.add(index)
        for index in range(spec["completions"]):
            if index not in active and index not in indexes:
                made = f"{job['metadata']['uid']}/{index}"
                if made in self._indexes and not self._was_suspended(name):
                    indexes[index] = "Failed"  # It was deleted by someone.
                    continue
                if why := self._refusal(job["spec"]["template"]["spec"]):
                    text = f'Error creating: pods "{name}-{index}-{secrets.token_hex(3)}" is {why}'
                    self._warn("Job", name, "FailedCreate", text)
                    continue
                self._indexes[made] = {}
                self._make_pod(key, job, index)
                active.add(index)
        self._note_job(key, indexes, len(active))

    def _refusal(self, spec: dict[str, Any]) -> str:
        """Why a pod cannot be made."""
        account = spec.get("serviceAccountName", "default")
        if account not in self.service_accounts:
            missing = f'serviceaccount "{account}" not found'
            return f"forbidden: error looking up service account {NAMESPACE}/{account}: {missing}"
        used = len(self.pods())
        if self.quota is not None and used >= self.quota:
            said = f"requested: pods=1, used: pods={used}, limited: pods={self.quota}"
            return f"forbidden: exceeded quota: compute, {said}"
        return ""

    def _warn(self, kind: str, name: str, reason: str, message: str) -> None:
        key = ("events", NAMESPACE, f"{name}.{reason.lower()}")
        body = {
            "metadata": {"name": key[2]},
            "involvedObject": {"kind": kind, "name": name},
            "type": "Warning",
            "reason": reason,
            "message": message,
            "lastTimestamp": now(),
        }
        if self.store.create(key, body) is None:
            news = {"message": message, "lastTimestamp": now()}
            self.store.update(key, lambda body: body.update(news))

    def _was_suspended(self, name: str) -> bool:
        return name in self._resumed

    _resumed: frozenset[str] = frozenset()

    def resume(self) -> None:
        """Let all Jobs go, again."""
        self._resumed = frozenset(k[2] for k in self.store.objects if k[0] == "jobs")
        self.suspend(False)

    def _note_job(self, key: Key, indexes: dict[int, str], active: int) -> None:
        good = sum(phase == "Succeeded" for phase in indexes.values())
        bad = len(indexes) - good

        def change(body: dict[str, Any]) -> None:
            status = {"active": active, "succeeded": good, "failed": bad}
            if len(indexes) == body["spec"]["completions"] and not active:
                kind = "Failed" if bad else "Complete"
                status["conditions"] = [{"type": kind, "status": "True"}]  # type: ignore[assignment]
            body["status"] = status

        self.store.update(key, change)

    def _make_pod(self, key: Key, job: dict[str, Any], index: int) -> None:
        template, name = job["spec"]["template"], key[2]
        owner = {
            "apiVersion": "batch/v1", "kind": "Job", "name": name,
            "uid": job["metadata"]["uid"], "controller": True,
        }  # fmt: skip
        labels = {
            **template["metadata"]["labels"],
            "batch.kubernetes.io/job-name": name,
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        spec = {**template["spec"], "hostname": f"{name}-{index}"}
        made = f"{name}-{index}-{secrets.token_hex(3)}"
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": made, "labels": labels, "ownerReferences": [owner]},
            "spec": spec,
            "status": {"phase": "Pending"},
        }
        self.store.create(("pods", key[1], made), body)

    def _schedule(self, key: Key, body: dict[str, Any]) -> None:
        problem = self._unschedulable(body["spec"])
        if problem:
            condition = {
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": problem,
            }  # fmt: skip
            status = {"phase": "Pending", "conditions": [condition]}
            self.store.update(key, lambda body: body.update(status=status))
            return
        self._pods[key] = _Pod(self, key, body)

    def _unschedulable(self, spec: dict[str, Any]) -> str:
        for label, value in (spec.get("nodeSelector") or {}).items():
            if self.labels.get(label) != value:
                return "0/1 nodes are available: 1 node(s) didn't match Pod's node selector."
        for volume in spec.get("volumes") or []:
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim is not None and claim not in self.claims:
                return f'0/1 nodes are available: persistentvolumeclaim "{claim}" not found.'
        tolerated = {each["key"] for each in spec.get("tolerations") or []}
        if any(taint not in tolerated for taint in self.taints):
            return f"0/1 nodes are available: 1 node(s) had untolerated taint {self.taints}."
        used: dict[str, float] = {}
        for pod in self._pods.values():
            if not pod.ended:
                for name, amount in _requests(pod.body["spec"]).items():
                    used[name] = used.get(name, 0) + amount
        for name, amount in _requests(spec).items():
            if name != "memory" and used.get(name, 0) + amount > self._capacity.get(name, 0):
                return f"0/1 nodes are available: 1 Insufficient {name}."
        return ""

    def address(self, spec: dict[str, Any]) -> tuple[str, str]:
        """The address of a pod and its name, which is known once there is its Service."""
        host = spec["hostname"]
        name = f"{host}.{spec.get('subdomain', '')}.{NAMESPACE}.svc"
        number = len(self._addresses) + 1
        return self._addresses.setdefault(
            name, f"127.{64 + os.getpid() % 180}.{number // 250}.{number % 250 + 1}"
        ), name

    def publish(self) -> None:
        """Write the names of all pods with a headless Service."""
        with self.store.changed:
            services = {k[2] for k in self.store.objects if k[0] == "services"}
            lines = [
                f"{address} {name}\n" for name, address in self._addresses.items()
                if name.split(".")[1] in services
            ]  # fmt: skip
            with open(self._hosts, "r+") as file:
                file.truncate()
                file.write("127.0.0.1 localhost\n" + "".join(lines))

    @property
    def hosts(self) -> Path:
        return self._hosts

    @property
    def folder(self) -> Path:
        return self._folder

    @property
    def environment(self) -> dict[str, str]:
        return self._environment

    def decoded(self, kind: str, name: str) -> dict[str, bytes] | None:
        """The values of a Secret or a ConfigMap."""
        body = self.store.objects.get((kind, NAMESPACE, name))
        if body is None:
            return None
        plain = {k: v.encode() for k, v in (body.get("data") or {}).items()}
        if kind == "secrets":
            plain = {k: base64.b64decode(v) for k, v in plain.items()}
        binary = {k: base64.b64decode(v) for k, v in (body.get("binaryData") or {}).items()}
        return {**plain, **binary}


class _Waits(Exception):
    """A container cannot be made yet: its reason and message."""


class _Pod:
    """A pod on the node."""

    def __init__(self, cluster: ProcessCluster, key: Key, body: dict[str, Any]) -> None:
        labels = body["metadata"]["labels"]
        index = labels["batch.kubernetes.io/job-completion-index"]
        self.process = f"{labels.get('drumline.dev/role')}:{index}"
        self.key = key
        self.body = body
        self.folder = cluster.folder / key[2]
        self.folder.mkdir()
        self.ended = self.unheard = False
        self.killed_for = ""
        self.conditions: list[dict[str, str]] = []
        self.finished: set[str] = set()
        self._cluster = cluster
        self._index = index
        self._running: subprocess.Popen[bytes] | None = None
        self._asked = 0.0
        self._status: dict[str, Any] = {"phase": "Pending", "startTime": now()}
        self._began = time.monotonic()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def kill(self, signum: int) -> None:
        """Signal the first process of its container."""
        running = self._running
        if running is not None and running.poll() is None:
            if signum == signal.SIGKILL:
                running.kill()
                return
            children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), signum)

    def _deleted(self) -> bool:
        body = self._cluster.store.objects.get(self.key)
        return body is None or "deletionTimestamp" in body["metadata"]

    def _run(self) -> None:
        spec = self.body["spec"]
        try:
            for container in spec.get("initContainers") or []:
                if self._runs(container, "initContainerStatuses") != 0:
                    self._end("Failed")
                    return
            code = None
            for container in spec["containers"]:
                code = self._runs(container, "containerStatuses")
            self._end("Succeeded" if code == 0 and not self.killed_for else "Failed")
        except _Waits:
            self._end("Failed")  # It was deleted while it waited.
        finally:
            self.ended = True
            while (self.unheard or not self._deleted()) and not self._cluster.closed.is_set():
                time.sleep(0.05)
            self._cluster.store.remove(self.key)

    def _runs(self, container: dict[str, Any], kind: str) -> int:
        name = container["name"]
        while True:
            if self._deleted():
                raise _Waits
            try:
                spec = self._spec(container)
                break
            except _Waits as waits:
                reason, message = waits.args
                self._note(kind, container, {"waiting": {"reason": reason, "message": message}})
                time.sleep(0.1)
        if name == "main":
            address, _ = self._cluster.address(self.body["spec"])
            self._status["podIP"] = address
            self._cluster.publish()
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(spec))
        process = subprocess.Popen(
            [*_UNSHARE, sys.executable, "-S", "-E", str(CONTAINER), str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._running = process
        order = threading.Lock()
        logs = [
            threading.Thread(target=self._collect, args=(stream, name, order))
            for stream in (process.stdout, process.stderr)
        ]
        for log in logs:
            log.start()
        started = now()
        self._status["phase"] = "Running" if name == "main" else "Pending"
        self._note(kind, container, {"running": {"startedAt": started}})
        self._wait(process)
        for log in logs:
            log.join()
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        reason = "Completed" if code == 0 else "Error"
        if self.killed_for == "OOMKilled":
            code, reason = 137, "OOMKilled"
        state = {
            "exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now(),
            "message": self._message(name, code),
        }  # fmt: skip
        self._note(kind, container, {"terminated": state}, publish=False)
        self.finished.add(name)
        return code

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        spec = self.body["spec"]
        asked = 0.0
        while process.poll() is None:
            limit = spec.get("activeDeadlineSeconds")
            late = limit is not None and time.monotonic() - self._began > limit
            if not asked and (late or self._deleted()):
                asked = time.monotonic()
                if late:
                    self.killed_for = "DeadlineExceeded"
                self.kill(signal.SIGTERM)
            if asked and time.monotonic() - asked > spec["terminationGracePeriodSeconds"]:
                self.kill(signal.SIGKILL)
            time.sleep(0.03)

    def _message(self, name: str, code: int) -> str:
        """The container's termination message, or else the end of its log."""
        said = (self.folder / f"{name}.end").read_text()[:4096]
        if said or code == 0:
            return said
        lines = (self.folder / f"{name}.log").read_text().splitlines()[-80:]
        return "\n".join(line.partition(" ")[2] for line in lines)[-2048:]

    def _collect(self, stream: IO[bytes], name: str, order: threading.Lock) -> None:
        """Write the lines of one stream into the log that it shares with the other."""
        with stream, open(self.folder / f"{name}.log", "ab", buffering=0) as log:
            for line in stream:
                whole = line if line.endswith(b"\n") else line + b"\n"
                with order:
                    seconds, rest = divmod(time.time_ns(), 10**9)
                    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
                    log.write(f"{stamp}.{rest:09}Z ".encode() + whole)

    def _end(self, phase: str) -> None:
        if self.unheard:
            return
        self._status["phase"] = phase
        if phase == "Failed" and self.killed_for in ("Evicted", "DeadlineExceeded"):
            self._status["reason"] = self.killed_for
            if self.killed_for == "Evicted":
                self._status["message"] = "The node was low on resource: memory. "
        self._status["conditions"] = self.conditions
        if self.killed_for == "PreemptionByScheduler":
            self._status["conditions"] = [{
                "type": "DisruptionTarget", "status": "True", "reason": self.killed_for,
                "message": "default-scheduler: preempting to accommodate a higher priority pod",
            }]  # fmt: skip
        status = json.loads(json.dumps(self._status))
        self._cluster.store.update(self.key, lambda body: body.update(status=status))

    def _note(
        self, kind: str, container: dict[str, Any], state: dict[str, Any], publish: bool = True
    ) -> None:
        entry = {
            "name": container["name"], "image": container["image"], "imageID": "",
            "ready": "running" in state, "restartCount": 0, "state": state,
        }  # fmt: skip
        listed = [e for e in self._status.get(kind, []) if e["name"] != container["name"]]
        self._status[kind] = [*listed, entry]
        if publish and not self.unheard:
            status = json.loads(json.dumps(self._status))
            self._cluster.store.update(self.key, lambda body: body.update(status=status))

    def _spec(self, container: dict[str, Any]) -> dict[str, Any]:
        """What `container.py` is told."""
        cluster, spec = self._cluster, self.body["spec"]
        if container["image"] not in cluster.images:
            raise _Waits("ImagePullBackOff", f'Back-off pulling image "{container["image"]}"')
        end = self.folder / f"{container['name']}.end"
        end.write_text("")
        mounts = [
            {"source": str(cluster.hosts), "at": "/etc/hosts", "read_only": True},
            {"source": str(end), "at": container["terminationMessagePath"], "read_only": False},
        ]
        volumes = {volume["name"]: volume for volume in spec.get("volumes") or []}
        for each in container.get("volumeMounts") or []:
            folder, fixed = self._volume(volumes[each["name"]])
            if each.get("subPath"):
                folder = folder / each["subPath"]
                folder.mkdir(parents=True, exist_ok=True)
            read_only = fixed or bool(each.get("readOnly"))
            mounts.append({"source": str(folder), "at": each["mountPath"], "read_only": read_only})
        env = {**cluster.environment, "HOSTNAME": spec["hostname"]}
        env["JOB_COMPLETION_INDEX"] = self._index
        for each in container.get("env") or []:
            if "valueFrom" in each:
                reference = each["valueFrom"]["secretKeyRef"]
                values = cluster.decoded("secrets", reference["name"])
                if values is None or reference["key"] not in values:
                    text = f'secret "{reference["name"]}" not found'
                    raise _Waits("CreateContainerConfigError", text)
                env[each["name"]] = values[reference["key"]].decode()
            else:
                env[each["name"]] = _expanded(each.get("value", ""), env)
        argv = [_expanded(w, env) for w in [*container["command"], *container.get("args", [])]]
        root = self.folder / "root"
        root.mkdir(exist_ok=True)
        return {
            "root": str(root),
            "mounts": mounts,
            "hostname": spec["hostname"],
            "folder": container.get("workingDir", "/"),
            "argv": argv,
            "env": env,
        }

    def _volume(self, volume: dict[str, Any]) -> tuple[Path, bool]:
        """The folder of a volume, and whether it is read-only."""
        folder = self.folder / "volumes" / volume["name"]
        folder.mkdir(parents=True, exist_ok=True)
        if "projected" in volume:
            for source in volume["projected"]["sources"]:
                self._write(folder, "configmaps", source["configMap"]["name"])
            return folder, True
        if "configMap" in volume:
            self._write(folder, "configmaps", volume["configMap"]["name"])
            return folder, True
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]
            if claim["claimName"] not in self._cluster.claims:
                raise _Waits("ContainerCreating", "unbound immediate PersistentVolumeClaims")
            return self._cluster.claims[claim["claimName"]], bool(claim.get("readOnly"))
        return folder, False

    def _write(self, folder: Path, kind: str, name: str) -> None:
        values = self._cluster.decoded(kind, name)
        if values is None:
            raise _Waits("ContainerCreating", f'configmap "{name}" not found')
        for key, value in values.items():
            (folder / key).write_bytes(value)


def _requests(spec: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for container in spec["containers"]:
        for name, text in (container.get("resources", {}).get("requests") or {}).items():
            amount = float(text[:-1]) / 1000 if text.endswith("m") else float(text)
            found[name] = found.get(name, 0) + amount
    return found


def _expanded(text: str, env: dict[str, str]) -> str:
    """As Kubernetes: ``$(NAME)`` is a variable's value, ``$$`` a dollar."""
    found, at = "", 0
    while at < len(text):
        if text.startswith("$$", at):
            found, at = found + "$", at + 2
        elif text.startswith("$(", at) and (end := text.find(")", at)) > 0:
            name = text[at + 2 : end]
            found, at = found + env.get(name, f"$({name})"), end + 1
        else:
            found, at = found + text[at], at + 1
    return found


@contextlib.contextmanager
def process_cluster(folder: Path, **capacity: float) -> Iterator[ProcessCluster]:
    """A cluster whose image is this environment."""
    kept = ("PATH", "HOME", "LANG", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment |= {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    environment |= {"JAX_PLATFORMS": "cpu", "KERAS_BACKEND": "jax"}
    folder.mkdir(exist_ok=True)
    cluster = ProcessCluster(folder, environment, **capacity)
    try:
        yield cluster
    finally:
        cluster.close()
        shutil.rmtree(folder, ignore_errors=True)
