"""Steps of the modes, against loops written by hand in numpy, float64, and Keras on one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl
from drumline.cnn.updates import parameter_servers
from drumline.cnn.updates.parameter_servers import ServerStep
from drumline.cnn.updates.steps import LossOptions, TrainingStep
from tests.distribute.parameter_server.clusters import TOKEN, in_process

ROWS, WIDTH, CLASSES, RATE, DECAY, STEPS = 8, 5, 7, 0.5, 0.01, 6
DEVICES = ["cpu:0", "cpu:1"]


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    random = np.random.RandomState(1)
    return [
        (
            random.standard_normal((ROWS, WIDTH)).astype(np.float32),
            random.randint(0, CLASSES, ROWS).astype(np.int32),
        )
        for _ in range(STEPS)
    ]


def first_weights() -> list[np.ndarray]:
    random = np.random.RandomState(2)
    return [random.standard_normal((WIDTH, CLASSES)), random.standard_normal(CLASSES)]


def linear_model() -> keras.Model:
    model = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(CLASSES)])
    model.set_weights([w.astype(np.float32) for w in first_weights()])
    return model


def slopes(
    weights: list[np.ndarray], rows: np.ndarray, labels: np.ndarray, decay: float = DECAY
) -> tuple[float, list[np.ndarray]]:
    """The mean cross entropy with L2, and its gradients, in float64."""
    rows = rows.astype(np.float64)
    logits = rows @ weights[0] + weights[1]
    logits -= logits.max(axis=1, keepdims=True)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    loss = -np.log(shares[np.arange(len(rows)), labels]).mean()
    loss += decay / 2 * sum((w**2).sum() for w in weights)
    shares[np.arange(len(rows)), labels] -= 1
    errors = shares / len(rows)
    return loss, [rows.T @ errors + decay * weights[0], errors.sum(axis=0) + decay * weights[1]]


Run = tuple[list[float], list[np.ndarray]]


def by_hand(delay: int) -> Run:
    """SGD whose gradients are `delay` steps old, as the formula is read."""
    weights, losses, queue = first_weights(), [], []
    for rows, labels in batches():
        loss, gradients = slopes(weights, rows, labels)
        losses.append(loss)
        queue.append(gradients)
        if len(queue) > delay:
            due = queue.pop(0)
            weights = [w - RATE * g for w, g in zip(weights, due, strict=True)]
    return losses, weights


def dataset() -> dl.data.Dataset:
    return dl.data.Dataset.from_generator(
        lambda: iter(batches()),
        output_signature=(
            dl.TensorSpec((ROWS, WIDTH), "float32"),
            dl.TensorSpec((ROWS,), "int32"),
        ),
    )


def run_steps(strategy: dl.distribute.Strategy, options: LossOptions, **how: Any) -> Run:
    with strategy.scope():
        model = linear_model()
        optimizer = keras.optimizers.SGD(RATE)
    step = TrainingStep(strategy, model, optimizer, options, **how)
    losses = [
        step.report(step(batch))["total_loss"]
        for batch in strategy.experimental_distribute_dataset(dataset())
    ]
    step.collect()
    return losses, model.get_weights()


STRATEGIES: dict[str, Callable[[], dl.distribute.Strategy]] = {
    "one device": lambda: dl.distribute.OneDeviceStrategy("cpu:0"),
    "replicated": lambda: dl.distribute.MirroredStrategy(DEVICES),
    "parameter_server": lambda: dl.distribute.experimental.CentralStorageStrategy(
        ["cpu:1", "cpu:2"], "cpu:0"
    ),
}
OPTIONS = LossOptions(batch_size=ROWS, weight_decay=DECAY)


def assert_close(found: Run, expected: Run) -> None:
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-5)
    for ours, theirs in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_numbers_are_those_of_the_formula(name: str) -> None:
    assert_close(run_steps(STRATEGIES[name](), OPTIONS), by_hand(delay=0))


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_delayed_step_is_delayed_sgd(name: str) -> None:
    assert_close(run_steps(STRATEGIES[name](), OPTIONS, delayed=True), by_hand(delay=1))


@pytest.mark.parametrize("scale", [1.0, 128.0])
def test_the_loss_scale_changes_no_number(scale: float) -> None:
    options = LossOptions(batch_size=ROWS, weight_decay=DECAY, loss_scale=scale)
    assert_close(run_steps(STRATEGIES["replicated"](), options), by_hand(delay=0))


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_loss_scale_is_reported_as_it_was_in_the_step(name: str) -> None:
    options = LossOptions(batch_size=ROWS, loss_scale=16.0)
    assert scales(STRATEGIES[name](), keras.optimizers.SGD, options) == [{"loss_scale": 16}] * STEPS

    def growing(rate: float) -> keras.optimizers.Optimizer:
        inner = keras.optimizers.SGD(rate)
        return keras.optimizers.LossScaleOptimizer(inner, initial_scale=4, dynamic_growth_steps=2)

    found = scales(STRATEGIES[name](), growing, LossOptions(batch_size=ROWS))
    assert [each["loss_scale"] for each in found] == [4, 4, 8, 8, 16, 16]
    assert [each["loss_scale_normal_steps"] for each in found] == [0, 1] * 3
    assert scales(STRATEGIES[name](), keras.optimizers.SGD, OPTIONS) == [{}] * STEPS


def scales(
    strategy: dl.distribute.Strategy,
    made: Callable[[float], keras.optimizers.Optimizer],
    options: LossOptions,
) -> list[dict[str, float]]:
    """What steps report of a loss scale."""
    with strategy.scope():
        model, optimizer = linear_model(), made(RATE)
    step = TrainingStep(strategy, model, optimizer, options)
    reports = [
        step.report(step(batch)) for batch in strategy.experimental_distribute_dataset(dataset())
    ]
    return [
        {name: value for name, value in report.items() if name.startswith("loss_scale")}
        for report in reports
    ]


def test_independent_replicas_train_alone() -> None:
    """Each as SGD on its own half of each batch; what is read and collected is the first's."""
    losses = []
    for part in (slice(0, ROWS // 2), slice(ROWS // 2, ROWS)):
        weights, found = first_weights(), []
        for rows, labels in batches():
            loss, gradients = slopes(weights, rows[part], labels[part])
            found.append(loss)
            weights = [w - RATE * g for w, g in zip(weights, gradients, strict=True)]
        losses.append((found, weights))
    mean = np.mean([losses[0][0], losses[1][0]], axis=0).tolist()
    found = run_steps(STRATEGIES["replicated"](), OPTIONS, independent=True)
    assert_close(found, (mean, losses[0][1]))


Made = Callable[[dl.distribute.Strategy, keras.Model], TrainingStep]

SEEN: dict[str, tuple[str, Made]] = {
    "one device": (
        "one device",
        lambda s, m: TrainingStep(s, m, keras.optimizers.SGD(RATE), OPTIONS),
    ),
    "replicated": (
        "replicated",
        lambda s, m: TrainingStep(s, m, keras.optimizers.SGD(RATE), OPTIONS),
    ),
    "delayed": (
        "replicated",
        lambda s, m: TrainingStep(s, m, keras.optimizers.SGD(RATE), OPTIONS, delayed=True),
    ),
    "scaled": (
        "replicated",
        lambda s, m: TrainingStep(s, m, scaling(), LossOptions(ROWS, DECAY, travels_in="float32")),
    ),
}


def scaling() -> keras.optimizers.Optimizer:
    """Its scale doubles after each step."""
    return keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(RATE), initial_scale=8.0, dynamic_growth_steps=1
    )


@pytest.mark.parametrize("name", SEEN)
def test_gradients_are_those_of_the_formula(name: str) -> None:
    """Of each step's batch at the weights before it, whichever step they were asked for."""
    strategy = STRATEGIES[SEEN[name][0]]()
    with strategy.scope():
        model = linear_model()
        step = SEEN[name][1](strategy, model)
    data = strategy.experimental_distribute_dataset(dataset())
    for batch, (rows, labels) in zip(data, batches(), strict=True):
        before = [np.asarray(w, np.float64) for w in model.get_weights()]
        results = step(batch, with_gradients=True)
        scales = {"loss_scale", "loss_scale_normal_steps"} if name == "scaled" else set()
        assert set(step.report(results)) == {"total_loss", "base_loss"} | scales
        for found, expected in zip(
            step.gradients(results), slopes(before, rows, labels)[1], strict=True
        ):
            np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=2e-6)


