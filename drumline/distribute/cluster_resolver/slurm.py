"""The cluster of a Slurm job step, by the environment variables in Slurm's short forms."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping

from drumline._changes import set_variable
from drumline.distribute.cluster_resolver.cluster_resolver import ClusterResolver
from drumline.distribute.cluster_resolver.cluster_spec import ClusterSpec

_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def expand_hostlist(hostlist: str) -> list[str]:
    """``"n[1-2],m5,o[3-4,06]"`` as ``["n1", "n2", "m5", "o3", "o4", "o06"]``, in this order.

    Raises:
        ValueError: if `hostlist` is not of that form.
    """
    parts = _PART.findall(hostlist)
    if not parts or ",".join(parts) != hostlist:
        raise ValueError(f"Not a Slurm list of hosts: {hostlist!r}")
    return [host for part in parts for host in _hosts(part, hostlist)]


def expand_tasks_per_node(tasks_per_node: str) -> list[int]:
    """``"3(x2),2,1"`` as ``[3, 3, 2, 1]``.

    Raises:
        ValueError: if `tasks_per_node` is not of that form.
    """
    counts: list[int] = []
    for part in tasks_per_node.split(","):
        match = _TASKS.fullmatch(part)
        if not match:
            raise ValueError(f"Not a Slurm list of tasks per node: {tasks_per_node!r}")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _hosts(part: str, hostlist: str) -> list[str]:
    pieces = [
        [text] if text else _numbers(ranges, hostlist) for ranges, text in _PIECE.findall(part)
    ]
    return ["".join(choice) for choice in itertools.product(*pieces)]


def _numbers(ranges: str, hostlist: str) -> list[str]:
    numbers: list[str] = []
    for each in ranges.split(","):
        match = _RANGE.fullmatch(each)
        if not match:
            raise ValueError(f"Not a range of Slurm hosts: {each!r} in {hostlist!r}")
        first, last = match[1], match[2] or match[1]
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return numbers


_GPUS = "CUDA_VISIBLE_DEVICES"


class SlurmClusterResolver(ClusterResolver):
    """The tasks of the Slurm job step in which this process runs (``srun``).

    As ``tf.distribute.cluster_resolver.SlurmClusterResolver``, with two differences: nodes stay in
    Slurm's order, which is the one its ranks follow (TensorFlow sorts their names, so that node10
    comes before node2 and tasks get each other's addresses), and nodes without GPUs are fine.

    It reads ``SLURM_PROCID``, and ``SLURM_STEP_NUM_TASKS``, ``SLURM_STEP_NODELIST`` and
    ``SLURM_STEP_TASKS_PER_NODE`` where the arguments leave them open.

    Args:
        jobs: the number of tasks of each job, as ``{"worker": 3, "ps": 1}``; jobs take Slurm's
            ranks in the order of their names. By default all tasks are workers.
        port_base: the port of the first task on a node; the next ones follow.
        gpus_per_node: by default those in ``CUDA_VISIBLE_DEVICES``, or that ``nvidia-smi`` lists.
        gpus_per_task: by default an equal share of `gpus_per_node`.
        tasks_per_node: one number, or a mapping from host names to numbers, in Slurm's order.
        auto_set_gpu: give each task its own GPUs by ``CUDA_VISIBLE_DEVICES`` in `cluster_spec`;
            it must then come before JAX starts. Tasks whose share is 0 keep what they see.
        rpc_layer: the protocol before ``://`` in `master`.

    Raises:
        RuntimeError: if this is no Slurm step, or its tasks or GPUs are not as many as asked for.
        ValueError: if a Slurm variable is not of its form.
    """

    def __init__(
        self,
        jobs: Mapping[str, int] | None = None,
        port_base: int = 8888,
        gpus_per_node: int | None = None,
        gpus_per_task: int | None = None,
        tasks_per_node: int | Mapping[str, int] | None = None,
        auto_set_gpu: bool = True,
        rpc_layer: str | None = "grpc",
    ) -> None:
        self._rank = _integer("PROCID")
        self._jobs = {"worker": _integer("STEP_NUM_TASKS")} if jobs is None else dict(jobs)
        self._port_base = port_base
        self._tasks_per_node = _tasks_by_host(tasks_per_node)
        self._auto_set_gpu = auto_set_gpu
        self._rpc_layer = rpc_layer
        most = max(self._tasks_per_node.values(), default=0)
        self._gpus_per_node = _visible_gpus() if gpus_per_node is None else gpus_per_node
        self._gpus_per_task = (
            self._gpus_per_node // max(most, 1) if gpus_per_task is None else gpus_per_task
        )
        self._check(most)

    def cluster_spec(self) -> ClusterSpec:
        """The cluster; also sets `task_type`, `task_id` and, if wanted, this task's GPUs."""
        places = [
            (f"{host}:{self._port_base + position}", position)
            for host, count in self._tasks_per_node.items()
            for position in range(count)
        ]
        cluster: dict[str, list[str]] = {}
        first = 0
        for job, count in sorted(self._jobs.items()):
            cluster[job] = [address for address, _ in places[first : first + count]]
            if first <= self._rank < first + count:
                self._task_type, self._task_id = job, self._rank - first
            first += count
        if self._auto_set_gpu and self._gpus_per_task:
            start = places[self._rank][1] * self._gpus_per_task
            set_variable(
                _GPUS,
                ",".join(str(gpu) for gpu in range(start, start + self._gpus_per_task)),
                "each task of a node has its own GPUs",
                "SlurmClusterResolver(auto_set_gpu=False)",
            )
        return ClusterSpec(cluster)

    def get_task_info(self) -> tuple[str | None, int | None]:
        """This process's job and its index within it; None before `cluster_spec` was called."""
        return self._task_type, self._task_id

    def num_accelerators(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        config_proto: object = None,
    ) -> dict[str, int]:
        """The GPUs of each task."""
        return {"GPU": self._gpus_per_task}

    def _check(self, most_tasks: int) -> None:
        if most_tasks * self._gpus_per_task > self._gpus_per_node:
            raise RuntimeError(
                f"{most_tasks} tasks on a node with {self._gpus_per_task} GPUs each need more than "
                f"the {self._gpus_per_node} GPUs of the node."
            )
        there, wanted = sum(self._tasks_per_node.values()), sum(self._jobs.values())
        if there != wanted:
            raise RuntimeError(
                f"The jobs {self._jobs} have {wanted} tasks, but Slurm runs {there} "
                f"({self._tasks_per_node}). Change jobs, or srun's --ntasks."
            )
        if not 0 <= self._rank < there:
            raise RuntimeError(f"SLURM_PROCID is {self._rank}, but there are {there} tasks.")


