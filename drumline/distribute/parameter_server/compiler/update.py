"""A Keras optimizer's update of one variable as a program for servers.

`export_update` traces the optimizer on one variable, and exports what it does to the value and its
slots. For tables the program has to compute every row of its results from the same row of its
arguments; that is checked on the traced program, and an optimizer for which it does not hold is
refused by name.

`native_optimizer` names the updates that servers make in Rust: some of Keras's own optimizers,
compared with the exported program before they are believed. The chief calls both while it attaches
an optimizer to a shard.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import keras
import numpy as np

from drumline._core import UpdateRule
from drumline.distribute.parameter_server.compiler.exporting import (
    PLATFORMS,
    export_function,
    load_program,
)
from drumline.distribute.parameter_server.compiler.recorded_step import require_servable
from drumline.distribute.parameter_server.errors import OptimizerError
from drumline.training import jax_internals, keras_internals
from drumline.training.row_sparse.interpreter import RowsInterpreter, RowSparse


class _Check(RowsInterpreter):
    def __init__(self, shape: tuple[int, ...], name: str) -> None:
        super().__init__([shape])
        self._name = name

    def refuse(self, eqn: Any, values: Sequence[Any]) -> NoReturn:
        raise OptimizerError(
            f"{self._name} cannot update single rows of a table: its `{eqn.primitive.name}` at "
            f"{jax_internals.source_line(eqn)} needs all of them. Use SGD, Adagrad, Adam, RMSprop "
            "or Ftrl, or let the variable be no table."
        )


def require_row_by_row(update: Callable[..., Any], specs: Sequence[Any], name: str) -> None:
    """Refuse an update that mixes the rows of a variable.

    Args:
        update: takes and gives a value and slots first.
        specs: of its arguments.
        name: the optimizer's.

    Raises:
        OptimizerError: with the operation that does it.
    """
    shape = tuple(specs[0].shape)
    traced = jax.make_jaxpr(update)(*specs)

    def evaluate(*arrays: Any) -> list[Any]:
        rows = [
            RowSparse(array, shape, "", False) if tuple(array.shape) == shape else array
            for array in arrays
        ]
        outputs = _Check(shape, name).evaluate(traced.jaxpr, traced.consts, rows)
        return [output.value if isinstance(output, RowSparse) else output for output in outputs]

    jax.eval_shape(evaluate, *specs)


ROWS = "rows"
"""In the place of a slot's shape: that of what is updated."""


class UpdateProgram(NamedTuple):
    """An optimizer's update of a variable, a part of one, or some rows of a table.

    Attributes:
        program: for `load_program`. It takes ``(value, *slots, gradient, iteration,
            learning_rate)``, the last two scalars of int32 and float32, and gives
            ``[value, *slots]``. `iteration` is the number of updates before this one.
        slots: for each of the optimizer's variables ``{"name", "shape", "dtype", "initial"}``:
            the shape is ``"rows"`` for that of the value, or a list; `initial` the number that all
            of its elements are at first.
    """

    program: bytes
    slots: list[dict[str, Any]]


def export_update(
    optimizer: Any,
    shape: Sequence[int],
    dtype: str,
    sparse: bool,
    *,
    whole: bool = False,
    variable: Any = None,
    platforms: Sequence[str] = PLATFORMS,
) -> UpdateProgram:
    """How `optimizer` updates a variable.

    Clipping and loss scaling are not part of it: they belong to the step. A learning-rate schedule
    is: the program evaluates it at `iteration`, and ignores its learning rate.

    A sparse update takes any number of rows of a table with their gradients, and is "lazy", as
    LazyAdam of TensorFlow Addons: rows that a step did not look up stay as they are, with their
    slots. Momentum, moving averages and weight decay act on a row only when it has a gradient.

    Args:
        optimizer: a Keras optimizer, built or not; it is not changed.
        shape: of the variable or its part; of a table's only what follows the rows counts.
        dtype: the variable's.
        sparse: whether it updates some rows of a table.
        whole: whether `shape` is known to be that of the whole variable, and not of one of several
            parts, which are updated each on its own.
        variable: the Keras variable. An optimizer with ``exclude_from_weight_decay`` needs it, and
            so does one that goes by its path.
        platforms: on which the program may run.

    Raises:
        OptimizerError: if the optimizer cannot run on parameter servers, its slots do not start
            from one number each, updating rows or a part would need all of the variable, or
            `variable` is missing.
    """
    require_servable(optimizer)
    shape = tuple(int(size) for size in shape)
    one = _OneVariable(optimizer, shape, dtype, variable)
    described = [one.described(slot) for slot in one.slots]
    if sparse and not shape:
        raise ValueError("A table has rows; a scalar is updated with sparse=False.")
    one.require_fitting_slots()
    if sparse or (shape and not whole):
        require_row_by_row(one.update, one.specs(3), type(optimizer).__name__)
    rows: Any = shape[0] if shape else None
    if sparse:
        (rows,) = jax.export.symbolic_shape("rows")
    return UpdateProgram(export_function(one.update, one.specs(rows), platforms), described)


