"""A step as the chief sends it to workers, and what a worker needs to run it.

`StepProgram` is the compiled step with its inputs and outputs, and an `IdsProgram`, which computes
the ids of the table rows that it needs: in numpy where its operations are integer arithmetic, or
compiled. JAX counts negative ids from a table's end, and all are clipped to the table: five
operations for each lookup, where one look at the largest id says that there is nothing to do
(`bounded`).

`worker_state` gives each worker random numbers of its own. A worker needs neither Keras nor the
user's code for any of this. The functions have no state; the pipeline's thread runs them.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.data.elements.precision import require_fits
from drumline.distribute.parameter_server.compiler.exporting import (
    Input,
    Output,
    load_program,
    pack_checked,
    unpack_checked,
)
from drumline.distribute.parameter_server.errors import CorruptProgramError

Operation = Callable[..., np.ndarray]


def _convert(x: np.ndarray, *, new_dtype: str) -> np.ndarray:
    target = np.dtype(new_dtype)
    if x.dtype.kind != "f" or target.kind not in "iu":
        return x.astype(target)
    # As XLA: towards zero, within the type's bounds, and 0 for what is no number.
    limits = np.iinfo(target)
    whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0))
    inside = np.clip(whole, float(limits.min), float(limits.max))
    return np.where(
        inside >= float(limits.max), limits.max, np.where(inside <= limits.min, limits.min, inside)
    ).astype(target)


def _broadcast(x: np.ndarray, *, shape: list[int], broadcast_dimensions: list[int]) -> np.ndarray:
    widened = [1] * len(shape)
    for size, axis in zip(x.shape, broadcast_dimensions, strict=True):
        widened[axis] = size
    made = x.reshape(widened)
    return made if widened == shape else np.broadcast_to(made, shape)


def _slice(
    x: np.ndarray, *, start_indices: list[int], limit_indices: list[int], strides: Any
) -> np.ndarray:
    steps = strides or [1] * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _select(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    if len(cases) != 2 or which.dtype != np.bool_:
        return np.choose(which.astype(np.intp), cases)
    return np.where(which, cases[1], cases[0])


def _iota(*, dtype: str, shape: list[int], dimension: int) -> np.ndarray:
    along = [1] * len(shape)
    along[dimension] = shape[dimension]
    return np.broadcast_to(np.arange(shape[dimension], dtype=dtype).reshape(along), shape)


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    # As XLA's integers: towards zero, and no trap for a division by zero.
    by = np.where(y == 0, 1, y)
    quotient = np.sign(x) * np.sign(by) * (np.abs(x) // np.abs(by))
    return np.where(y == 0, -1, quotient).astype(x.dtype)


def _remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y))).astype(x.dtype)


def _shift_right_logical(x: np.ndarray, by: np.ndarray) -> np.ndarray:
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    return np.right_shift(x.view(unsigned), by.astype(unsigned)).view(x.dtype)


def _clamp(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(x, low), high)


OPERATIONS: Mapping[str, Operation] = {
    "abs": np.abs,
    "add": np.add,
    "and": np.bitwise_and,
    "broadcast_in_dim": _broadcast,
    "clamp": _clamp,
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "convert_element_type": _convert,
    "copy": lambda x: x,
    "copy_p": lambda x: x,
    "div": _divide,
    "eq": np.equal,
    "expand_dims": lambda x, *, dimensions: np.expand_dims(x, tuple(dimensions)),
    "floor": np.floor,
    "ge": np.greater_equal,
    "gt": np.greater,
    "iota": _iota,
    "le": np.less_equal,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "rem": _remainder,
    "reshape": lambda x, *, new_sizes: x.reshape(new_sizes),
    "rev": lambda x, *, dimensions: np.flip(x, tuple(dimensions)),
    "select_n": _select,
    "shift_left": np.left_shift,
    "shift_right_arithmetic": np.right_shift,
    "shift_right_logical": _shift_right_logical,
    "sign": np.sign,
    "slice": _slice,
    "squeeze": lambda x, *, dimensions: np.squeeze(x, tuple(dimensions)),
    "stop_gradient": lambda x: x,
    "sub": np.subtract,
    "transpose": lambda x, *, permutation: np.transpose(x, permutation),
    "xor": np.bitwise_xor,
}
"""Each takes arrays, and its equation's parameters by name."""

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "broadcast_in_dim": ("shape", "broadcast_dimensions"),
    "concatenate": ("dimension",),
    "convert_element_type": ("new_dtype",),
    "expand_dims": ("dimensions",),
    "iota": ("dtype", "shape", "dimension"),
    "reshape": ("new_sizes",),
    "rev": ("dimensions",),
    "slice": ("start_indices", "limit_indices", "strides"),
    "squeeze": ("dimensions",),
    "transpose": ("permutation",),
}
"""The parameters that count; other operations have none."""

