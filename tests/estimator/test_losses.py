"""The loss of each step: looked at late, but in order, and before anything is saved."""

import logging

import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl
from drumline.estimator.hooks import losses
from drumline.estimator.hooks.losses import GROUP, Losses

est = dl.estimator
ROWS = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)


def data(rows=ROWS):
    return lambda: dl.data.Dataset.from_tensor_slices(rows).batch(4).repeat()


def model_fn(features, mode):
    weight = dl.Variable(np.ones(4, np.float32), name="weight")
    loss = keras.ops.mean((features @ weight.value) ** 2)
    slope = 2 * keras.ops.mean((features @ weight.value)[:, None] * features, axis=0)
    return est.EstimatorSpec(mode, loss=loss, train_op=weight.assign_sub(0.01 * slope))


def expected(steps):
    weight, found = np.ones(4, np.float32), []
    for step in range(steps):
        rows = ROWS[step % 50 * 4 :][:4]
        found.append(np.mean((rows @ weight) ** 2))
        weight -= 0.01 * 2 * ((rows @ weight)[:, None] * rows).mean(axis=0)
    return found


def looked_at(monkeypatch, patience, count, **options):
    """What was looked at after each of so many losses; at the end all of them."""
    monkeypatch.setattr(losses, "_PATIENCE_S", patience)
    seen, after = [], []
    reader = Losses(lambda loss, step: seen.append((loss, step)), **options)
    for step in range(count):
        reader.add(jnp.float32(step * 2), step)
        after.append(len(seen))
    reader.look()
    assert seen == [(step * 2.0, step) for step in range(count)]
    assert reader.last == 2.0 * (count - 1)
    return after


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_losses_of_short_steps_are_read_in_groups(platform, monkeypatch):
    """Where they are in memory one by one, and of an accelerator as one array."""
    monkeypatch.setattr(losses, "_platform", lambda loss: platform)
    made, together = [], losses._together
    monkeypatch.setattr(
        losses, "_together", lambda *each: made.append(len(each)) or together(*each)
    )
    after = looked_at(monkeypatch, 1e9, 2 * GROUP + 3, same_everywhere=False)
    assert after == [0] * (2 * GROUP - 1) + [GROUP] * 4
    assert made == ([GROUP] * 2 if platform == "gpu" else [])


@pytest.mark.parametrize(("patience", "same_everywhere"), [(-1, False), (1e9, True)])
def test_others_when_the_next_step_has_begun(monkeypatch, patience, same_everywhere):
    """Those of long steps, and of steps that several processes make."""
    assert looked_at(monkeypatch, patience, 5, same_everywhere=same_everywhere) == [0, 1, 2, 3, 4]


def test_each_loss_is_logged_and_written_with_its_step(tmp_path, caplog):
    config = est.RunConfig(log_step_count_steps=1, save_summary_steps=1)
    with caplog.at_level(logging.INFO, "drumline"):
        est.Estimator(model_fn, tmp_path, config).train(data(), steps=70)
    wanted = expected(70)
    logged = [record for record in caplog.messages if record.startswith("loss = ")]
    assert [int(each.split("step = ")[1]) for each in logged] == list(range(1, 71))
    found = [float(each.split()[2].rstrip(",")) for each in logged]
    np.testing.assert_allclose(found, wanted, rtol=1e-3)
    written = est.experimental.read_eval_metrics(tmp_path)
    np.testing.assert_allclose([written[n]["loss"] for n in range(1, 71)], wanted, rtol=1e-4)
    assert f"Loss for final step: {wanted[-1]:.3f}"[:-1] in caplog.text


class Count(est.SessionRunHook):
    steps = 0

    def after_run(self, run_context, run_values):
        self.steps += 1


@pytest.mark.parametrize("hooked", [False, True])
def test_no_checkpoint_holds_what_came_of_a_nan(tmp_path, hooked):
    """Neither the configuration's checkpoints nor a hook's that saves after each step."""
    rows = ROWS.copy()
    rows[21 * 4] = np.nan  # of step 22
    config = est.RunConfig(save_checkpoints_steps=4, keep_checkpoint_max=0)
    hooks = [est.CheckpointSaverHook(tmp_path, save_steps=1)] if hooked else []
    with pytest.raises(est.NanLossDuringTrainingError):
        est.Estimator(model_fn, tmp_path, config).train(data(rows), steps=150, hooks=hooks)
    latest = dl.train.latest_checkpoint(tmp_path)
    assert latest.endswith("-21" if hooked else "-20")
    assert np.isfinite(est.Estimator(model_fn, tmp_path).get_variable_value("weight")).all()


def test_a_nan_ends_training_soon_where_nothing_is_saved(tmp_path):
    rows, count = ROWS.copy(), Count()
    rows[9 * 4] = np.nan  # of step 10
    with pytest.raises(est.NanLossDuringTrainingError):
        est.Estimator(model_fn, tmp_path).train(data(rows), steps=500, hooks=[count])
    assert 10 <= count.steps + 1 <= 10 + 2 * GROUP - 1


def test_a_hook_of_the_models_reads_what_it_logs_alone(tmp_path, monkeypatch):
    read, told, every = [], [], []

    class Each(est.LoggingTensorHook):
        """One that wants to know of each step."""

        def after_run(self, run_context, run_values):
            every.append(float(run_values.results["loss"]))
            super().after_run(run_context, run_values)

    def watched(features, mode):
        spec = model_fn(features, mode)
        hook = est.LoggingTensorHook(
            {"loss": spec.loss}, every_n_iter=10, at_end=True, formatter=told.append
        )
        each = Each({"loss": spec.loss}, every_n_iter=10, formatter=lambda found: "")
        return spec._replace(training_hooks=[hook, each])

    real = est.LoggingTensorHook.after_run

    def after_run(self, run_context, run_values):
        read.append(callable(run_values.results))
        real(self, run_context, run_values)

    monkeypatch.setattr(est.LoggingTensorHook, "after_run", after_run)
    est.Estimator(watched, tmp_path).train(data(), steps=25)
    wanted = expected(25)
    np.testing.assert_allclose(
        [each["loss"] for each in told], [wanted[i] for i in (0, 10, 20, 24)], 1e-4
    )
    np.testing.assert_allclose(every, wanted, 1e-4)
    assert read == [True, False] * 25
