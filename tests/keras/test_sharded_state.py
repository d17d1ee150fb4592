"""`MirroredStrategy(shard=...)`: slots and weights cut, and the numbers of mirrored ones."""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
import pytest

import drumline as dl
from drumline.distribute import MirroredStrategy, RingAllReduce, Strategy
from drumline.distribute.global_arrays import ReplicaArrays
from drumline.keras.state import TRAIN_STATE
from drumline.keras.step.train_step import TrainStep
from drumline.training.cut_values import is_cut, reading_rows, row_length
from tests.distribute.collectives.traffic import bytes_between

DEVICES = ["cpu:0", "cpu:1", "cpu:2"]
thorough = pytest.mark.thorough
Optimizer = Callable[[], keras.optimizers.Optimizer]
OPTIMIZERS: dict[str, tuple[Optimizer, float]] = {
    "adam": (lambda: keras.optimizers.Adam(0.01), 0),
    "lion": (lambda: keras.optimizers.Lion(1e-3), 0),
    "momentum": (lambda: keras.optimizers.SGD(0.05, momentum=0.9), 0),
    "rmsprop": (lambda: keras.optimizers.RMSprop(1e-3, momentum=0.5), 0),
    "adagrad": (lambda: keras.optimizers.Adagrad(0.01), 0),
    "accumulated": (lambda: keras.optimizers.Adam(0.01, gradient_accumulation_steps=2), 0),
    "averaged": (
        lambda: keras.optimizers.Adam(0.01, use_ema=True, ema_overwrite_frequency=3),
        0,
    ),
    # A difference of two products: which of them XLA rounds depends on what it compiles beside it.
    "nesterov": (lambda: keras.optimizers.SGD(1e-3, momentum=0.9, nesterov=True), 1e-6),
    "clipped": (lambda: keras.optimizers.AdamW(1e-3, global_clipnorm=0.5), 1e-6),
    "scaled": (lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-3)), 1e-6),
    "lamb": (lambda: keras.optimizers.Lamb(1e-3), 1e-6),
    "adafactor": (lambda: keras.optimizers.Adafactor(1e-3), 1e-6),
    "muon": (lambda: keras.optimizers.Muon(1e-3), 1e-6),
}


def _model(strategy: Strategy, optimizer: Optimizer, **options: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        layers = [
            keras.Input((6,)),
            keras.layers.Dense(17, "relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(3),
        ]
        model = keras.Sequential(layers)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer(), loss, metrics=["accuracy"], **options)
    return model


def _rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, 6)).astype(np.float32), rng.integers(0, 3, count)


def _trained(model: keras.Model, rows: int) -> list[Any]:
    x, y = _rows(rows)
    history = model.fit(x, y, batch_size=12, epochs=6, shuffle=False, verbose=0).history
    results = [*history.values(), model.evaluate(x, y, verbose=0), model.predict(x, verbose=0)]
    return [*results, model.train_on_batch(x[:12], y[:12])]


def _require_close(
    found: keras.Model, expected: keras.Model, tolerance: float, *, seeds: bool = True
) -> None:
    ours = [*found.variables, *found.optimizer.variables]
    theirs = [*expected.variables, *expected.optimizer.variables]
    for our, their in zip(ours, theirs, strict=True):
        if our.name == "seed_generator_state" and not seeds:
            continue
        np.testing.assert_allclose(our, their, atol=tolerance, rtol=tolerance, err_msg=our.path)


SHARDS = ("optimizer", "parameters")
QUICK = {("adam", "optimizer"), ("momentum", "parameters"), ("clipped", "parameters")}


