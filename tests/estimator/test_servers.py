"""Estimators on parameter servers, whose workers are threads of this process."""

import json

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.estimator.train_loop import saved_values
from tests.distribute.parameter_server.clusters import in_process
from tests.estimator.test_estimator import LABELS, ROWS, estimator, input_fn, model_fn


@pytest.fixture(scope="module")
def two():
    with in_process(workers=2, ps=2) as strategy:
        yield strategy


class Seen(dl.estimator.SessionRunHook):
    """What a hook is told after each step."""

    def __init__(self):
        self.steps = []

    def before_run(self, run_context):
        return dl.estimator.SessionRunArgs(dl.estimator.get_global_step())

    def after_run(self, run_context, run_values):
        self.steps.append(int(run_values.results))


def forever():
    return dl.data.Dataset.from_tensor_slices((ROWS, LABELS)).batch(32).repeat()


def test_steps_in_sequence_are_those_of_one_device(tmp_path):
    """Also when they are saved and go on, on servers or on one device."""
    one = estimator(tmp_path / "one").train(forever, max_steps=7)
    with in_process(workers=1, ps=2, max_staleness=0) as strategy:
        made = estimator(tmp_path / "servers", train_distribute=strategy)
        made.train(lambda: forever().take(4), max_steps=4)
        made.train(forever, max_steps=6)
    alone = estimator(tmp_path / "servers").train(forever, max_steps=7)
    names = one.get_variable_names()
    assert alone.get_variable_names() == names
    assert any(name.endswith("kernel_momentum") for name in names)
    for name in names:
        np.testing.assert_allclose(
            alone.get_variable_value(name),
            one.get_variable_value(name),
            rtol=1e-4,
            atol=1e-6,
            err_msg=name,
        )


def test_each_worker_goes_through_its_data_and_hooks_see_all_steps(two, tmp_path):
    seen = Seen()
    made = estimator(tmp_path, train_distribute=two, eval_distribute=two, save_checkpoints_steps=10)
    made.train(input_fn, hooks=[seen])
    # Both have all rows twice, in batches of 8.
    assert seen.steps == list(range(1, 33))
    names = sorted(int(path.suffixes[-2][6:]) for path in tmp_path.glob("*.safetensors"))
    assert names == [0, 10, 20, 30, 32]
    assert made.get_variable_value("global_step") == 32
    metrics = made.evaluate(input_fn)
    assert metrics["accuracy"] > 0.8 and metrics["global_step"] == 32
    assert len(list(made.predict(input_fn))) == len(ROWS)
    made.train(forever, hooks=[dl.estimator.StopAtStepHook(num_steps=3)])
    assert made.get_variable_value("global_step") == 35
    saver = dl.estimator.CheckpointSaverHook(tmp_path, save_steps=4)
    made.train(forever, steps=8, hooks=[saver])
    assert made.get_variable_value("global_step") == 43
    for path in tmp_path.glob("model.ckpt-*.safetensors"):
        number = path.name.removeprefix("model.ckpt-").removesuffix(".safetensors")
        values = saved_values(str(tmp_path / f"model.ckpt-{number}"))
        assert values["global_step"] == int(number)


def test_what_a_model_fn_may_not_do_is_named(two, tmp_path):
    calls = []

    def changing(features, labels, mode):
        calls.append(0)
        width = 2 + len(calls) // 5
        model = keras.Sequential([keras.layers.Dense(width) for _ in range(len(calls))])
        loss = keras.ops.mean(model(features))
        return dl.estimator.EstimatorSpec(mode, loss=loss, train_op=loss)

    config = {"train_distribute": two}
    with pytest.raises(ValueError, match="must make the same variables at each call"):
        dl.estimator.Estimator(changing, tmp_path / "a", config).train(forever, steps=1)

    def without_train_op(features, labels, mode):
        spec = model_fn(features, labels, mode, {"rate": 0.1})
        return dl.estimator.EstimatorSpec(mode, loss=spec.loss)

    with pytest.raises(ValueError, match="Missing train_op: .* updates the variables"):
        dl.estimator.Estimator(without_train_op, tmp_path / "b", config).train(forever, steps=1)
    with pytest.raises(ValueError, match="is empty"):
        estimator(tmp_path / "c", train_distribute=two).train(lambda: forever().take(0))


def test_a_loss_that_is_not_a_number_ends_the_training(two, tmp_path):
    def broken(features, labels, mode):
        weight = dl.Variable(np.float32(1.0), name="weight")
        loss = weight.value * keras.ops.mean(features) * float("nan")
        return dl.estimator.EstimatorSpec(mode, loss=loss, train_op=weight.assign_add(loss))

    with pytest.raises(dl.estimator.NanLossDuringTrainingError):
        dl.estimator.Estimator(broken, tmp_path, {"train_distribute": two}).train(forever)


def test_a_cluster_without_a_chief_for_a_strategy_is_refused(tmp_path, monkeypatch):
    cluster = {"worker": ["h:1", "h:2"], "ps": ["h:3"]}
    config = {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    strategy = dl.distribute.ParameterServerStrategy()
    made = estimator(tmp_path, train_distribute=strategy)
    with pytest.raises(ValueError, match="has no chief.* leave out RunConfig"):
        made.train(input_fn)
    monkeypatch.setenv("TF_CONFIG", json.dumps({**config, "task": {"type": "ps", "index": 0}}))
    mirrored = dl.distribute.MirroredStrategy(["cpu:0"])
    made = estimator(tmp_path, train_distribute=mirrored)
    spec = dl.estimator.EvalSpec(input_fn)
    with pytest.raises(ValueError, match="another strategy: leave it out"):
        dl.estimator.train_and_evaluate(made, dl.estimator.TrainSpec(input_fn), spec)


def test_servers_begin_with_the_weights_of_a_keras_model(two, tmp_path):
    model = keras.Sequential([keras.Input((ROWS.shape[1],)), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.0), loss)
    config = dl.estimator.RunConfig(train_distribute=two)
    made = dl.estimator.model_to_estimator(model, model_dir=str(tmp_path), config=config)
    made.train(forever, steps=1)
    (kernel,) = [name for name in made.get_variable_names() if name.endswith("kernel")]
    np.testing.assert_array_equal(made.get_variable_value(kernel), model.get_weights()[0])
