"""`ModelParallelStrategy`: weights cut as a layout map says, and the numbers of one device."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import drumline as dl
from drumline.distribute import (
    MirroredStrategy,
    ModelParallelStrategy,
    OneDeviceStrategy,
    Strategy,
)
from drumline.keras.state import TRAIN_STATE
from drumline.keras.step.train_step import TrainStep
from drumline.plan.stand_ins import plan_strategies

thorough = pytest.mark.thorough
MESH = {"batch": 2, "model": 2}
LAYOUTS = {
    ".*up/kernel": (None, "model"),
    ".*up/bias": ("model",),
    ".*down/kernel": ("model", None),
}
OPTIMIZERS: dict[str, Callable[[], keras.optimizers.Optimizer]] = {
    "adam": lambda: keras.optimizers.Adam(0.01),
    "averaged": lambda: keras.optimizers.Adam(0.01, use_ema=True, gradient_accumulation_steps=2),
    "clipped": lambda: keras.optimizers.AdamW(1e-3, global_clipnorm=0.5),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-3)),
    "lamb": lambda: keras.optimizers.Lamb(1e-3),
    "adafactor": lambda: keras.optimizers.Adafactor(1e-3),
    "muon": lambda: keras.optimizers.Muon(1e-3),
}


def _model(strategy: Strategy, optimizer: str = "adam", **options: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        layers = [
            keras.Input((6,)),
            keras.layers.Dense(16, "relu", name="up"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(8, "relu", name="down"),
            keras.layers.Dense(3),
        ]
        model = keras.Sequential(layers)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(OPTIMIZERS[optimizer](), loss, metrics=["accuracy"], **options)
    return model


def _rows(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, 6)).astype(np.float32), rng.integers(0, 3, count)


def _trained(model: keras.Model) -> list[Any]:
    x, y = _rows(25)  # the last batch does not divide, nor that of `predict`
    history = model.fit(x, y, batch_size=12, epochs=4, shuffle=False, verbose=0).history
    evaluated = model.evaluate(x[:24], y[:24], verbose=0)
    results = [*history.values(), evaluated, model.predict(x, verbose=0)]
    return [*results, model.train_on_batch(x[:12], y[:12])]


def _require_close(found: keras.Model, expected: keras.Model, tolerance: float) -> None:
    ours = [*found.variables, *found.optimizer.variables]
    theirs = [*expected.variables, *expected.optimizer.variables]
    for our, their in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(our, their, atol=tolerance, rtol=tolerance, err_msg=our.path)


def _spec(variable: Any) -> tuple[Any, ...]:
    axes: list[Any] = list(variable.value.sharding.spec)
    return (*axes, *[None] * (len(variable.shape) - len(axes)))


def _layouts(batch: str | None, parts: int) -> dict[str, tuple[str | None, ...]]:
    """Where weights lie; `batch` is the axis of ``shard=``, which cannot cut 6 rows in 4 parts."""
    return {
        "up/kernel": (batch if 6 % parts == 0 else None, "model"),
        "up/bias": ("model",),
        "down/kernel": ("model", batch),
        "down/bias": (batch,),
    }


def _require_laid_out(model: keras.Model, batch: str | None = None, parts: int = 2) -> None:
    """Slots lie beside their weights."""
    weights = _layouts(batch, parts)
    for name, axes in weights.items():
        slots = [v for v in model.optimizer.variables if name.replace("/", "_") in v.path]
        assert slots
        for variable in slots:
            expected = axes if len(variable.shape) == len(axes) else (None,) * len(variable.shape)
            assert _spec(variable) == expected, variable.path


def _require_weights(model: keras.Model, batch: str | None = None, parts: int = 2) -> None:
    found = {"/".join(v.path.split("/")[-2:]): _spec(v) for v in model.trainable_variables}
    for name, axes in _layouts(batch, parts).items():
        assert found[name] == axes, name


CASES: list[tuple[str, dict[str, int], str | None, dict[str, Any]]] = [
    ("adam", {"batch": 1, "model": 4}, None, {}),
    ("clipped", MESH, "parameters", {}),
]
SLOW: list[tuple[str, dict[str, int], str | None, dict[str, Any]]] = [
    *[(name, MESH, shard, {}) for name in OPTIMIZERS for shard in (None, "optimizer")],
    *[("lamb", MESH, "parameters", {}), ("adafactor", MESH, "parameters", {})],
    *[("adam", MESH, None, {key: value}) for key, value in (("run_eagerly", True),)],
    *[("adam", MESH, shard, {"steps_per_execution": 2}) for shard in (None, "parameters")],
    ("adam", MESH, "parameters", {"jit_compile": False}),
    ("adam", {"batch": 4, "model": 1}, "parameters", {}),
]


@pytest.mark.parametrize(
    ("optimizer", "mesh", "shard", "options"),
    [
        *CASES,
        *[pytest.param(*case, marks=thorough) for case in SLOW if case not in CASES],
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:Batches of shapes")
def test_training_gives_the_numbers_of_one_device(
    optimizer: str, mesh: dict[str, int], shard: str | None, options: Any
) -> None:
    expected = _model(OneDeviceStrategy("cpu:0"), optimizer, **options)
    strategy = ModelParallelStrategy(mesh, LAYOUTS, shard=shard)
    found = _model(strategy, optimizer, **options)
    for ours, theirs in zip(_trained(found), _trained(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6, rtol=2e-6)
    _require_close(found, expected, 2e-6)
    if optimizer != "adafactor":  # which keeps rows and columns
        _require_laid_out(found, None if shard is None else "batch", mesh["batch"])
    _require_weights(found, "batch" if shard == "parameters" else None, mesh["batch"])


class _Block(keras.layers.Layer):
    """A layer of a transformer, its heads and its hidden units to be cut."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.norm = keras.layers.LayerNormalization()
        self.attention = keras.layers.MultiHeadAttention(4, 8, dropout=0.1, name="attention")
        self.norm_2 = keras.layers.LayerNormalization()
        self.up = keras.layers.Dense(96, "gelu", name="up")
        self.down = keras.layers.Dense(32, name="down")

    def build(self, shape: Any) -> None:
        self.norm.build(shape)
        self.attention.build(shape, shape)
        self.norm_2.build(shape)
        self.up.build(shape)
        self.down.build((*shape[:-1], 96))

    def call(self, x: Any) -> Any:
        normed = self.norm(x)
        x = x + self.attention(normed, normed, use_causal_mask=True)
        return x + self.down(self.up(self.norm_2(x)))


