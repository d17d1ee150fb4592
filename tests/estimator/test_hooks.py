"""Hooks of Estimators: what they save, log, count, watch and end."""

import logging

import keras
import numpy as np
import pytest

import drumline as dl

est = dl.estimator
ROWS = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)


def data():
    return dl.data.Dataset.from_tensor_slices((ROWS, ROWS.sum(axis=1))).batch(8).repeat()


def linear(features, labels, mode, params):
    """The mean square of a linear model, and its gradient by hand."""
    weight = dl.Variable(np.zeros(4, np.float32), name="weight", aggregation="mean")
    error = features @ weight.value - labels
    loss = keras.ops.mean(error**2)
    train_op = None
    if mode == est.ModeKeys.TRAIN:
        slope = 2 * keras.ops.mean(error[:, None] * features, axis=0)
        train_op = weight.assign_sub(params.get("rate", 0.1) * slope)
    hooks = [make(loss, weight) for make in params.get("hooks", ())]
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)


def made(folder, *hooks, config=None, **params):
    return est.Estimator(linear, folder, config, {"hooks": hooks, **params})


def losses_of(steps):
    weight, found = np.zeros(4, np.float32), []
    for step in range(steps):
        rows = ROWS[step % 8 * 8 :][:8]
        error = rows @ weight - rows.sum(axis=1)
        found.append(np.mean(error**2))
        weight -= 0.1 * 2 * (error[:, None] * rows).mean(axis=0)
    return found


def test_what_a_model_fn_computes_is_logged(tmp_path, caplog):
    told = []

    def hook(loss, weight):
        values = {"loss": loss, "weight": weight}
        return est.LoggingTensorHook(values, every_n_iter=2, formatter=lambda it: told.append(it))

    made(tmp_path, hook).train(data, steps=5)
    assert [each["loss"] for each in told] == pytest.approx(losses_of(5)[::2], rel=1e-4)
    assert told[0]["weight"].shape == (4,) and np.any(told[0]["weight"])
    with caplog.at_level(logging.INFO, "drumline"):
        weights = est.LoggingTensorHook({"rate": dl.Variable(0.5)}, at_end=True)
        made(tmp_path).train(data, steps=1, hooks=[weights])
    assert "rate = 0.5" in caplog.text
    outside = est.LoggingTensorHook({"loss": np.float32(1)}, every_n_iter=1)
    with pytest.raises(ValueError, match="return it there, as training_hooks"):
        made(tmp_path).train(data, steps=1, hooks=[outside])
    with pytest.raises(NotImplementedError, match="'softmax' names a tensor"):
        est.LoggingTensorHook({"p": "softmax"}, every_n_iter=1)


def test_replicas_log_what_the_first_one_computes(tmp_path):
    told = []

    def hook(loss, weight):
        return est.LoggingTensorHook([loss], every_n_iter=1, formatter=told.append)

    strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    made(tmp_path, hook, config=est.RunConfig(train_distribute=strategy)).train(data, steps=1)
    assert list(told[0].values()) == pytest.approx(losses_of(1), rel=1e-4)


def test_a_loss_that_is_not_a_number_can_end_training_quietly(tmp_path):
    def hook(loss, weight):
        return est.NanTensorHook(loss * np.nan, fail_on_nan_loss=False)

    trained = made(tmp_path, hook).train(data, steps=3)
    assert trained.get_variable_value("global_step") == 1
    failing = made(tmp_path / "b", lambda loss, weight: est.NanTensorHook(loss * np.nan))
    with pytest.raises(est.NanLossDuringTrainingError):
        failing.train(data, steps=3)