INTEGERS_ONLY = frozenset({"div", "rem", "abs", "sign"})
"""What numpy computes as XLA does for integers, and maybe not for others."""


Described = Sequence[Any]
"""An operation: its name, operands and parameters."""

BOUNDED = "bounded"
_VIEWS = frozenset({"broadcast_in_dim", "expand_dims", "reshape", "squeeze"})


def bounded(x: np.ndarray, *, added: int, most: int) -> np.ndarray:
    """``clip(where(x < 0, x + added, x), 0, most)``."""
    if x.size and int(x.view(f"u{x.dtype.itemsize}").max()) <= most:
        return x
    return np.clip(np.where(x < 0, x + x.dtype.type(added), x), 0, most).astype(x.dtype)


def with_bounds_joined(
    operations: Sequence[Described], inputs: int, outputs: Sequence[Sequence[Any]]
) -> list[Described | None]:
    """The operations with `BOUNDED` in the place of those that it does, and None of what is unused.

    Args:
        operations: of an `IdsProgram`.
        inputs: how many values there are before the first operation's.
        outputs: the values that are wanted.
    """
    values = _Values(operations, inputs, outputs)
    for number in range(inputs, inputs + len(operations)):
        values.join(number)
    wanted = values.wanted(outputs)
    return [each if number in wanted else None for number, each in enumerate(values.made, inputs)]


class _Values:
    def __init__(
        self, operations: Sequence[Described], inputs: int, outputs: Sequence[Sequence[Any]]
    ) -> None:
        self.made = list(operations)
        self._inputs = inputs
        operands = [each for operation in operations for each in operation[1]]
        operands += [each for group in outputs for each in group]
        self._uses = Counter(each for each in operands if isinstance(each, int))

    def join(self, number: int) -> None:
        """If the value is clipped at zero and above, have it done in one operation."""
        most, within = self._with_constant(number, "min")
        zero, source = self._with_constant(within, "max")
        if most is None or zero is None or zero[0] != 0 or not zero[1].startswith("int"):
            return
        *views, origin = self._seen_through(source)
        added, start = self._counted_from_end(origin)
        if added is None or any(self._uses[each] != 1 for each in (within, *views, origin)):
            self._set(number, (BOUNDED, [source], {"added": 0, "most": most[0]}))
        else:
            self._set(origin, (BOUNDED, [start], {"added": added[0], "most": most[0]}))
            self._set(number, ("copy", [source], {}))

    def wanted(self, outputs: Sequence[Sequence[Any]]) -> set[int]:
        """All values that those depend on."""
        found: set[int] = set()
        left = [each for group in outputs for each in group]
        while left:
            number = left.pop()
            if isinstance(number, int) and number not in found:
                found.add(number)
                left += self._operation(number)[1]
        return found

    def _operation(self, number: Any) -> Described:
        own = isinstance(number, int) and number >= self._inputs
        return self.made[number - self._inputs] if own else ("", [], {})

    def _set(self, number: int, operation: Described) -> None:
        self.made[number - self._inputs] = operation

    def _with_constant(self, number: Any, name: str) -> tuple[Any, Any]:
        """The constant, an integer, and the value that an operation of that name takes."""
        operation = self._operation(number)
        if operation[0] != name or len(operation[1]) != 2:
            return None, None
        first, second = operation[1]
        for constant, value in ((first, second), (second, first)):
            is_integer = not isinstance(constant, int) and isinstance(constant[0], int)
            if is_integer and isinstance(value, int):
                return constant, value
        return None, None

    def _seen_through(self, number: Any) -> Iterator[int]:
        """A value, those that it is a view of, and at last the one that is none."""
        while self._operation(number)[0] in _VIEWS:
            yield number
            number = self._operation(number)[1][0]
        yield number

    def _counted_from_end(self, number: Any) -> tuple[Any, Any]:
        """What is added to a value where it is negative, and the value."""
        operation = self._operation(number)
        if operation[0] != "select_n" or len(operation[1]) != 3:
            return None, None
        which, start, moved = operation[1]
        below, compared = self._with_constant(which, "lt")
        added, source = self._with_constant(moved, "add")
        if below is None or added is None or below[0] != 0 or not compared == source == start:
            return None, None
        return added, start