TRANSFORMER = {
    ".*attention/(query|key|value)/kernel": (None, "model", None),
    ".*attention/(query|key|value)/bias": ("model", None),
    ".*attention/attention_output/kernel": ("model", None, None),
    ".*up/kernel": (None, "model"),
    ".*up/bias": ("model",),
    ".*down/kernel": ("model", None),
    ".*embedding/embeddings": (None, "model"),
}
TOKENS = 20


def _transformer(strategy: Strategy) -> keras.Model:
    keras.utils.set_random_seed(2)
    with strategy.scope():
        tokens = keras.Input((TOKENS,), dtype="int32")
        x = keras.layers.Embedding(40, 32, name="embedding")(tokens)
        x = _Block(name="block")(x)
        model = keras.Model(tokens, keras.layers.Dense(44, name="logits")(x))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.AdamW(1e-3), loss)
    return model


def _tokens(count: int) -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(3).integers(0, 40, (count, TOKENS + 1)).astype(np.int32)
    return rows[:, :-1], rows[:, 1:]


def test_a_transformer_trains_to_the_numbers_of_one_device() -> None:
    x, y = _tokens(24)
    dataset = dl.data.Dataset.from_tensor_slices((x, y)).batch(8)
    strategy = ModelParallelStrategy(MESH, TRANSFORMER)
    found, expected = _transformer(strategy), _transformer(OneDeviceStrategy("cpu:0"))
    losses = [model.fit(dataset, epochs=3, verbose=0).history for model in (found, expected)]
    np.testing.assert_allclose(losses[0]["loss"], losses[1]["loss"], rtol=1e-6)
    _require_close(found, expected, 2e-5)
    heads = found.get_layer("block").attention.query_dense.kernel
    assert [s.data.shape for s in heads.value.addressable_shards] == [(32, 2, 8)] * 4


def _program(model: keras.Model, strategy: Strategy, batch: Any) -> Any:
    with strategy.scope():
        model._symbolic_build(data_batch=batch)
        state = model._get_jax_state(**dict.fromkeys(TRAIN_STATE, True))
        return TrainStep(model, strategy).lowered(state, batch).compile()


def _gathered(program: str) -> set[tuple[int, ...]]:
    """The shapes that all-gathers of the program make."""
    lines = [line for line in program.splitlines() if re.search(r" all-gather(-start)?\(", line)]
    shapes = [each for line in lines for each in re.findall(r"f32\[([\d,]+)\]", line)]
    return {tuple(map(int, shape.split(","))) for shape in shapes}


def test_a_step_gathers_no_weight_that_is_cut() -> None:
    strategy = ModelParallelStrategy(MESH, TRANSFORMER)
    model = _transformer(strategy)
    program = _program(model, strategy, _tokens(8))
    text = program.as_text()
    weights = [v for v in model.trainable_variables if "model" in _spec(v)]
    assert len(weights) == 1 + 10
    whole = {tuple(sorted(variable.shape)) for variable in weights if len(variable.shape) > 1}
    assert not {tuple(sorted(shape)) for shape in _gathered(text)} & whole
    assert "all-reduce" in text  # what the halves of a hidden layer add up to
    cut = sum(variable.value.nbytes for variable in weights)
    everything = sum(v.value.nbytes for v in [*model.variables, *model.optimizer.variables])
    # Half of each weight, its first and its second moment; the batch's tokens and labels.
    held = program.memory_analysis().argument_size_in_bytes
    assert held <= everything - 3 * cut / 2 + 2 * 8 * TOKENS * 4