@pytest.mark.parametrize(
    ("name", "shard"),
    [
        pytest.param(name, shard, marks=[] if (name, shard) in QUICK else thorough)
        for name in OPTIMIZERS
        for shard in SHARDS
    ],
)
def test_training_equals_that_of_mirrored_variables(name: str, shard: str) -> None:
    optimizer, tolerance = OPTIMIZERS[name]
    sharded = MirroredStrategy(DEVICES, shard=shard)
    expected = _model(MirroredStrategy(DEVICES), optimizer)
    found = _model(sharded, optimizer)
    # Evaluated is another program where weights are cut, with other roundings.
    other = max(tolerance, 1e-6) if shard == "parameters" else tolerance
    for ours, theirs in zip(_trained(found, 48), _trained(expected, 48), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=other, rtol=other)
    _require_close(found, expected, tolerance)
    _require_cut(found, sharded)


def _require_cut(model: keras.Model, strategy: Strategy) -> None:
    trainables = [tuple(variable.shape) for variable in model.trainable_variables]
    slots = [v for v in model.optimizer.variables if tuple(v.shape) in trainables]
    cut = [variable for variable in slots if is_cut(variable)]
    assert len(cut) >= len(trainables) - 1  # Adafactor factors the moments of the larger matrices
    weights = [variable for variable in model.variables if is_cut(variable)]
    assert weights == (model.trainable_variables if strategy.shard == "parameters" else [])
    for variable in [*cut, *weights]:
        length = row_length(math.prod(variable.shape), len(DEVICES))
        with reading_rows():
            rows = variable.value
        assert rows.sharding == strategy.batch_sharding
        assert [shard.data.shape for shard in rows.addressable_shards] == [(1, length)] * 3
        assert variable.value.shape == variable.shape


@pytest.mark.parametrize(
    ("options", "shard"),
    [
        ({}, "parameters"),
        ({"steps_per_execution": 2}, "optimizer"),
        pytest.param({}, "optimizer", marks=thorough),
        pytest.param({"steps_per_execution": 2}, "parameters", marks=thorough),
        pytest.param({"run_eagerly": True}, "optimizer", marks=thorough),
        pytest.param({"run_eagerly": True}, "parameters", marks=thorough),
    ],
    ids=str,
)
def test_batches_that_do_not_split_and_other_ways_to_run(options: Any, shard: str) -> None:
    optimizer, _ = OPTIMIZERS["nesterov"]
    sharded = MirroredStrategy(DEVICES, shard=shard)
    expected = _model(MirroredStrategy(DEVICES), optimizer, **options)
    found = _model(sharded, optimizer, **options)
    for ours, theirs in zip(_trained(found, 31), _trained(expected, 31), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6, rtol=1e-6)
    _require_close(found, expected, 1e-6)
    _require_cut(found, sharded)


def test_checkpoints_and_saved_models_go_from_one_to_the_other(tmp_path: Path) -> None:
    optimizer, _ = OPTIMIZERS["adam"]
    x, y = _rows(24)
    kinds = {
        "cut": MirroredStrategy(DEVICES, shard="optimizer"),
        "cut in two": MirroredStrategy(DEVICES[:2], shard="optimizer"),
        "cut, weights too": MirroredStrategy(DEVICES, shard="parameters"),
        "cut, weights in two": MirroredStrategy(DEVICES[:2], shard="parameters"),
        "copies": MirroredStrategy(DEVICES),
        "one": MirroredStrategy(DEVICES[:1], shard="optimizer"),
    }
    first = _model(kinds["cut"], optimizer)
    first.fit(x, y, batch_size=12, verbose=0)
    path = dl.train.Checkpoint(model=first, optimizer=first.optimizer).save(str(tmp_path / "a"))
    first.save(tmp_path / "model.keras")
    for kind, strategy in kinds.items():
        model = _model(strategy, optimizer)
        model.optimizer.build(model.trainable_variables)
        dl.train.Checkpoint(model=model, optimizer=model.optimizer).restore(path)
        _require_close(model, first, 0)
        with strategy.scope():
            loaded = keras.models.load_model(tmp_path / "model.keras")
        _require_close(loaded, first, 0, seeds=False)  # Keras saves none
        cut = [is_cut(variable) for variable in loaded.optimizer.variables]
        assert any(cut) == kind.startswith("cut")
        assert all(map(is_cut, loaded.trainable_variables)) == ("weights" in kind)
        if "two" in kind:
            loaded.fit(x, y, batch_size=12, shuffle=False, verbose=0)