ValueOf = Callable[[Input], Any]
"""Gives the value of a variable or a random generator's state that ids depend on."""

REMEDY_64_BITS = "use a strategy without parameter servers, whose steps have 32 bits"
"""What `require_fits` says of integers that are too large for steps and variables."""


@dataclass(frozen=True)
class IdsProgram:
    """Computes a step's ids, table by table.

    It is a list of operations for numpy or, if ids come out of others, an exported program.

    Attributes:
        tables: the tables' keys.
        counts: for each table how many ids there are: those of all its lookups, in their order.
        inputs: what they depend on: arguments, rarely also variables and states.
        operations: each ``[name, operands, parameters]``. Operands are numbers of values (the
            inputs, then the results of the operations) or constants ``[data, dtype]``.
        outputs: for each table the values that hold its ids.
        exported: the program that gives the tables' ids instead of operations, or None.
    """

    tables: tuple[str, ...]
    counts: tuple[int, ...]
    inputs: tuple[Input, ...]
    operations: tuple[Any, ...]
    outputs: tuple[tuple[Any, ...], ...]
    exported: bytes | None = None

    @functools.cached_property
    def _steps(self) -> list[tuple[Any, list[Any], dict[str, Any]] | None]:
        known = {**OPERATIONS, BOUNDED: bounded}
        joined = with_bounds_joined(self.operations, len(self.inputs), self.outputs)
        return [
            None if each is None else (known[each[0]], [_operand(v) for v in each[1]], each[2])
            for each in joined
        ]

    @functools.cached_property
    def _compiled(self) -> Callable[..., Any]:
        assert self.exported is not None
        return load_program(self.exported)

    def evaluate(self, values: Sequence[Any]) -> list[np.ndarray]:
        """The tables' ids from the values of the inputs."""
        if self.exported is not None:
            return [np.asarray(ids) for ids in self._compiled(*values)]
        known = list(values)
        with np.errstate(all="ignore"):
            for step in self._steps:
                known.append(None if step is None else _result(step, known))
        return [_joined([_read(known, _operand(each)) for each in group]) for group in self.outputs]

    def to_json(self) -> dict[str, Any]:
        """As objects that JSON has, but for `exported`."""
        return {
            "tables": list(self.tables),
            "counts": list(self.counts),
            "inputs": [each.to_json() for each in self.inputs],
            "operations": [list(each) for each in self.operations],
            "outputs": [list(each) for each in self.outputs],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any], exported: bytes | None) -> IdsProgram:
        """What `to_json` described."""
        return cls(
            tuple(value["tables"]),
            tuple(value["counts"]),
            tuple(Input.from_json(each) for each in value["inputs"]),
            tuple(tuple(each) for each in value["operations"]),
            tuple(tuple(each) for each in value["outputs"]),
            exported,
        )


def evaluate_ids(
    program: IdsProgram, arguments: Sequence[Any], value_of: ValueOf | None = None
) -> list[np.ndarray]:
    """The ids that a step looks up, in numpy wherever that can be.

    Args:
        program: of the step.
        arguments: the arrays of the step's arguments.
        value_of: gives the value of the variables and random states that ids depend on, if
            `program.inputs` has any.

    Returns:
        For each of `program.tables` its ids, int32 of shape (count,), each within the table.

    Raises:
        ValueError: if an argument is missing or has another shape, or `value_of` is needed.
    """
    return program.evaluate([_input(each, arguments, value_of) for each in program.inputs])


def prepared(array: Any, wanted: Input) -> np.ndarray:
    """An array as a program takes it: with 32 bits where JAX has no more.

    Raises:
        OverflowError: if an integer does not fit into the type that the step takes.
        ValueError: if it has another shape than the step was traced with.
    """
    made: np.ndarray = np.asarray(array)
    if made.shape != wanted.shape:
        raise ValueError(
            f"Array {wanted.index} of a step's arguments has the shape {made.shape}, and the step "
            f"was traced for {wanted.shape}. Trace it for this shape too."
        )
    if made.dtype == wanted.dtype:
        return made
    what = f"Array {wanted.index} of a step's arguments"
    require_fits(made, what, REMEDY_64_BITS, to=wanted.dtype)
    return made.astype(wanted.dtype)


