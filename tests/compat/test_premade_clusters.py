"""Premade Estimators in clusters: they train, evaluate and are restored as on one device."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import drumline as dl
import drumline.compat.tf as tf
from tests.compat import premade_task
from tests.distribute.parameter_server.clusters import TOKEN
from tests.ports import free_addresses


def run(folder, tasks, *arguments):
    """Run a program's tasks at once."""
    folder.mkdir()
    addresses = iter(free_addresses(len(tasks)))
    cluster = {}
    for job, _ in tasks:
        cluster.setdefault(job, []).append(next(addresses))
    started = []
    try:
        for job, index in tasks:
            config = {"cluster": cluster, "task": {"type": job, "index": index}}
            environment = {
                **os.environ,
                "TF_CONFIG": json.dumps(config),
                "DRUMLINE_CLUSTER_TOKEN": TOKEN,
            }
            command = [sys.executable, "-m", "tests.compat.premade_task", str(folder), *arguments]
            pipe = subprocess.PIPE
            started.append(
                subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)
            )
        for process in started:
            _, errors = process.communicate(timeout=400)
            assert process.returncode == 0, errors[-4000:]
    finally:
        for process in started:
            process.kill()
            process.communicate()


def check_restored(kind, folder, steps):
    """The evaluator's last numbers are those of the checkpoint, which can be trained further."""
    made = premade_task.premade(kind, folder)
    found = made.evaluate(premade_task.input_of(kind))
    assert found["global_step"] == steps
    written = dl.estimator.experimental.read_eval_metrics(made.eval_dir())[steps]
    for name, value in written.items():
        assert found[name] == pytest.approx(value, rel=1e-5), name
    made.train(premade_task.input_of(kind), steps=1)
    assert made.get_variable_value("global_step") == steps + 1
    return found


def test_two_workers_and_an_evaluator_give_what_two_devices_give(tmp_path):
    tasks = [("chief", 0), ("worker", 0), ("evaluator", 0)]
    run(tmp_path / "two", tasks, "MultiWorkerMirroredStrategy", "6", *premade_task.KINDS)
    strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    for kind in premade_task.KINDS:
        expected = premade_task.train(kind, tmp_path / "one", 6, strategy)
        found = premade_task.premade(kind, tmp_path / "two")
        assert found.get_variable_names() == expected.get_variable_names()
        for name in expected.get_variable_names():
            np.testing.assert_allclose(
                found.get_variable_value(name),
                expected.get_variable_value(name),
                rtol=1e-4,
                atol=1e-6,
                err_msg=name,
            )
        check_restored(kind, tmp_path / "two", 6)


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [
        ("none", "LinearRegressor"),
        ("ParameterServerStrategy", "DNNClassifier"),
        pytest.param("none", "DNNClassifier", marks=pytest.mark.thorough),
        pytest.param("ParameterServerStrategy", "LinearRegressor", marks=pytest.mark.thorough),
    ],
)
def test_workers_with_parameter_servers_end_where_one_device_ends(strategy, kind, tmp_path):
    # Two tasks that take their steps at once come as far as half of the steps one after another.
    steps = 300 if kind == "LinearRegressor" else 60
    tasks = [("worker", 0), ("ps", 0), ("chief", 0), ("evaluator", 0)]
    run(tmp_path / "servers", tasks, strategy, str(steps), kind)
    expected = premade_task.train(kind, tmp_path / "one", steps)
    found = premade_task.premade(kind, tmp_path / "servers")
    names = expected.get_variable_names()
    assert found.get_variable_names() == names
    for name in names:
        shape = found.get_variable_value(name).shape
        assert shape == expected.get_variable_value(name).shape, name
    if kind == "LinearRegressor":
        # Weights of colors and the bias can share a constant in many ways; the numbers' cannot.
        (name,) = [name for name in names if name.endswith("numbers/weights")]
        np.testing.assert_allclose(
            found.get_variable_value(name), expected.get_variable_value(name), atol=0.05
        )
    metrics = check_restored(kind, tmp_path / "servers", steps)
    one = expected.evaluate(premade_task.input_of(kind))
    assert metrics["loss"] == pytest.approx(one["loss"], abs=0.1)
    if kind == "DNNClassifier":
        assert metrics["accuracy"] > 0.85