class _Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.params["epochs"] == 3 and batch == 2 and self.model.optimizer.iterations == 7:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("parameters", "optimizer"),
        pytest.param("optimizer", None, marks=thorough),
        pytest.param(None, "parameters", marks=thorough),
    ],
)
def test_an_interrupted_fit_goes_on_with_other_shards(
    first: str | None, second: str | None, tmp_path: Path
) -> None:
    x, y = _rows(48)
    backup = keras.callbacks.BackupAndRestore(str(tmp_path / "backup"), save_freq=2)

    def fitted(shard: str | None, *callbacks: keras.callbacks.Callback) -> keras.Model:
        model = _model(MirroredStrategy(DEVICES, shard=shard), OPTIMIZERS["adam"][0])
        model.fit(x, y, batch_size=12, epochs=3, verbose=0, callbacks=list(callbacks))
        return model

    with pytest.raises(KeyboardInterrupt):
        fitted(first, backup, _Stop())
    _require_close(fitted(second, backup), fitted(None), 1e-6)


def test_saving_brings_one_variable_together_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined: list[weakref.ref[jax.Array]] = []
    saving: list[bool] = []
    join = ReplicaArrays._joined

    def counting_join(self: ReplicaArrays, *args: Any) -> jax.Array:
        # The one before is let go of when this one takes its place.
        assert not saving or sum(each() is not None for each in joined) <= 1
        whole = join(self, *args)
        joined.append(weakref.ref(whole))
        return whole

    monkeypatch.setattr(ReplicaArrays, "_joined", counting_join)
    model = _model(MirroredStrategy(DEVICES, shard="parameters"), OPTIMIZERS["adam"][0])
    model.fit(*_rows(24), batch_size=12, verbose=0)
    saving.append(True)
    for save in (
        lambda: model.save(tmp_path / "model.keras"),
        lambda: model.save_weights(tmp_path / "model.weights.h5"),
        lambda: dl.train.Checkpoint(model=model).save(str(tmp_path / "a")),
    ):
        joined.clear()
        save()
        assert len(joined) >= len(model.trainable_variables)


@pytest.mark.parametrize("name", ["adam", "clipped"])
def test_updates_by_element_need_no_whole_slots(name: str) -> None:
    strategy = MirroredStrategy(DEVICES, shard="optimizer")
    model = _model(strategy, OPTIMIZERS[name][0])
    batch = _rows(12)
    with strategy.scope():
        model._symbolic_build(data_batch=batch)
        groups = dict.fromkeys(TRAIN_STATE, True)
        step = TrainStep(model, strategy)._per_replica
        program = step._alone.lower(model._get_jax_state(**groups), batch).compile().as_text()
    found = re.findall(r" (all-gather|reduce-scatter)\(", program)
    assert found.count("reduce-scatter") == 1  # the gradients, which are small, in one array
    gathered = found.count("all-gather")  # the new weights, likewise
    assert gathered == 1 if name == "adam" else gathered > 1


def test_weights_are_gathered_again_for_the_gradient() -> None:
    strategy = MirroredStrategy(DEVICES, shard="parameters")
    keras.utils.set_random_seed(1)
    with strategy.scope():
        layers = [keras.layers.Dense(600, "tanh", use_bias=False) for _ in range(4)]
        model = keras.Sequential([keras.Input((600,)), *layers])
        model.compile(keras.optimizers.Adam(0.01), "mse")
    rows = np.zeros((12, 600), np.float32)
    with strategy.scope():
        model._symbolic_build(data_batch=(rows, rows))
        groups = dict.fromkeys(TRAIN_STATE, True)
        step = TrainStep(model, strategy)._per_replica
        lowered = step._alone.lower(model._get_jax_state(**groups), (rows, rows))
    # As it is before XLA.
    program = lowered.as_text()
    assert program.count("stablehlo.reduce_scatter") == 4
    assert program.count("stablehlo.all_gather") == 4 + 3  # the first layer's gradient needs none