def test_a_saver_takes_the_place_of_the_configuration(tmp_path):
    seen = []

    class Listener(est.CheckpointSaverListener):
        def before_save(self, session, global_step_value):
            seen.append(global_step_value)

        def after_save(self, session, global_step_value):
            return global_step_value == 6

    saver = est.CheckpointSaverHook(tmp_path, save_steps=3, listeners=[Listener()])
    made(tmp_path).train(data, hooks=[saver])
    assert seen == [0, 3, 6]
    assert sorted(path.name.split(".")[1] for path in tmp_path.glob("model.ckpt-*"))[::3]
    assert dl.train.latest_checkpoint(tmp_path).endswith("model.ckpt-6")
    with pytest.raises(ValueError, match="pass them to it, as listeners"):
        made(tmp_path).train(data, steps=1, hooks=[saver], saving_listeners=[Listener()])


def test_steps_are_counted_and_final_values_read(tmp_path):
    final = est.FinalOpsHook(lambda: {"step": est.get_global_step()})
    made(tmp_path, config=est.RunConfig(log_step_count_steps=2)).train(data, steps=5, hooks=[final])
    assert final.final_ops_values == {"step": 5}
    found = est.experimental.read_eval_metrics(tmp_path)
    assert [step for step, each in found.items() if each.get("global_step/sec", 0) > 0] == [3, 5]


def test_timers_trigger_as_tensorflows():
    timer = est.SecondOrStepTimer(every_steps=3)
    assert timer.should_trigger_for_step(5) and timer.last_triggered_step() is None
    assert timer.update_last_triggered_step(5) == (None, None)
    assert [timer.should_trigger_for_step(step) for step in (5, 7, 8)] == [False, False, True]
    assert timer.update_last_triggered_step(8)[1] == 3
    with pytest.raises(ValueError, match="Either every_secs or every_steps"):
        est.SecondOrStepTimer()


@pytest.mark.parametrize(
    ("make", "argument", "last"),
    [("stop_if_lower_hook", 0.5, 6), ("stop_if_no_decrease_hook", 4, 6)],
)
def test_training_ends_by_what_evaluations_say(tmp_path, make, argument, last):
    trained = made(tmp_path, rate=0.1 if make == "stop_if_lower_hook" else 0.0)
    (tmp_path / "eval").mkdir()
    writer = dl.summary.create_file_writer(tmp_path / "eval")
    values = [2.0, 1.0, 0.4] if make == "stop_if_lower_hook" else [1.0, 1.5, 1.0]
    seen = []

    class Evaluate(est.SessionRunHook):
        def before_run(self, run_context):
            return est.SessionRunArgs(est.get_global_step())

        def after_run(self, run_context, run_values):
            step = int(run_values.results)
            if step % 2 == 0:
                with writer.as_default():
                    dl.summary.scalar("loss", values[step // 2 - 1], step=step)
                writer.flush()
            seen.append(step)

    options = {"run_every_secs": None, "run_every_steps": 1}
    hook = getattr(est.experimental, make)(trained, "loss", argument, **options)
    trained.train(data, steps=6 + 1, hooks=[Evaluate(), hook])
    assert seen[-1] == last
    with pytest.raises(ValueError, match="Only one of `run_every_secs` and `run_every_steps`"):
        est.experimental.make_early_stopping_hook(trained, bool, run_every_steps=1)


def test_an_evaluator_in_memory_sees_the_variables_as_they_are(tmp_path):
    def whole():
        return dl.data.Dataset.from_tensors((ROWS, ROWS.sum(axis=1)))

    trained = made(tmp_path)
    hook = est.experimental.InMemoryEvaluatorHook(trained, whole, name="memory", every_n_iter=2)
    trained.train(data, steps=5, hooks=[hook])
    found = est.experimental.read_eval_metrics(tmp_path / "eval_memory")
    assert list(found) == [0, 2, 4, 5]
    assert found[0]["loss"] == pytest.approx(np.mean(ROWS.sum(axis=1) ** 2), rel=1e-5)
    assert found[5]["loss"] == pytest.approx(float(trained.evaluate(whole)["loss"]), rel=1e-6)


def test_a_profile_is_made_of_a_step(tmp_path):
    hook = est.ProfilerHook(save_steps=2, output_dir=tmp_path / "profiles")
    made(tmp_path).train(data, steps=4, hooks=[hook])
    assert list((tmp_path / "profiles").rglob("*.xplane.pb"))
