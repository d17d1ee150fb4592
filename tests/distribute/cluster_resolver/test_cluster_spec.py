"""ClusterSpec, beside what tf.train.ClusterSpec of TensorFlow 2.21 says."""

from __future__ import annotations

from typing import Any

import pytest

import drumline as dl
from drumline.distribute.cluster_resolver import ClusterSpec

CLUSTER = {"chief": ["h0:1"], "worker": ["h1:1", "h2:2"], "ps": ["p:3"]}


def test_its_public_names() -> None:
    assert dl.train.ClusterSpec is dl.distribute.cluster_resolver.ClusterSpec is ClusterSpec


def test_what_tensorflow_says_of_a_cluster() -> None:
    spec = ClusterSpec(CLUSTER)
    assert spec.jobs == ["chief", "worker", "ps"]
    assert spec.num_tasks("worker") == 2
    assert spec.task_indices("worker") == [0, 1]
    assert spec.task_address("worker", 1) == "h2:2"
    assert spec.job_tasks("worker") == ["h1:1", "h2:2"]
    assert spec.as_dict() == CLUSTER
    assert str(spec) == (
        "ClusterSpec({'chief': ['h0:1'], 'ps': ['p:3'], 'worker': ['h1:1', 'h2:2']})"
    )


def test_truth_and_equality() -> None:
    assert ClusterSpec(CLUSTER) and not ClusterSpec({})
    assert ClusterSpec(CLUSTER) == ClusterSpec(ClusterSpec(CLUSTER))
    assert ClusterSpec(CLUSTER) != ClusterSpec({})
    assert ClusterSpec(CLUSTER) != 1
    with pytest.raises(TypeError, match="unhashable"):
        hash(ClusterSpec(CLUSTER))


def test_a_job_of_which_some_tasks_are_known() -> None:
    spec = ClusterSpec({"worker": {1: "a:1"}})
    assert spec.as_dict() == {"worker": {1: "a:1"}}
    assert spec.job_tasks("worker") == [None, "a:1"]
    assert spec.task_indices("worker") == [1]
    assert spec.num_tasks("worker") == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"worker": {0: "a:1", 1: "b:1"}}, {"worker": ["a:1", "b:1"]}),
        ({"worker": {"1": "b:1", "0": "a:1"}}, {"worker": ["a:1", "b:1"]}),
        ({"worker": ("a:1",)}, {"worker": ["a:1"]}),
        ({"worker": []}, {"worker": {}}),
        ({"b": ["x"], "a": ["y"]}, {"b": ["x"], "a": ["y"]}),
        ({"worker": [b"a:1"]}, {"worker": ["a:1"]}),
    ],
)
def test_forms_that_tensorflow_takes(given: Any, told: Any) -> None:
    assert ClusterSpec(given).as_dict() == told


def test_what_is_given_may_change_afterwards() -> None:
    tasks = ["a:1"]
    spec = ClusterSpec({"worker": tasks})
    tasks.append("b:1")
    spec.as_dict()["worker"].append("c:1")  # type: ignore[union-attr]
    assert spec.job_tasks("worker") == ["a:1"]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"worker": "a:1"}, TypeError, "tasks of job 'worker'"),
        ({"worker": [1]}, TypeError, "task address must be a string, got 1"),
        ({"worker": {"x": "a"}}, ValueError, "task index of job 'worker' is not an integer: 'x'"),
        (5, TypeError, "ClusterSpec takes a dictionary"),
        ({1: ["a"]}, TypeError, "job name must be a string, got 1"),
    ],
)
def test_forms_that_tensorflow_refuses(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ClusterSpec(given)


def test_unknown_jobs_and_tasks() -> None:
    spec = ClusterSpec(CLUSTER)
    for ask in (spec.num_tasks, spec.task_indices, spec.job_tasks):
        with pytest.raises(ValueError, match="No such job in cluster: 'x'"):
            ask("x")
    with pytest.raises(ValueError, match="No such job in cluster: 'x'"):
        spec.task_address("x", 0)
    with pytest.raises(ValueError, match="No task with index 9 in job 'worker'"):
        spec.task_address("worker", 9)
