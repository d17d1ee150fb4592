"""Slurm steps, as their environment variables describe them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from drumline.distribute.cluster_resolver import SlurmClusterResolver
from drumline.distribute.cluster_resolver.slurm import (
    expand_hostlist,
    expand_tasks_per_node,
)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    def step(rank: int, nodes: str, tasks: str, total: int, gpus: str = "") -> None:
        monkeypatch.setenv("SLURM_PROCID", str(rank))
        monkeypatch.setenv("SLURM_STEP_NODELIST", nodes)
        monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", tasks)
        monkeypatch.setenv("SLURM_STEP_NUM_TASKS", str(total))
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)

    return step


def test_workers_on_nodes(slurm: Any) -> None:
    slurm(3, "t02n[13,41,43,44]", "1(x4)", 4)
    resolver = SlurmClusterResolver()
    assert resolver.get_task_info() == (None, None)
    assert resolver.cluster_spec().as_dict() == {
        "worker": ["t02n13:8888", "t02n41:8888", "t02n43:8888", "t02n44:8888"]
    }
    assert resolver.get_task_info() == ("worker", 3)
    assert resolver.master() == "grpc://t02n44:8888"
    assert resolver.master("worker", 1, "test") == "test://t02n41:8888"
    assert resolver.num_accelerators() == {"GPU": 0}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_jobs_share_nodes_and_gpus(slurm: Any) -> None:
    slurm(4, "t02n[13,41,43,44]", "2(x2),1(x2)", 6, gpus="0,1")
    resolver = SlurmClusterResolver(jobs={"worker": 5, "ps": 1}, port_base=2222, rpc_layer=None)
    assert resolver.cluster_spec().as_dict() == {
        "ps": ["t02n13:2222"],
        "worker": ["t02n13:2223", "t02n41:2222", "t02n41:2223", "t02n43:2222", "t02n44:2222"],
    }
    assert (resolver.task_type, resolver.task_id) == ("worker", 3)
    assert resolver.master() == "t02n43:2222"
    assert resolver.num_accelerators() == {"GPU": 1}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"


@pytest.mark.parametrize(("rank", "gpus"), [(0, "0,1"), (1, "2,3"), (2, "0,1"), (3, "2,3")])
def test_each_task_of_a_node_gets_its_own_gpus(rank: int, gpus: str, slurm: Any) -> None:
    slurm(rank, "n[1-2]", "2(x2)", 4, gpus="0,1,2,3")
    SlurmClusterResolver().cluster_spec()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == gpus


def test_gpus_can_be_left_alone(slurm: Any) -> None:
    slurm(1, "n1", "2", 2, gpus="7")
    SlurmClusterResolver(gpus_per_node=4, auto_set_gpu=False).cluster_spec()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "7"
    SlurmClusterResolver().cluster_spec()  # one GPU visible to each of two tasks: Slurm's choice
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "7"
    SlurmClusterResolver(gpus_per_node=4).cluster_spec()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_nodes_stay_in_slurm_s_order(slurm: Any) -> None:
    slurm(1, "node[2,10]", "1(x2)", 2)
    resolver = SlurmClusterResolver(tasks_per_node=1)
    assert resolver.cluster_spec().as_dict() == {"worker": ["node2:8888", "node10:8888"]}
    assert resolver.master() == "grpc://node10:8888"


def test_told_tasks_per_node(slurm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(0, "unused", "unused", 3)
    monkeypatch.delenv("SLURM_STEP_NODELIST")
    resolver = SlurmClusterResolver(tasks_per_node={"b": 1, "a": 2})
    assert resolver.cluster_spec().as_dict() == {"worker": ["b:8888", "a:8888", "a:8889"]}


def test_steps_that_do_not_fit(slurm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(0, "n[1-2]", "2(x2)", 4, gpus="0")
    with pytest.raises(RuntimeError, match="2 tasks on a node with 1 GPUs each need more than"):
        SlurmClusterResolver(gpus_per_task=1)
    with pytest.raises(RuntimeError, match="have 3 tasks, but Slurm runs 4"):
        SlurmClusterResolver(jobs={"worker": 3})
    slurm(4, "n[1-2]", "2(x2)", 4)
    with pytest.raises(RuntimeError, match="SLURM_PROCID is 4, but there are 4 tasks"):
        SlurmClusterResolver()
    slurm(0, "n[1-2]", "2", 2)
    with pytest.raises(ValueError, match="names 2 nodes, SLURM_STEP_TASKS_PER_NODE 1"):
        SlurmClusterResolver()
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "two")
    with pytest.raises(ValueError, match="SLURM_STEP_NUM_TASKS is not an integer: 'two'"):
        SlurmClusterResolver()
    monkeypatch.delenv("SLURM_PROCID")
    with pytest.raises(RuntimeError, match="SLURM_PROCID is not set: is this process part of"):
        SlurmClusterResolver()


@pytest.mark.parametrize(
    ("hostlist", "hosts"),
    [
        ("n1", ["n1"]),
        ("n[1-2],m5,o[3-4,6,7-9]", ["n1", "n2", "m5", "o3", "o4", "o6", "o7", "o8", "o9"]),
        ("t[01-03]", ["t01", "t02", "t03"]),
        ("a[09-11]", ["a09", "a10", "a11"]),
        ("r[1-2]n[3,5]x", ["r1n3x", "r1n5x", "r2n3x", "r2n5x"]),
    ],
)
def test_hostlists(hostlist: str, hosts: list[str]) -> None:
    assert expand_hostlist(hostlist) == hosts


@pytest.mark.parametrize("hostlist", ["", "n[1-", "n[a-b]", "n[1-2-3]", "n1,,n2", "n[]", "n1]"])
def test_hostlists_that_are_none(hostlist: str) -> None:
    with pytest.raises(ValueError, match="Slurm"):
        expand_hostlist(hostlist)


def test_tasks_per_node() -> None:
    assert expand_tasks_per_node("3(x2),2,1") == [3, 3, 2, 1]
    for wrong in ("", "x", "2(x)", "2(3)", "1,,2"):
        with pytest.raises(ValueError, match="Not a Slurm list of tasks per node"):
            expand_tasks_per_node(wrong)