def _variable(name: str) -> str:
    try:
        return os.environ[f"SLURM_{name}"]
    except KeyError:
        raise RuntimeError(
            f"SLURM_{name} is not set: is this process part of a Slurm step, started by srun?"
        ) from None


def _integer(name: str) -> int:
    text = _variable(name)
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"SLURM_{name} is not an integer: {text!r}") from None


def _tasks_by_host(tasks_per_node: int | Mapping[str, int] | None) -> dict[str, int]:
    if isinstance(tasks_per_node, Mapping):
        return dict(tasks_per_node)
    hosts = expand_hostlist(_variable("STEP_NODELIST"))
    if tasks_per_node is not None:
        return dict.fromkeys(hosts, int(tasks_per_node))
    counts = expand_tasks_per_node(_variable("STEP_TASKS_PER_NODE"))
    if len(counts) != len(hosts):
        raise ValueError(
            f"SLURM_STEP_NODELIST names {len(hosts)} nodes, SLURM_STEP_TASKS_PER_NODE {len(counts)}"
        )
    return dict(zip(hosts, counts, strict=True))


def _visible_gpus() -> int:
    visible = os.environ.get(_GPUS)
    if visible is not None:
        return len([gpu for gpu in visible.split(",") if gpu.strip()])
    if shutil.which("nvidia-smi") is None:
        return 0
    listed = subprocess.run(
        ["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=False
    )
    if listed.returncode:
        raise RuntimeError(f"nvidia-smi cannot list the GPUs: {listed.stdout}{listed.stderr}")
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