def test_what_shard_cuts_over_the_batch_is_gathered_where_it_is_used() -> None:
    strategy = ModelParallelStrategy(MESH, LAYOUTS, shard="parameters")
    model = _model(strategy)
    gathered = _gathered(_program(model, strategy, _rows(12)).as_text())
    # Over the batch's axis alone: of each weight a device has its part by the layout.
    assert (6, 8) in gathered and (8, 8) in gathered
    assert not {(6, 16), (16, 8)} & gathered


@pytest.mark.filterwarnings("ignore:Batches of shapes")
def test_checkpoints_go_from_one_strategy_to_the_other(tmp_path: Path) -> None:
    x, y = _rows(24)
    kinds = {
        "mesh": ModelParallelStrategy(MESH, LAYOUTS),
        "other mesh": ModelParallelStrategy({"batch": 1, "model": 4}, LAYOUTS, shard="parameters"),
        "mirrored": MirroredStrategy(["cpu:0", "cpu:1"]),
        "cut": MirroredStrategy(["cpu:0", "cpu:1", "cpu:2"], shard="parameters"),
    }
    for first in ("mesh", "mirrored"):
        model = _model(kinds[first])
        model.fit(x, y, batch_size=12, verbose=0)
        folder = tmp_path / first
        path = dl.train.Checkpoint(model=model, optimizer=model.optimizer).save(str(folder / "a"))
        model.save(folder / "model.keras")
        for name, strategy in kinds.items():
            other = _model(strategy)
            other.optimizer.build(other.trainable_variables)
            dl.train.Checkpoint(model=other, optimizer=other.optimizer).restore(path)
            _require_close(other, model, 0)
            with strategy.scope():
                loaded = keras.models.load_model(folder / "model.keras")
            assert all(map(np.array_equal, loaded.get_weights(), model.get_weights()))
            if "mesh" in name:
                _require_laid_out(other)
                _require_weights(loaded)


def test_an_optimizer_built_outside_of_the_scope_lies_beside_its_variables() -> None:
    model = _model(ModelParallelStrategy(MESH, LAYOUTS))
    model.optimizer.build(model.trainable_variables)
    _require_laid_out(model)


def test_meshes_and_maps_of_keras_are_taken() -> None:
    layout_map = keras.distribution.LayoutMap(
        keras.distribution.DeviceMesh(
            (2, 2), ("data", "model"), ["cpu:3", "cpu:2", "cpu:1", "cpu:0"]
        )
    )
    for pattern, axes in LAYOUTS.items():
        layout_map[pattern] = axes
    strategy = ModelParallelStrategy(layout_map=layout_map)
    assert strategy.batch_dim_name == "data"  # the first one, as in Keras
    assert strategy.num_replicas_in_sync == 2
    assert [device.id for device in strategy.replica_devices] == [3, 2, 1, 0]
    layouts = {"w": keras.distribution.TensorLayout((None, "y"))}
    devices = np.array(jax.local_devices()[:2]).reshape(1, 2)
    strategy = ModelParallelStrategy(Mesh(devices, ("x", "y")), layouts, "y")
    assert strategy.batch_sharding.spec == PartitionSpec("y")
    assert strategy.num_replicas_in_sync == 2


def test_what_an_optimizer_keeps_by_a_weights_name_lies_whole() -> None:
    """Adafactor's rows and columns, which an expression for weights matches as well."""
    layouts = {".*kernel": ("model", None), ".*(up|down)/bias": ("model",)}

    def trained(strategy: Strategy) -> keras.Model:
        keras.utils.set_random_seed(1)
        with strategy.scope():
            up, down = keras.layers.Dense(8, "relu", name="up"), keras.layers.Dense(2, name="down")
            model = keras.Sequential([keras.Input((6,)), up, down])
            model.compile(OPTIMIZERS["adafactor"](), "mse")
        x, _ = _rows(24)
        model.fit(x, x[:, :2], batch_size=12, epochs=3, shuffle=False, verbose=0)
        return model

    found = trained(ModelParallelStrategy(MESH, layouts))
    assert _spec(found.trainable_variables[0]) == ("model", None)
    _require_close(found, trained(OneDeviceStrategy("cpu:0")), 1e-5)


