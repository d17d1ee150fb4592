"""Estimators in clusters of ``TF_CONFIG``: what its tasks do, and what `RunConfig` knows of it."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import drumline as dl
from tests.distribute.parameter_server.clusters import TOKEN
from tests.estimator import worker_task
from tests.ports import free_addresses


def ended(folder, cluster, tasks, strategy):
    """What the tasks print, run at once."""
    started = []
    folder.mkdir()
    try:
        for job, index in tasks:
            config = {"cluster": cluster, "task": {"type": job, "index": index}}
            environment = {
                **os.environ,
                "TF_CONFIG": json.dumps(config),
                "DRUMLINE_CLUSTER_TOKEN": TOKEN,
            }
            command = [sys.executable, "-m", "tests.estimator.worker_task", str(folder), strategy]
            pipe = subprocess.PIPE
            started.append(
                subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)
            )
        said = [process.communicate(timeout=240) for process in started]
        for process, (_, errors) in zip(started, said, strict=True):
            assert process.returncode == 0, errors[-4000:]
    finally:
        for process in started:
            process.kill()
    return [output.splitlines()[-1].split() for output, _ in said]


def test_two_workers_and_an_evaluator_give_what_two_devices_give(tmp_path):
    chief, worker, evaluator = free_addresses(3)
    cluster = {"chief": [chief], "worker": [worker], "evaluator": [evaluator]}
    tasks = [("chief", 0), ("worker", 0), ("evaluator", 0)]
    said = ended(tmp_path / "two", cluster, tasks, "MultiWorkerMirroredStrategy")
    assert [words[:4] for words in said] == [
        ["ended", "chief", "0", "True"],
        ["ended", "worker", "0", "False"],
        ["ended", "evaluator", "0", "False"],
    ]
    strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    expected = worker_task.train(tmp_path / "one", strategy)
    found = dl.estimator.Estimator(expected.model_fn, tmp_path / "two")
    for name in expected.get_variable_names():
        np.testing.assert_allclose(
            found.get_variable_value(name),
            expected.get_variable_value(name),
            rtol=1e-4,
            atol=1e-6,
            err_msg=name,
        )
    evaluations = dl.estimator.experimental.read_eval_metrics(tmp_path / "two" / "eval")
    assert worker_task.STEPS in evaluations
    losses = dl.estimator.experimental.read_eval_metrics(tmp_path / "one" / "eval")
    assert evaluations[worker_task.STEPS]["loss"] == pytest.approx(
        losses[worker_task.STEPS]["loss"], rel=1e-4
    )
    assert len(list((tmp_path / "two").glob("events.*"))) <= 1, "the chief alone writes"


@pytest.mark.parametrize(
    ("strategy", "trains"),
    [
        ("none", {"chief 0: 0", "worker 0: 1"}),
        pytest.param("ParameterServerStrategy", {"worker 0: 0"}, marks=pytest.mark.thorough),
    ],
)
def test_chief_worker_server_and_evaluator_call_train_and_evaluate(tmp_path, strategy, trains):
    """As TensorFlow's between-graph replication: all run the same script."""
    tasks = [("ps", 0), ("worker", 0), ("chief", 0), ("evaluator", 0)]
    addresses = free_addresses(len(tasks))
    cluster = {job: [address] for (job, _), address in zip(tasks, addresses, strict=True)}
    folder = tmp_path / "model"
    said = ended(folder, cluster, tasks, strategy)
    assert [words[:4] for words in said] == [
        ["ended", job, "0", str(job == "chief")] for job, _ in tasks
    ]
    assert len({words[4] for words in said}) == 1, "all see the last checkpoint"
    found = dl.estimator.Estimator(worker_task.estimator(folder).model_fn, folder)
    assert found.get_variable_value("global_step") == worker_task.STEPS
    assert found.latest_checkpoint() == str(folder / f"model.ckpt-{worker_task.STEPS}")
    evaluations = dl.estimator.experimental.read_eval_metrics(folder / "eval")
    assert worker_task.STEPS in evaluations
    # The chief looks at one batch for its form, and is no worker of a strategy of the user's.
    noted = {re.sub(" of [0-9]+", "", path.name) for path in folder.glob("* of *")}
    assert trains <= noted and noted <= {*trains, "chief 0: 0"}
    assert len({path.name.split(":")[0] for path in folder.glob("* of *")}) == 2
    assert len(list(folder.glob("events.*"))) <= 1, "the chief alone writes"


CLUSTER = {"chief": ["h:1"], "ps": ["h:2", "h:3"], "worker": ["h:4", "h:5"], "evaluator": ["h:6"]}


@pytest.mark.parametrize(
    ("task", "facts"),
    [
        (("chief", 0), (True, 2, 3, 0)),
        (("worker", 1), (False, 2, 3, 3)),
        (("ps", 1), (False, 2, 3, 5)),
        (("evaluator", 0), (False, 0, 0, None)),
    ],
)
def test_a_configuration_knows_its_task_as_tensorflows(monkeypatch, task, facts):
    """The numbers are those of tensorflow/estimator's run_config.py, and of its docstrings."""
    config = {"cluster": CLUSTER, "task": {"type": task[0], "index": task[1]}, "model_dir": "/m"}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    found = dl.estimator.RunConfig()
    assert (found.task_type, found.task_id, found.model_dir) == (*task, "/m")
    assert facts == (
        found.is_chief,
        found.num_ps_replicas,
        found.num_worker_replicas,
        found.global_id_in_cluster,
    )
    with pytest.raises(ValueError, match="must have the same value as the model_dir in TF_CONFIG"):
        dl.estimator.RunConfig("/other")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"cluster": CLUSTER}, "'task' lacks 'type'"),
        ({"cluster": CLUSTER, "task": {"type": "worker", "index": 7}}, "worker:7"),
        (
            {
                "cluster": {"worker": ["a:1"], "chief": ["a:2", "b:1"]},
                "task": {"type": "worker", "index": 0},
            },
            "has 2 chiefs",
        ),
        ({"task": {"type": "ps", "index": 0}}, "task type must be WORKER"),
        ({"task": {"index": 1}}, "task index must be 0"),
    ],
)
def test_a_configuration_that_is_none_is_refused(monkeypatch, config, message):
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(ValueError, match=message):
        dl.estimator.RunConfig()