@pytest.mark.parametrize("shard", SHARDS)
def test_a_step_sends_each_row_to_all_others(shard: str) -> None:
    strategy = MirroredStrategy(DEVICES, shard=shard)
    with strategy.scope():
        layers = [keras.layers.Dense(600, "tanh"), keras.layers.Dense(5)]
        model = keras.Sequential([keras.Input((600,)), *layers])
        model.compile(keras.optimizers.Adam(0.01), "mse")
        batch = np.zeros((12, 600), np.float32), np.zeros((12, 5), np.float32)
        model._symbolic_build(data_batch=batch)
        step = TrainStep(model, strategy)._per_replica
        state = model._get_jax_state(**dict.fromkeys(TRAIN_STATE, True))
        program = step._alone.lower(state, batch).compile().as_text()
    sizes = [math.prod(variable.shape) for variable in model.trainable_variables]
    rows = [4 * row_length(size, len(DEVICES)) for size in sizes]
    # Weights are gathered again for the gradient, but for the first layer's, and biases together
    # with the last layer's.
    again = sum(rows[1:]) if shard == "parameters" else 0
    sent = bytes_between(program).sum(axis=1)  # one number more for the loss
    expected = 2 * (2 * sum(rows) + again)
    assert all(0 <= each - expected <= 64 for each in sent), (sent, rows)


def test_what_cannot_be_had() -> None:
    with pytest.raises(ValueError, match="shard='rows'"):
        MirroredStrategy(DEVICES, shard="rows")
    with pytest.raises(ValueError, match="RingAllReduce"):
        MirroredStrategy(DEVICES, RingAllReduce(), shard="parameters")
    with pytest.raises(ValueError, match="check_agreement"):
        MirroredStrategy(DEVICES, shard="optimizer", check_agreement=True)


def test_what_it_says_of_itself() -> None:
    text = MirroredStrategy(DEVICES, shard="optimizer").describe()
    assert "of an optimizer's slots each has 1/3, cut by shard='optimizer'" in text
    assert "slots" not in MirroredStrategy(DEVICES[:1], shard="optimizer").describe()
    text = MirroredStrategy(DEVICES, shard="parameters").describe()
    assert "of weights and an optimizer's slots each has 1/3, cut by shard='parameters'" in text


def _resnet50() -> list[tuple[int, ...]]:
    shapes: list[tuple[int, ...]] = [(7, 7, 3, 64), (64,), (64,), (64,)]
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            sides = [(1, 1, channels, width), (3, 3, width, width), (1, 1, width, 4 * width)]
            if block == 0:
                sides.append((1, 1, channels, 4 * width))
            for side in sides:
                shapes += [side, (side[-1],), (side[-1],), (side[-1],)]
            channels = 4 * width
    return [*shapes, (2048, 1000), (1000,)]


def _gpt2_xl() -> list[tuple[int, ...]]:
    d = 1600
    layer = [(d,), (d,), (d, 3 * d), (3 * d,), (d, d), (d,), (d,), (d,), (d, 4 * d), (4 * d,)]
    return [(50257, d), (1024, d), *[*layer, (4 * d, d), (d,)] * 48, (d,), (d,)]


def _llama() -> list[tuple[int, ...]]:
    d, hidden = 4096, 11008
    layer = [(d,), *[(d, d)] * 4, (d,), (d, hidden), (d, hidden), (hidden, d)]
    return [(32000, d), *layer * 32, (d,), (d, 32000)]


MODELS = {
    "ResNet-50": (_resnet50, 25_583_592),
    "GPT-2 XL": (_gpt2_xl, 1_557_611_200),
    "Llama 2 7B": (_llama, 6_738_415_616),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_device_has_much_more_than_its_share(name: str) -> None:
    shapes, parameters = MODELS[name]
    sizes = [math.prod(shape) for shape in shapes()]
    assert sum(sizes) == parameters
    for replicas in range(2, 1025):
        share = sum(row_length(size, replicas) for size in sizes)
        assert share < 1.1 * parameters / replicas, replicas