@pytest.mark.parametrize(
    ("mesh", "layouts", "message"),
    [
        ({"batch": 2, "model": 400}, LAYOUTS, "has 800 devices, and this process has"),
        ({"batch": 2, "model": 0}, LAYOUTS, "model=0"),
        ({"batch": 2, "model": 2}, {".*": ("heads",)}, "'heads'; the mesh has batch=2, model=2"),
        ({"batch": 2, "model": 2}, {".*": ("model", "model")}, "an axis twice"),
        ({"batch": 2, "model": 2}, {}, "empty layout map"),
    ],
    ids=str,
)
def test_meshes_and_layouts_that_cannot_be(mesh: Any, layouts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelParallelStrategy(mesh, layouts)


def test_other_arguments_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="shard='rows'"):
        ModelParallelStrategy(MESH, LAYOUTS, shard="rows")
    with pytest.raises(ValueError, match="batch_dim_name='rows' is no axis"):
        ModelParallelStrategy(MESH, LAYOUTS, "rows")
    with pytest.raises(TypeError, match="layout_map"):
        ModelParallelStrategy(MESH)
    with pytest.raises(TypeError, match="may be left out if the layout map"):
        ModelParallelStrategy(layout_map=LAYOUTS)
    with pytest.raises(TypeError, match=r"'.\*kernel' is 'model'"):
        ModelParallelStrategy(MESH, {".*kernel": "model"})
    devices = keras.distribution.DeviceMesh((1, 2), ("batch", "model"), ["cpu:0", "cpu:99"])
    with pytest.raises(ValueError, match="'cpu:99' does not exist"):
        ModelParallelStrategy(devices, LAYOUTS)


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ({".*kernel": (None, "model")}, "dimension 1 has 3 elements.*2 devices of axis 'model'"),
        ({".*bias": (None, "model")}, "2 dimensions and the variable 1"),
        ({".*up.*": ("model",), ".*kernel": ("model",)}, "matches multiple layout"),
    ],
    ids=str,
)
def test_layouts_that_do_not_fit_a_variable(layouts: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _model(ModelParallelStrategy(MESH, layouts))


def test_layouts_that_match_nothing() -> None:
    model = _model(ModelParallelStrategy(MESH, {".*upp/kernels": (None, "model")}))
    with pytest.raises(
        ValueError, match=r"matches no variable.*nearest: 'sequential\w*/up/kernel'"
    ):
        model.fit(*_rows(12), batch_size=12, verbose=0)
    layouts = {**LAYOUTS, ".*downn/bias": ("model",)}
    model = _model(ModelParallelStrategy(MESH, layouts))
    with pytest.warns(UserWarning, match=r"'.\*downn/bias' \(nearest: 'sequential\w*/down/bias'"):
        model.fit(*_rows(12), batch_size=12, verbose=0)
    with warnings.catch_warnings():  # once
        warnings.simplefilter("error")
        model.evaluate(*_rows(12), batch_size=12, verbose=0)


def test_batches_that_never_divide_are_warned_of() -> None:
    model = _model(ModelParallelStrategy(MESH, LAYOUTS))
    with pytest.warns(UserWarning, match="do not split over 2 replicas"):
        model.fit(*_rows(26), batch_size=13, verbose=0)


def test_custom_loops_and_plans_are_refused() -> None:
    strategy = ModelParallelStrategy(MESH, LAYOUTS)
    dataset = dl.data.Dataset.range(4).batch(2)
    for refused in (
        lambda: strategy.run(lambda: 1),
        lambda: strategy.experimental_run_v2(lambda: 1),
        lambda: strategy.reduce("SUM", 1, axis=None),
        lambda: strategy.gather(1, axis=0),
        lambda: strategy.per_replica([1, 2]),
        lambda: strategy.experimental_distribute_dataset(dataset),
        lambda: strategy.distribute_datasets_from_function(lambda _: dataset),
        lambda: strategy.experimental_distribute_values_from_function(lambda _: 1),
    ):
        with pytest.raises(NotImplementedError, match=r"Train with Keras's `fit`"):
            refused()
    with strategy.scope(), pytest.raises(NotImplementedError, match="ON_READ"):
        dl.Variable(0.0, synchronization=dl.VariableSynchronization.ON_READ, aggregation="sum")
    plan_strategies(lambda: tuple(jax.local_devices()[:4]))
    try:
        with pytest.raises(BaseException, match="cannot be planned"):
            ModelParallelStrategy(MESH, LAYOUTS)
    finally:
        plan_strategies(None)


def test_what_it_says_of_itself() -> None:
    strategy = ModelParallelStrategy(MESH, LAYOUTS)
    with strategy.scope():
        keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, name="up")])
    text = strategy.describe()
    assert "mesh: batch=2, model=2" in text
    assert "2 of 2 variables are cut, and each device holds 224 of 448 bytes (50 %)" in text
    assert repr(strategy) == "ModelParallelStrategy(batch=2, model=2)"
