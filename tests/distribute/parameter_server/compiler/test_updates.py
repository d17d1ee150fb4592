"""Exported updates beside the Keras optimizers that they come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import keras
import ml_dtypes
import numpy as np
import pytest

from drumline._core import UpdateRule
from drumline.distribute.parameter_server import compiler

O = keras.optimizers  # noqa: E741
SHAPE = (6, 3)
STEPS = 3

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: O.SGD(0.1),
    "momentum": lambda: O.SGD(0.1, momentum=0.9),
    "nesterov": lambda: O.SGD(0.1, momentum=0.9, nesterov=True),
    "Adagrad": lambda: O.Adagrad(0.1),
    "Adam": lambda: O.Adam(0.1, amsgrad=True),
    "AdamW": lambda: O.AdamW(0.1, weight_decay=0.1),
    "RMSprop": lambda: O.RMSprop(0.1, momentum=0.5, centered=True),
    "Ftrl": lambda: O.Ftrl(0.1, l1_regularization_strength=0.01),
    "Adamax": lambda: O.Adamax(0.1),
    "Nadam": lambda: O.Nadam(0.1),
    "Lion": lambda: O.Lion(0.1),
    "Adadelta": lambda: O.Adadelta(0.1),
    "a schedule": lambda: O.SGD(O.schedules.ExponentialDecay(0.1, 2, 0.5)),
}


class Served:
    """A variable, or rows of one, as a parameter server keeps it."""

    def __init__(self, optimizer: Any, value: np.ndarray, sparse: bool, **options: Any) -> None:
        program, slots = compiler.export_update(
            optimizer, value.shape, value.dtype.name, sparse, platforms=("cpu",), **options
        )
        self.names = [slot["name"] for slot in slots]
        self._update = compiler.load_program(program)
        self._rate = 0.1
        self.state = [value.copy()]
        for slot in slots:
            shape = value.shape if slot["shape"] == "rows" else slot["shape"]
            self.state.append(np.full(shape, slot["initial"], slot["dtype"]))

    def apply(self, gradient: np.ndarray, iteration: int, rows: Any = ...) -> None:
        places = [rows if each.shape == self.state[0].shape else ... for each in self.state]
        part = [each[place] for each, place in zip(self.state, places, strict=True)]
        new = self._update(*part, gradient, np.int32(iteration), np.float32(self._rate))
        for held, place, value in zip(self.state, places, new, strict=True):
            held[place] = value


class Alone:
    """The same with Keras on one device, compiled."""

    def __init__(self, optimizer: Any, value: Any, name: str = "kernel") -> None:
        self.variable = keras.Variable(value, name=name, dtype=value.dtype.name)
        self._state = [self.variable.value]
        optimizer.build([self.variable])
        self._slots = [slot.value for slot in optimizer.variables]
        self._apply = jax.jit(optimizer.stateless_apply)

    def apply(self, gradient: Any) -> np.ndarray:
        self._state, self._slots = self._apply(self._slots, [gradient], self._state)
        return np.asarray(self._state[0])


def gradients(steps: int = STEPS, shape: Any = SHAPE) -> list[np.ndarray]:
    random = np.random.default_rng(5)
    return [random.normal(size=shape).astype("float32") for _ in range(steps)]


def start(shape: Any = SHAPE) -> np.ndarray:
    return np.random.default_rng(4).normal(size=shape).astype("float32")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_it_is_the_update_of_keras(name: str) -> None:
    optimizer = OPTIMIZERS[name]()
    both = [Served(optimizer, start(), sparse) for sparse in (False, True)]
    assert not optimizer.built
    alone = Alone(optimizer, start())
    for iteration, gradient in enumerate(gradients()):
        expected = alone.apply(gradient)
        for served in both:
            served.apply(gradient, iteration)
            np.testing.assert_allclose(served.state[0], expected, rtol=0, atol=1e-6)
    assert np.abs(expected - start()).max() > 1e-4


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_rows_without_a_gradient_are_as_in_the_dense_update(name: str) -> None:
    optimizer = OPTIMIZERS[name]()
    served, alone = Served(optimizer, start(), True), Alone(optimizer, start())
    for iteration, gradient in enumerate(gradients()):
        rows = np.array([iteration, 5])
        whole = np.zeros(SHAPE, "float32")
        whole[rows] = gradient[:2]
        served.apply(gradient[:2], iteration, rows)
        np.testing.assert_allclose(served.state[0], alone.apply(whole), rtol=0, atol=1e-6)


def test_momentum_is_lazy() -> None:
    served = Served(OPTIMIZERS["momentum"](), start(), True)
    first, second, _ = gradients()
    served.apply(first, 0)
    before = [each.copy() for each in served.state]
    served.apply(second[:2], 1, np.array([0, 3]))
    for held, old in zip(served.state, before, strict=True):
        np.testing.assert_array_equal(held[[1, 2, 4, 5]], old[[1, 2, 4, 5]])
        assert (held[[0, 3]] != old[[0, 3]]).all()


def test_clipping_and_loss_scaling_are_left_to_the_step() -> None:
    (gradient,) = gradients(1)
    plain, clipped = (
        Served(O.SGD(0.1, **options), start(), False)
        for options in ({}, {"global_clipnorm": 0.001, "loss_scale_factor": 8.0})
    )
    for served in (plain, clipped):
        served.apply(gradient, 0)
    np.testing.assert_array_equal(plain.state[0], clipped.state[0])


def test_variables_without_weight_decay() -> None:
    optimizer = O.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    with pytest.raises(compiler.OptimizerError, match="AdamW excludes variables"):
        compiler.export_update(optimizer, SHAPE, "float32", False)
    (gradient,) = gradients(1)
    for name in ("bias", "kernel"):
        one = O.AdamW(0.1, weight_decay=0.5)
        one.exclude_from_weight_decay(var_names=["bias"])
        alone = Alone(one, start(), name)
        served = Served(optimizer, start(), False, variable=alone.variable)
        served.apply(gradient, 0)
        np.testing.assert_allclose(served.state[0], alone.apply(gradient), rtol=0, atol=1e-6)


def test_slots_have_names_that_last() -> None:
    for _ in range(2):
        assert Served(OPTIMIZERS["Adam"](), start(), True).names == [
            "momentum",
            "velocity",
            "velocity_hat",
        ]
        assert Served(OPTIMIZERS["Nadam"](), start(), False).names[-1] == "slot_2"


@pytest.mark.parametrize("shape", [(), (2, 3, 2)], ids=str)
def test_other_shapes(shape: Any) -> None:
    optimizer = OPTIMIZERS["momentum"]()
    served, alone = Served(optimizer, start(shape), False), Alone(optimizer, start(shape))
    for iteration, gradient in enumerate(gradients(2, shape)):
        served.apply(gradient, iteration)
        np.testing.assert_allclose(served.state[0], alone.apply(gradient), rtol=0, atol=1e-6)


def test_bfloat16() -> None:
    value, (gradient,) = start().astype(ml_dtypes.bfloat16), gradients(1)
    optimizer, gradient = O.Adagrad(0.1), gradient.astype(value.dtype)
    served, alone = Served(optimizer, value, False), Alone(optimizer, value)
    served.apply(gradient, 0)
    np.testing.assert_array_equal(served.state[0], alone.apply(gradient))


def test_one_program_for_any_number_of_rows_of_a_huge_table() -> None:
    program, slots = compiler.export_update(
        O.Adagrad(0.1), (50_000_000, 4), "float32", True, platforms=("cpu",)
    )
    assert [slot["shape"] for slot in slots] == ["rows"]
    update = compiler.load_program(program)
    for rows in (1, 8):
        given = [np.ones((rows, 4), "float32")] * 3
        assert update(*given, np.int32(0), np.float32(0.1))[0].shape == (rows, 4)


def test_updates_that_need_the_whole_variable_are_refused() -> None:
    optimizer = O.Lamb(0.1)
    for options in ({"sparse": True, "whole": True}, {"sparse": False}):
        with pytest.raises(compiler.OptimizerError, match="Lamb cannot update single rows"):
            compiler.export_update(optimizer, SHAPE, "float32", **options)
    Served(optimizer, start(), False, whole=True).apply(gradients(1)[0], 0)


def test_slots_of_other_shapes_are_refused() -> None:
    with pytest.raises(compiler.OptimizerError, match="Adafactor cannot run on parameter servers"):
        compiler.export_update(O.Adafactor(0.1), SHAPE, "float32", False)


def test_a_learning_rate_of_python_is_refused() -> None:
    optimizer = O.SGD(lambda: 0.1)
    with pytest.raises(compiler.OptimizerError, match="Python function as its learning rate"):
        compiler.export_update(optimizer, SHAPE, "float32", False)


FORMULAS = {
    **{name: OPTIMIZERS[name] for name in ("SGD", "momentum", "nesterov", "Adagrad", "Adam")},
    **{name: OPTIMIZERS[name] for name in ("RMSprop", "Ftrl")},
    "Ftrl with all": lambda: O.Ftrl(
        0.1,
        learning_rate_power=-0.4,
        l1_regularization_strength=0.01,
        l2_regularization_strength=0.02,
        l2_shrinkage_regularization_strength=0.03,
        beta=0.1,
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_are_the_updates_of_keras(name: str) -> None:
    optimizer = FORMULAS[name]()
    formula = compiler.native_optimizer(optimizer, "float32")
    assert formula is not None
    rule = UpdateRule(**formula)
    served = Served(optimizer, np.linspace(-1, 1, 40, dtype="float32"), False)
    arrays = [each.copy() for each in served.state]
    for iteration in range(STEPS):
        gradient = np.random.default_rng(iteration).normal(size=40).astype("float32")
        served.apply(gradient, iteration)
        rule.update_whole([(arrays, gradient, iteration)], 0.1)
    for mine, theirs in zip(arrays, served.state, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


class Louder(O.SGD):
    """An optimizer of the user's own."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        super().update_step(2 * gradient, variable, learning_rate)


def test_other_updates_have_no_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = O.schedules.ExponentialDecay(0.1, 2, 0.5)
    others = [O.Nadam(0.1), O.AdamW(0.1), O.SGD(schedule), O.SGD(0.1, weight_decay=0.1), Louder()]
    assert [compiler.native_optimizer(each, "float32") for each in others] == [None] * len(others)
    assert compiler.native_optimizer(O.SGD(0.1), "bfloat16") is None
    # A later Keras may compute something else under the same name.
    monkeypatch.setattr(O.Adagrad, "update_step", O.SGD(0.1).update_step.__func__)
    monkeypatch.setattr(O.Adagrad, "momentum", 0, raising=False)
    assert compiler.native_optimizer(O.Adagrad(0.1, epsilon=3e-7), "float32") is None


def test_a_formula_is_found_while_something_is_traced() -> None:
    optimizer, found = O.RMSprop(0.1, epsilon=2e-7), []

    def traced(x: Any) -> Any:
        found.append(compiler.native_optimizer(optimizer, "float32"))
        return x

    jax.make_jaxpr(traced)(1.0)
    assert found[0] is not None