def _input(wanted: Input, arguments: Sequence[Any], value_of: ValueOf | None) -> Any:
    if wanted.kind == "argument":
        assert wanted.index is not None
        if wanted.index >= len(arguments):
            raise ValueError(
                f"A step was given {len(arguments)} array(s), and uses number {wanted.index}."
            )
        return prepared(arguments[wanted.index], wanted)
    if value_of is None:
        raise ValueError(
            f"The rows that this step looks up depend on {wanted.kind} {wanted.key!r}: give its "
            "value by `value_of`."
        )
    return value_of(wanted)


def _result(step: tuple[Any, list[Any], dict[str, Any]], known: Sequence[Any]) -> Any:
    operation, operands, parameters = step
    return operation(*[_read(known, each) for each in operands], **parameters)


def _operand(described: Any) -> Any:
    if isinstance(described, int):
        return described
    data, dtype = described
    return np.asarray(data, dtype)


def _read(known: Sequence[Any], operand: Any) -> Any:
    return known[operand] if isinstance(operand, int) else operand


def _joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    if not parts:
        return np.zeros(0, np.int32)
    flat = [np.ravel(part) for part in parts]
    return flat[0] if len(flat) == 1 else np.concatenate(flat)


@dataclass(frozen=True)
class StepProgram:
    """A step on arrays alone: what it takes, what it gives, and compiled code between them.

    Attributes:
        inputs: the arrays that `main` takes, in order.
        outputs: the arrays that it gives, in order.
        ids: computes the ids of the rows among the inputs.
        applied: for each optimizer how often the step applies it, as ``optimizer.iterations``
            counts.
        main: the program's bytes; see `load`.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    ids: IdsProgram
    applied: tuple[int, ...]
    main: bytes

    def to_bytes(self) -> bytes:
        """Everything, to be sent."""
        ids = self.ids.exported
        header = {
            "inputs": [each.to_json() for each in self.inputs],
            "outputs": [each.to_json() for each in self.outputs],
            "ids": self.ids.to_json(),
            "applied": list(self.applied),
            "bytes": [len(self.main), None if ids is None else len(ids)],
        }
        text = json.dumps(header).encode()
        return pack_checked(len(text).to_bytes(8, "little") + text + self.main + (ids or b""))

    @classmethod
    def from_bytes(cls, data: bytes) -> StepProgram:
        """What `to_bytes` wrote.

        Raises:
            CorruptProgramError: if the bytes are damaged, or no step's.
        """
        payload = unpack_checked(data)
        try:
            length = int.from_bytes(payload[:8], "little")
            header = json.loads(payload[8 : 8 + length])
            size, ids_size = header["bytes"]
            start = 8 + length
            main, ids = payload[start : start + size], payload[start + size :]
            if len(main) != size or len(ids) != (ids_size or 0):
                raise ValueError("the lengths do not fit")
            return cls(
                tuple(Input.from_json(each) for each in header["inputs"]),
                tuple(Output.from_json(each) for each in header["outputs"]),
                IdsProgram.from_json(header["ids"], None if ids_size is None else ids),
                tuple(header["applied"]),
                main,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptProgramError(
                f"{len(payload)} bytes are a program, but not that of a step: {error!r}. Let all "
                "tasks of the cluster run the same version of drumline."
            ) from error


def load(program: StepProgram) -> Callable[[Sequence[Any]], list[Any]]:
    """The step, compiled when it is first called. Needs no Keras.

    Args:
        program: the step.

    Returns:
        A function from the arrays of `program.inputs` to those of `program.outputs`. It leaves
        its inputs as they are, so that a step can be run again.

    Raises:
        CorruptProgramError, ProgramError: as `load_program`.
    """
    compiled = load_program(program.main)

    def run(arrays: Sequence[Any]) -> list[Any]:
        return list(compiled(*arrays))

    return run


def worker_state(state: Any, worker: int) -> np.ndarray:
    """A worker's first state of a random generator, from the chief's.

    Workers draw independently of each other, and the same again in a job that starts again.

    Args:
        state: what the chief's `keras.random.SeedGenerator` holds, of shape (2,).
        worker: the worker's number.

    Returns:
        An array of the same shape and dtype.
    """
    array: np.ndarray = np.asarray(state)
    key = jax.random.wrap_key_data(jnp.asarray(array.astype(np.uint32)), impl="threefry2x32")
    folded = jax.random.key_data(jax.random.fold_in(key, worker))
    return np.asarray(folded).astype(array.dtype)
