"""Optimizers whose update servers can make without the exported program, and faster."""

from __future__ import annotations

import functools
import json
from typing import Any

import jax
import keras
import numpy as np

from drumline._core import UpdateRule
from drumline.distribute.parameter_server.compiler.exporting import load_program
from drumline.distribute.parameter_server.compiler.update import ROWS, export_update
from drumline.training import keras_internals

_CONSTANTS: dict[type, tuple[str, tuple[str, ...]]] = {
    keras.optimizers.SGD: ("momentum", ("momentum", "nesterov")),
    keras.optimizers.Adagrad: ("adagrad", ("epsilon",)),
    keras.optimizers.Adam: ("adam", ("beta_1", "beta_2", "epsilon", "amsgrad")),
    keras.optimizers.RMSprop: ("rmsprop", ("rho", "momentum", "epsilon", "centered")),
    keras.optimizers.Ftrl: (
        "ftrl",
        (
            "learning_rate_power",
            "l1_regularization_strength",
            "l2_regularization_strength",
            "l2_shrinkage_regularization_strength",
            "beta",
        ),
    ),
}
_RATE = 0.05
_ELEMENTS, _UPDATES = 64, 3
_TOLERANCE = 1e-5


def formula_of(optimizer: Any, dtype: str) -> dict[str, Any] | None:
    """The `UpdateRule` that is an optimizer's update, with its name and constants, for JSON.

    It is one of Keras's own SGD, Adagrad, Adam, RMSprop and Ftrl with a constant learning rate and
    without weight decay, and its update was compared with that of this version of Keras: they
    differ by rounding alone, as compiled programs fuse operations.

    Args:
        optimizer: a Keras optimizer.
        dtype: of the variable.

    Returns:
        None if there is none.
    """
    known = _CONSTANTS.get(type(optimizer))
    rate = keras_internals.learning_rate_of(optimizer)
    if known is None or dtype != "float32" or not isinstance(rate, keras.Variable):
        return None
    if optimizer.weight_decay is not None:
        return None
    name, constants = known
    values = tuple(float(getattr(optimizer, constant)) for constant in constants)
    if name == "momentum" and values[0] == 0:
        name, values = "sgd", ()
    described = keras.optimizers.serialize(optimizer)
    described["config"] |= {"name": None, "learning_rate": _RATE}
    with jax.ensure_compile_time_eval():  # also while a step is traced
        is_equal = _is_equal(json.dumps(described, default=str), name, values)
    if not is_equal:
        return None
    return {"name": name, "constants": list(values)}


@functools.cache
def _is_equal(described: str, name: str, constants: tuple[float, ...]) -> bool:
    """Whether the rule does what the optimizer does in the first updates of some numbers."""
    rule = UpdateRule(name, constants)
    with keras_internals.outside_scopes():
        optimizer = keras.optimizers.deserialize(json.loads(described))
    program, slots = export_update(optimizer, (_ELEMENTS,), "float32", False, whole=True)
    if [slot["shape"] for slot in slots] != [ROWS] * rule.slots:
        return False
    update = load_program(program)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=_ELEMENTS).astype(np.float32)]
    arrays += [np.full(_ELEMENTS, slot["initial"], np.float32) for slot in slots]
    expected = list(arrays)
    for iteration in range(_UPDATES):
        gradient = rng.normal(size=_ELEMENTS).astype(np.float32)
        expected = update(*expected, gradient, np.int32(iteration), np.float32(_RATE))
        arrays = [array.copy() for array in arrays]
        rule.update_whole([(arrays, gradient, iteration)], _RATE)
    return all(
        np.allclose(mine, other, rtol=_TOLERANCE, atol=_TOLERANCE)
        for mine, other in zip(arrays, expected, strict=True)
    )