class _OneVariable:
    """A copy of an optimizer that has a single, small variable of its own."""

    def __init__(self, optimizer: Any, shape: tuple[int, ...], dtype: str, variable: Any) -> None:
        self._name = type(optimizer).__name__
        self._shape = shape
        self._optimizer = _copied(optimizer, variable)
        small = (1, *shape[1:]) if shape else ()
        # Only shapes and initial values of the slots are wanted of it, so one row will do.
        with jax.ensure_compile_time_eval(), keras_internals.outside_scopes():
            self._variable = _named(np.zeros(small), dtype, variable)
            self._optimizer.build([self._variable])
        own = [self._optimizer.iterations]
        rate = keras_internals.learning_rate_of(self._optimizer)
        self._rate = rate if isinstance(rate, keras.Variable) else None
        if self._rate is not None:
            own.append(self._rate)
        self.slots = [
            slot for slot in self._optimizer.variables if not any(slot is each for each in own)
        ]
        self._follows = [tuple(slot.shape) == small for slot in self.slots]

    def described(self, slot: Any) -> dict[str, Any]:
        """What a server is to make for a slot."""
        initial = np.asarray(slot.value, np.float64)
        if initial.size and not np.all(initial == initial.flat[0]):
            raise OptimizerError(
                f"{self._name} starts {slot.path!r} from different numbers, which parameter "
                "servers cannot make. Use another optimizer."
            )
        follows = self._follows[self._number(slot)]
        return {
            "name": self._slot_name(slot),
            "shape": ROWS if follows else list(slot.shape),
            "dtype": keras.backend.standardize_dtype(slot.dtype),
            "initial": float(initial.flat[0]) if initial.size else 0.0,
        }

    def _slot_name(self, slot: Any) -> str:
        prefix = self._variable.path.replace("/", "_") + "_"
        name: str = slot.path.rpartition("/")[2]
        found, _, own = name.partition(prefix)
        return own if own and not found else f"slot_{self._number(slot)}"

    def _number(self, slot: Any) -> int:
        return [each is slot for each in self.slots].index(True)

    def specs(self, rows: Any) -> list[jax.ShapeDtypeStruct]:
        """What the update takes, with so many rows."""
        shape = self._shape if rows is None else (rows, *self._shape[1:])
        dtype = self._variable.dtype
        value = jax.ShapeDtypeStruct(shape, dtype)
        slots = [
            jax.ShapeDtypeStruct(shape if follows else tuple(slot.shape), slot.dtype)
            for slot, follows in zip(self.slots, self._follows, strict=True)
        ]
        scalar = jax.ShapeDtypeStruct((), jnp.float32)
        return [value, *slots, value, jax.ShapeDtypeStruct((), jnp.int32), scalar]

    def require_fitting_slots(self) -> None:
        """Refuse slots that follow the variable's rows in another way than having its shape."""
        try:
            jax.eval_shape(self.update, *self.specs(3 if self._shape else None))
        except ValueError as error:
            raise OptimizerError(
                f"{self._name} cannot run on parameter servers, which keep slots of a variable's "
                f"own shape or of a fixed one: {error}"
            ) from error

    def update(self, value: Any, *rest: Any) -> list[Any]:
        """The new value and slots."""
        slots, (gradient, iteration, rate) = rest[:-3], rest[-3:]
        any_rows = (None, *self._shape[1:]) if self._shape else ()
        for variable, follows in zip(
            [self._variable, *self.slots], [True, *self._follows], strict=True
        ):
            if follows:
                keras_internals.resize(variable, any_rows)
        given = {id(self._variable): value, **dict(zip(map(id, self.slots), slots, strict=True))}
        given[id(self._optimizer.iterations)] = iteration.astype(self._optimizer.iterations.dtype)
        if self._rate is not None:
            given[id(self._rate)] = rate.astype(self._rate.dtype)
        with keras_internals.StatelessScope() as scope:
            scope.state_mapping.update(given)
            self._optimizer.apply([gradient], [self._variable])
            changed = [self._variable, *self.slots]
            return [scope.get_current_value(each) for each in changed]


def _named(value: np.ndarray, dtype: str, variable: Any) -> keras.Variable:
    """A new variable with the path of `variable`."""
    *scopes, name = ("", "updated") if variable is None else variable.path.split("/")
    with contextlib.ExitStack() as entered:
        for scope in filter(None, scopes):
            entered.enter_context(keras.name_scope(scope))
        return keras.Variable(value, dtype=dtype, name=name)


def _copied(optimizer: Any, variable: Any) -> Any:
    rate = keras_internals.learning_rate_of(optimizer)
    is_schedule = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
    if not is_schedule and not isinstance(rate, keras.Variable):
        raise OptimizerError(
            f"{type(optimizer).__name__} has a Python function as its learning rate, which cannot "
            "be sent to parameter servers. Derive it from "
            "keras.optimizers.schedules.LearningRateSchedule."
        )
    config = {**optimizer.get_config(), "learning_rate": 0.0}
    for name in ("clipnorm", "global_clipnorm", "clipvalue", "loss_scale_factor"):
        if name in config:
            config[name] = None
    copy = type(optimizer).from_config(config)
    if is_schedule:
        copy.learning_rate = rate
    if variable is None and keras_internals.excludes_from_weight_decay(optimizer):
        raise OptimizerError(
            f"{type(optimizer).__name__} excludes variables from weight decay, so its update "
            "depends on which variable it is: give `variable`."
        )
    if variable is not None and not keras_internals.decays_weights(optimizer, variable):
        copy.weight_decay = None
    return copy


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


def native_optimizer(optimizer: Any, dtype: str) -> dict[str, Any] | None:
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