@pytest.mark.parametrize("optimizer", [lambda: keras.optimizers.SGD(RATE), scaling])
def test_gradients_of_independent_replicas_are_the_firsts(
    optimizer: Callable[[], keras.optimizers.Optimizer],
) -> None:
    strategy = STRATEGIES["replicated"]()
    with strategy.scope():
        model = linear_model()
        step = TrainingStep(strategy, model, optimizer(), OPTIONS, independent=True)
    data = strategy.experimental_distribute_dataset(dataset())
    weights = first_weights()
    for batch, (rows, labels) in zip(data, batches(), strict=True):
        _, expected = slopes(weights, rows[: ROWS // 2], labels[: ROWS // 2])
        found = step.gradients(step(batch, with_gradients=True))
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-4, atol=2e-6)
        weights = [w - RATE * g for w, g in zip(weights, expected, strict=True)]


def test_accuracies_are_those_of_the_whole_batch() -> None:
    strategy = STRATEGIES["replicated"]()
    with strategy.scope():
        model = linear_model()
    options = LossOptions(batch_size=ROWS, accuracies=True)
    step = TrainingStep(strategy, model, None, options)
    rows, labels = batches()[0]
    data = dl.data.Dataset.from_tensors((rows, labels))
    (batch,) = strategy.experimental_distribute_dataset(data)
    report = step.report(step(batch))
    logits = rows @ first_weights()[0] + first_weights()[1]
    order = np.argsort(-logits, axis=1)
    expected = [(order[:, :k] == labels[:, None]).any(axis=1).mean() for k in (1, 5)]
    assert [report["top_1_accuracy"], report["top_5_accuracy"]] == pytest.approx(expected)


@pytest.mark.parametrize("devices", [1, 2])
def test_a_worker_of_parameter_servers_computes_on_its_devices(
    devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The numbers are those of the formula, whichever number of devices there is."""
    monkeypatch.setenv("DRUMLINE_CLUSTER_TOKEN", TOKEN)
    with in_process(synchronous=True) as strategy:
        with strategy.scope():
            model = linear_model()
            optimizer = keras.optimizers.SGD(RATE)
        step = ServerStep(strategy, model, optimizer, OPTIONS, lambda _: dataset(), devices=devices)
        losses = [step.report(step(None))["total_loss"] for _ in range(STEPS - 1)]
        weights = [np.asarray(w, np.float64) for w in model.get_weights()]
        results = step(None, with_gradients=True)
        losses.append(step.report(results)["total_loss"])
        expected = slopes(weights, *batches()[-1])[1]
        for found, gradient in zip(step.gradients(results), expected, strict=True):
            np.testing.assert_allclose(found, gradient, rtol=1e-4, atol=2e-6)
        assert_close((losses, model.get_weights()), by_hand(delay=0))


def test_workers_in_step_count_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has half of the rows: updates and what is reported are those of the whole batch."""
    monkeypatch.setenv("DRUMLINE_CLUSTER_TOKEN", TOKEN)
    half = ROWS // 2

    def halves(context: Any) -> dl.data.Dataset:
        part = slice(half * context.input_pipeline_id, half * (context.input_pipeline_id + 1))
        rows, labels = zip(*((rows[part], labels[part]) for rows, labels in batches()), strict=True)
        return dl.data.Dataset.from_tensor_slices((np.stack(rows), np.stack(labels)))

    with in_process(workers=2, synchronous=True) as strategy:
        with strategy.scope():
            model = linear_model()
            optimizer = keras.optimizers.SGD(RATE)
        step = ServerStep(strategy, model, optimizer, LossOptions(half, DECAY), halves)
        losses = [step.report(step(None))["total_loss"] for _ in range(STEPS - 1)]
        weights = [np.asarray(w, np.float64) for w in model.get_weights()]
        results = step(None, with_gradients=True)
        losses.append(step.report(results)["total_loss"])
        expected = slopes(weights, *batches()[-1])[1]
        for found, gradient in zip(step.gradients(results), expected, strict=True):
            np.testing.assert_allclose(found, gradient, rtol=1e-4, atol=2e-6)
        assert_close((losses, model.get_weights()), by_hand(delay=0))


def test_the_devices_of_a_worker_normalize_by_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Moving averages are the mean of theirs; a layer that draws goes along."""
    monkeypatch.setenv("DRUMLINE_CLUSTER_TOKEN", TOKEN)
    rows = np.stack([np.full(WIDTH, 1.0), np.full(WIDTH, 3.0)]).astype(np.float32)
    data = dl.data.Dataset.from_tensors((np.repeat(rows, ROWS // 2, 0), np.zeros(ROWS, np.int32)))
    with in_process(synchronous=True) as strategy:
        with strategy.scope():
            layers = [
                keras.layers.BatchNormalization(momentum=0.0),
                keras.layers.Dropout(0.5, seed=3),
                keras.layers.Dense(CLASSES),
            ]
            model = keras.Sequential([keras.Input((WIDTH,)), *layers])
        step = ServerStep(
            strategy, model, keras.optimizers.SGD(0.0), OPTIONS, lambda _: data.repeat(), devices=2
        )
        losses = [step.report(step(None))["base_loss"] for _ in range(2)]
        np.testing.assert_allclose(layers[0].moving_mean.numpy(), np.full(WIDTH, 2.0), rtol=1e-6)
        # Within each device all rows are alike, and over both they are not.
        np.testing.assert_allclose(layers[0].moving_variance.numpy(), np.zeros(WIDTH), atol=1e-6)
    assert np.isfinite(losses).all()


def test_the_devices_of_a_worker_draw_other_numbers() -> None:
    state = keras.random.SeedGenerator(3).state.value
    seeds = [parameter_servers._seed_of(jnp.int32(device), state) for device in range(3)]
    assert seeds[0].tolist() == state.tolist()
    draws = {float(jax.random.uniform(jax.random.wrap_key_data(seed))) for seed in seeds}
    assert len(draws) == 3


def normalizing_model() -> keras.Model:
    inner = keras.Sequential([keras.Input((WIDTH,)), keras.layers.BatchNormalization(name="other")])
    return keras.Sequential([keras.Input((WIDTH,)), inner, keras.layers.Dense(CLASSES)])


@pytest.mark.parametrize("independent", [False, True])
def test_weight_decay_leaves_batch_normalization_out(independent: bool) -> None:
    """As the original's ``filter_l2_loss_vars``, whose names have "batchnorm" in them."""
    strategy = STRATEGIES["replicated"]()
    with strategy.scope():
        model = normalizing_model()
        optimizer = keras.optimizers.SGD(RATE)
    kernel, bias = (np.asarray(v.value, np.float64) for v in model.layers[1].trainable_variables)
    step = TrainingStep(strategy, model, optimizer, OPTIONS, independent=independent)
    data = dl.data.Dataset.from_tensors(batches()[0])
    (batch,) = strategy.experimental_distribute_dataset(data)
    report = step.report(step(batch))
    decay = DECAY / 2 * ((kernel**2).sum() + (bias**2).sum())
    assert report["total_loss"] - report["base_loss"] == pytest.approx(decay, rel=1e-4)


def test_independent_replicas_use_the_loss_scale_that_they_have_come_to() -> None:
    """Which doubles after each step here: gradients are divided by what the loss was times."""
    strategy = STRATEGIES["replicated"]()

    def run(optimizer: keras.optimizers.Optimizer) -> Run:
        with strategy.scope():
            model = linear_model()
        step = TrainingStep(strategy, model, optimizer, OPTIONS, independent=True)
        data = dl.data.Dataset.from_tensor_slices(
            tuple(np.stack(part) for part in zip(*batches(), strict=True))
        )
        losses = [
            step.report(step(batch))["total_loss"]
            for batch in strategy.experimental_distribute_dataset(data)
        ]
        step.collect()
        return losses, model.get_weights()

    with strategy.scope():
        plain = keras.optimizers.SGD(RATE)
        scaled = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(RATE), initial_scale=8.0, dynamic_growth_steps=1
        )
    expected, found = run(plain), run(scaled)
    assert float(scaled.dynamic_scale.value) > 8
    assert_close(found, expected)
