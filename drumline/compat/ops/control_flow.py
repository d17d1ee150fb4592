"""``tf.cond``, ``tf.while_loop``, ``tf.map_fn`` and the like: control flow given as functions.

With concrete conditions they run Python's own control flow; with traced ones that of
`drumline.autograph`, whose variables and messages they share.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.ops import host
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import (
    CONTROL_FLOW,
    map_structure,
    unwrap,
    with_control_flow,
    wrap,
)
from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert, is_jax, is_traced, raw, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor
from drumline.data.functions.native.symbol import ValueNeedsPython
from drumline.training.jax_internals import is_staging
from drumline.training.keras_internals import get_stateless_scope
from drumline.training.state_scope import StateScope


def _line() -> int:
    """The line of the user's code that is running, for messages."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("drumline."):
        frame = frame.f_back
    return frame.f_lineno


def _scalar(value: Any) -> Tensor:
    """A condition as a boolean tensor."""
    array = convert(value)
    if array.dtype != bool:
        raise TypeError(f"pred must be a boolean, not a tensor of {dtypes.of_array(array.dtype)}")
    return Tensor(array)


def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """What one of two functions gives, as ``tf.cond``.

    Args:
        pred: a boolean scalar.
        true_fn: called if it is true.
        false_fn: called if it is false. Where the condition is traced, both are traced, and what
            they give must agree in structure, shapes and dtypes.
        name: accepted.

    Raises:
        TypeError: a function is missing, the condition is no boolean, or the results of a traced
            condition differ; the message has the line.

    Example:
        >>> int(cond(tensor(True), lambda: 1, lambda: 2))
        1
    """
    for label, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(function):
            raise TypeError(f"tf.cond(): '{label}' argument must be callable")
    assert true_fn is not None and false_fn is not None
    test = pred if isinstance(pred, bool) else _scalar(pred)
    branches = _of_tensors(true_fn), _of_tensors(false_fn)
    return CONTROL_FLOW.if_expression(test, *branches, line=_line())


def _of_tensors(function: Callable[[], Any]) -> Callable[[], Any]:
    """A branch that gives tensors: Python's numbers have dtypes, which must agree."""
    branch = with_control_flow(function)
    return lambda: _tensors(branch())


def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str | None = None,
) -> Any:
    """What the function of the first condition that is true gives, as ``tf.case``.

    Args:
        pred_fn_pairs: pairs of a boolean scalar and a function, in a list.
        default: called if no condition is true; without it, one of them must be.
        exclusive: refuse that more than one is true.
        strict: accepted; results have the structure that the functions give.
        name: accepted.

    Raises:
        InvalidArgumentError: no condition is true and there is no `default`, or several are and
            `exclusive` is set; in compiled functions, when the program runs.
        TypeError: the pairs are no list of pairs with functions.
    """
    if not isinstance(pred_fn_pairs, (list, tuple)):
        raise TypeError("'pred_fn_pairs' must be a list or tuple of pairs")
    pairs = list(pred_fn_pairs)
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"Each entry in 'pred_fn_pairs' must be a 2-tuple. Received {pair}.")
        if not callable(pair[1]):
            raise TypeError(f"fn for pred {pair[0]} must be callable.")
    if default is not None and not callable(default):
        raise TypeError("'default' must be callable.")
    if not pairs:
        if default is None:
            raise ValueError("tf.case takes at least one pair, or a default")
        return with_control_flow(default)()
    tests = [convert(_scalar(pred)) for pred, _ in pairs]
    together = (jnp if any(map(is_jax, tests)) else np).stack(tests)
    if exclusive:
        said = "More than one condition evaluated as True but 'exclusive=True'."
        host.assert_true(Tensor(together.sum() <= 1), [said, Tensor(together)])
    if default is None:
        said = "None of the conditions evaluated as True."
        host.assert_true(Tensor(together.any()), [said, Tensor(together)])
        (_, default), tests, pairs = pairs[-1], tests[:-1], pairs[:-1]
    result = default
    for test, (_, function) in reversed(list(zip(tests, pairs, strict=True))):
        result = _chosen(test, function, result)
    return result()


def _chosen(
    test: Any, function: Callable[[], Any], otherwise: Callable[[], Any]
) -> Callable[[], Any]:
    return lambda: cond(Tensor(test), function, otherwise)


def switch_case(
    branch_index: Any,
    branch_fns: Any,
    default: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """What the function of a number gives, as ``tf.switch_case``.

    Args:
        branch_index: an int32 scalar.
        branch_fns: functions, in a dict by number, as pairs, or in a list in the order of numbers.
        default: for other numbers; by default the function of the largest number.
        name: accepted.

    Raises:
        TypeError, ValueError: the functions, or the number, are none.
    """
    if isinstance(branch_fns, dict):
        functions = dict(branch_fns)
    elif isinstance(branch_fns, (list, tuple)) and branch_fns:
        paired = all(isinstance(each, tuple) for each in branch_fns)
        functions = dict(branch_fns) if paired else dict(enumerate(branch_fns))
    else:
        raise TypeError("'branch_fns' must be a dict, list, or tuple of functions")
    if not functions or not all(map(callable, functions.values())):
        raise TypeError("'branch_fns' must hold functions")
    if sorted(functions) != list(range(len(functions))):
        raise ValueError(
            f"branch indices (keys) must form contiguous range of [0 to {len(functions)}) but "
            f"found {sorted(functions)}"
        )
    index = convert(branch_index)
    if index.dtype.kind not in "iu":
        raise TypeError("'branch_index' must be an integer scalar.")
    last = functions[max(functions)] if default is None else default
    if not is_traced(index):
        return with_control_flow(functions.get(int(index), last))()

    def among(numbers: Sequence[int]) -> Any:
        if len(numbers) == 1:
            return cond(Tensor(index == numbers[0]), functions[numbers[0]], last)
        middle = len(numbers) // 2
        return cond(
            Tensor(index < numbers[middle]),
            lambda: among(numbers[:middle]),
            lambda: among(numbers[middle:]),
        )

    return among(sorted(functions))


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Any:
    """What the loop variables are once a condition is false, as ``tf.while_loop``.

    In compiled functions a loop whose condition is traced has a gradient only with
    `maximum_iterations`, and its variables keep shape and dtype.

    Args:
        cond: takes the loop variables, and gives a boolean scalar.
        body: takes them, and gives the next ones.
        loop_vars: tensors, nested tensors and `TensorArray`, in a list or tuple.
        shape_invariants: shapes with None for sizes that change between steps; a compiled function
            then runs as Python.
        parallel_iterations: accepted; XLA orders operations itself.
        back_prop: False takes no gradient through the loop.
        swap_memory: accepted.
        maximum_iterations: at most so many steps.
        name: accepted.

    Returns:
        A list or tuple like `loop_vars`; the variable itself if there is one only.

    Raises:
        TypeError: `cond` or `body` cannot be called; a traced loop changes a variable's shape or
            dtype, with the line.
        ValueError: `body` gives another number of variables, or there are none.

    Example:
        >>> i, = while_loop(lambda i: i < 10, lambda i: (i + 3,), [0])
        >>> int(i)
        12
    """
    if not callable(cond):
        raise TypeError("'cond' must be callable.")
    if not callable(body):
        raise TypeError("'body' must be callable.")
    if shape_invariants is not None and is_staging():
        found: list[Any] = []
        map_structure(found.append, shape_invariants)
        if any(TensorShape(each).rank is None or None in TensorShape(each) for each in found):
            raise ValueNeedsPython("shape_invariants let tf.while_loop change shapes")
    listed = isinstance(loop_vars, (list, tuple)) and not hasattr(loop_vars, "_fields")
    given = list(loop_vars) if listed else [loop_vars]
    if not given:
        raise ValueError("'loop_vars' must be provided.")
    test, step = with_control_flow(cond), with_control_flow(body)

    def steps(*values: Any) -> list[Any]:
        after = step(*values)
        single = len(given) == 1 and not (isinstance(after, (list, tuple)) and listed)
        new = [after] if single or not isinstance(after, (list, tuple)) else list(after)
        if len(new) != len(given):
            raise ValueError(
                "The number of inputs and outputs of a while loop must match: the body of the "
                f"loop in line {line} takes {len(given)} and gives {len(new)}."
            )
        return [_tensors(each) for each in new]

    def going(*values: Any) -> Any:
        on = test(*values)
        return on if isinstance(on, bool) else _scalar(on)

    line = _line()
    limit = None if maximum_iterations is None else int(static(maximum_iterations))
    values = [_tensors(each) for each in given]
    last = CONTROL_FLOW.repeat(going, steps, values, limit, line)
    if not back_prop:
        last = [_stopped(each) for each in last]
    if not listed:
        return last[0]
    return type(loop_vars)(last)


def _tensors(value: Any) -> Any:
    """A loop variable with tensors for Python's numbers and arrays."""

    def of_leaf(leaf: Any) -> Any:
        numbers = (bool, int, float, complex, str, bytes, np.ndarray, np.generic)
        is_value = isinstance(leaf, (*numbers, jax.Array))
        is_variable = hasattr(leaf, "_is_keras_variable")
        return Tensor(convert(leaf)) if is_value or is_variable else leaf

    return map_structure(of_leaf, value)


def _stopped(value: Any) -> Any:
    return jax.tree.map(jax.lax.stop_gradient, value)


# Loops over the first axis of tensors.


def _length(elems: Any) -> tuple[Any, int]:
    """Nested tensors, and the size of their first axis."""
    given = map_structure(lambda leaf: Tensor(convert(leaf)), elems)
    found: list[Any] = []
    map_structure(found.append, given)
    if not found:
        raise ValueError("elems must be a tensor, or nested tensors; there are none")
    if any(not leaf._value.shape for leaf in found):
        raise ValueError("elems must be at least 1-dimensional, not scalars")
    lengths = {int(leaf._value.shape[0]) for leaf in found}
    if len(lengths) > 1:
        raise InvalidArgumentError(
            None, None, f"elems have different first dimensions: {sorted(lengths)}"
        )
    return given, lengths.pop()


def _item(elems: Any, index: Any) -> Any:
    return map_structure(lambda leaf: leaf[index], elems)


def _leaves(value: Any) -> list[Any]:
    found: list[Any] = []
    map_structure(found.append, value)
    return found


def _scanned(step: Callable[[Any, Any], Any], start: Any, elems: Any, reverse: bool) -> Any:
    """`jax.lax.scan` over nested tensors, whose steps assign no variables.

    Raises:
        NotImplementedError: a step assigns a variable.
    """
    scope = get_stateless_scope()
    before = dict(scope.state_mapping) if isinstance(scope, StateScope) else {}

    def of_arrays(carry: Any, item: Any) -> Any:
        state, out = step(wrap(carry), wrap(item))
        if isinstance(scope, StateScope) and any(
            before.get(key) is not value for key, value in scope.state_mapping.items()
        ):
            scope.state_mapping = before
            raise NotImplementedError(
                "A function in tf.map_fn, tf.scan or tf.foldl assigns a variable within a compiled "
                "function. Write the loop as `for i in tf.range(n):`, which carries variables."
            )
        return unwrap(state), unwrap(out)

    return wrap(jax.lax.scan(of_arrays, unwrap(start), unwrap(elems), reverse=reverse))


def _is_staged(*trees: Any) -> bool:
    return any(is_traced(raw(leaf)) for tree in trees for leaf in _leaves(tree))


def map_fn(
    fn: Callable[..., Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """What a function gives for each part of tensors along their first axis, as ``tf.map_fn``.

    Args:
        fn: takes one part, in the structure of `elems`.
        elems: nested tensors with first axes of one size.
        dtype: the former name of `fn_output_signature`.
        parallel_iterations: accepted; XLA orders operations itself.
        back_prop: False takes no gradient through it.
        swap_memory: accepted.
        infer_shape: accepted; the results have one shape.
        name: accepted.
        fn_output_signature: nested dtypes or specs of the results; by default those of `elems`. A
            ``tf.RaggedTensorSpec`` joins rows of differing lengths.

    Raises:
        InvalidArgumentError: a result has another dtype than it should have, or results differ in
            shape.
        TypeError: a result has another structure.

    Example:
        >>> map_fn(lambda x: x * x, tensor([1, 2, 3])).numpy().tolist()
        [1, 4, 9]
    """
    signature = dtype if fn_output_signature is None else fn_output_signature
    if _has_rows(elems) or _has_rows(signature):
        from drumline.compat.composite.ragged_rows import mapped_rows

        found = mapped_rows(with_control_flow(fn), elems, signature)
        return found if back_prop else _stopped(found)
    parts, length = _length(elems)
    if signature is None:
        signature = map_structure(lambda leaf: leaf.dtype, parts)
    wanted = map_structure(_dtype_of, signature)
    function = with_control_flow(fn)

    def checked(item: Any) -> Any:
        result = map_structure(lambda leaf: Tensor(convert(leaf)), _like(function(item), wanted))
        pairs = iter(_leaves(wanted))
        return map_structure(lambda leaf: _of_dtype(leaf, next(pairs)), result)

    if _is_staged(parts):
        result = _scanned(lambda _, item: ((), checked(item)), (), parts, False)[1]
    elif length:
        rows = [checked(_item(parts, i)) for i in range(length)]
        columns = zip(*map(_leaves, rows), strict=True)
        result = map_structure(lambda _: _stacked(next(columns)), rows[0])
    else:
        shapes = iter(_leaves(_shapes_of_empty(checked, parts, signature)))
        result = map_structure(
            lambda kind: Tensor(np.zeros((0, *next(shapes)), kind.dtype)), wanted
        )
    return result if back_prop else _stopped(result)


def _has_rows(structure: Any) -> bool:
    """Whether a leaf is a ragged tensor, or the spec of one."""
    return any(hasattr(leaf, "ragged_rank") for leaf in _leaves(structure))


def _dtype_of(spec: Any) -> Any:
    return dtypes.as_dtype(getattr(spec, "dtype", spec))


def _like(result: Any, wanted: Any) -> Any:
    """A result in the structure of the signature: lists and tuples are the same there."""
    if isinstance(wanted, (list, tuple)):
        if not isinstance(result, (list, tuple)) or len(result) != len(wanted):
            raise TypeError(
                "fn_output_signature and the result of fn must have the same structure: "
                f"{wanted} and {type(result).__name__}"
            )
        parts = [_like(a, b) for a, b in zip(result, wanted, strict=True)]
        return type(wanted)(parts) if not hasattr(wanted, "_fields") else type(wanted)(*parts)
    if isinstance(wanted, dict):
        if not isinstance(result, dict) or result.keys() != wanted.keys():
            raise TypeError(
                f"fn_output_signature has the keys {sorted(wanted)}; the result of fn has another "
                "structure"
            )
        return {key: _like(result[key], wanted[key]) for key in wanted}
    if isinstance(result, (dict, tuple)) or (
        isinstance(result, list) and any(isinstance(each, Tensor) for each in result)
    ):
        raise TypeError(
            "The two structures don't have the same nested structure: fn gives "
            f"{type(result).__name__}, but fn_output_signature is one dtype; give nested dtypes"
        )
    return result


def _of_dtype(leaf: Tensor, wanted: Any) -> Tensor:
    if leaf.dtype == wanted:
        return leaf
    array = leaf._value
    if is_traced(array) and array.dtype.kind == wanted.dtype.kind:
        return Tensor(array.astype(wanted.dtype))
    raise InvalidArgumentError(
        None,
        None,
        f"TensorArray dtype is {wanted.name} but Op is trying to write dtype {leaf.dtype.name}; "
        "give fn_output_signature the dtypes of the results",
    )


def _stacked(column: Sequence[Tensor]) -> Tensor:
    arrays = [leaf._value for leaf in column]
    if len({tuple(array.shape) for array in arrays}) > 1:
        shapes = sorted({tuple(array.shape) for array in arrays})
        raise InvalidArgumentError(
            None, None, f"TensorArray has inconsistent shapes: the results have {shapes}"
        )
    return Tensor((jnp if any(map(is_jax, arrays)) else np).stack(arrays))


def _shapes_of_empty(function: Callable[[Any], Any], parts: Any, signature: Any) -> Any:
    """The shapes of what the function would give, where tracing it or the signature tells."""
    flat = [np.zeros(leaf._value.shape[1:], leaf._value.dtype) for leaf in _leaves(parts)]
    if all(array.dtype != object for array in flat):
        rows = iter(flat)
        like = map_structure(lambda _: next(rows), parts)
        with jax.enable_x64(True):
            try:
                found = jax.eval_shape(lambda item: unwrap(function(wrap(item))), like)
            except (TypeError, NotImplementedError):
                found = None
        if found is not None:
            return map_structure(lambda leaf: _Shape(leaf.shape), found)
    return map_structure(lambda spec: _Shape(getattr(spec, "shape", ())), signature)


class _Shape:
    """A shape that is a leaf of nested ones."""

    def __init__(self, sizes: Any) -> None:
        self._sizes = [size or 0 for size in TensorShape(sizes).as_list()]

    def __iter__(self) -> Any:
        return iter(self._sizes)


def scan(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """All the states of a function of state and part, stacked, as ``tf.scan``.

    Args:
        fn: takes the state and a part of `elems`, and gives the next state.
        elems: nested tensors with first axes of one size.
        initializer: the first state; by default the first part, which then is no step.
        parallel_iterations: accepted; XLA orders operations itself.
        back_prop: False takes no gradient through it.
        swap_memory: accepted.
        infer_shape: accepted.
        reverse: go from the last part to the first; the states stay in the order of the parts.
        name: accepted.

    Raises:
        ValueError: there are no elements and no `initializer`.

    Example:
        >>> scan(lambda total, x: total + x, tensor([1, 2, 3])).numpy().tolist()
        [1, 3, 6]
    """
    states = _states(fn, elems, initializer, reverse, True)
    return states if back_prop else _stopped(states)


def foldl(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """The last state of a function of state and part, from first to last, as ``tf.foldl``.

    The arguments are those of `scan`.
    """
    last = _states(fn, elems, initializer, False, False)
    return last if back_prop else _stopped(last)


def foldr(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """The last state of a function of state and part, from last to first, as ``tf.foldr``.

    The arguments are those of `scan`.
    """
    last = _states(fn, elems, initializer, True, False)
    return last if back_prop else _stopped(last)


def _states(fn: Any, elems: Any, initializer: Any, reverse: bool, all_of_them: bool) -> Any:
    if not callable(fn):
        raise TypeError(f"{fn!r:.60} is not callable.")
    parts, length = _length(elems)
    order = list(range(length))[:: -1 if reverse else 1]
    first = None
    if initializer is None:
        if not length:
            raise ValueError("Must provide an initializer where elems has no elements")
        first = state = _item(parts, order.pop(0))
        rest = map_structure(lambda leaf: leaf[:-1] if reverse else leaf[1:], parts)
    else:
        state, rest = map_structure(lambda leaf: Tensor(convert(leaf)), initializer), parts
    function = with_control_flow(fn)

    def step(state: Any, item: Any) -> Any:
        new = map_structure(lambda leaf: Tensor(convert(leaf)), _like(function(state, item), state))
        kinds = iter(_leaves(state))
        return map_structure(lambda leaf: _of_dtype(leaf, next(kinds).dtype), new)

    if _is_staged(parts, state) and order:

        def scanned(carry: Any, item: Any) -> Any:
            new = step(carry, item)
            return new, new if all_of_them else ()

        last, states = _scanned(scanned, state, rest, reverse)
        if not all_of_them:
            return last
        if first is None:
            return states
        start = iter(_leaves(first))

        def joined(leaf: Any) -> Tensor:
            ends = [leaf._value, jnp.asarray(raw(next(start)))[None]]
            return Tensor(jnp.concatenate(ends if reverse else ends[::-1]))

        return map_structure(joined, states)
    seen = [] if first is None else [first]
    for number in order:
        state = step(state, _item(parts, number))
        seen.append(state)
    if not all_of_them:
        return state
    if not seen:
        return map_structure(
            lambda leaf: Tensor(np.zeros((0, *leaf._value.shape), leaf._value.dtype)), state
        )
    columns = zip(*map(_leaves, seen[::-1] if reverse else seen), strict=True)
    return map_structure(lambda _: _stacked(next(columns)), state)


def vectorized_map(
    fn: Callable[..., Any],
    elems: Any,
    fallback_to_while_loop: bool = True,
    warn: bool = True,
) -> Any:
    """`map_fn` of all parts at once, by `jax.vmap`, as ``tf.vectorized_map``.

    Args:
        fn: takes one part, in the structure of `elems`.
        elems: nested tensors with first axes of one size.
        fallback_to_while_loop: apply the function to part after part where it cannot be
            vectorized, as with strings.
        warn: warn if this happens.

    Raises:
        ValueError: the function cannot be vectorized, and `fallback_to_while_loop` is False; or
            there are no elements.

    Example:
        >>> vectorized_map(lambda x: x * x, tensor([1.0, 2.0])).numpy().tolist()
        [1.0, 4.0]
    """
    parts, length = _length(elems)
    if not length:
        raise ValueError("vectorized_map takes elements; elems has none")
    function = with_control_flow(fn)
    flat = [leaf._value for leaf in _leaves(parts)]

    def of_arrays(*arrays: Any) -> Any:
        rows = iter(arrays)
        item = map_structure(lambda _: Tensor(next(rows)), parts)
        return map_structure(convert, unwrap(function(item)))

    try:
        if any(array.dtype == object for array in flat):
            raise ValueNeedsPython("its elements are strings")
        return wrap(compute(jax.vmap(of_arrays), *flat))
    except (ValueNeedsPython, NotImplementedError, jax.errors.JAXTypeError) as error:
        if not fallback_to_while_loop:
            raise ValueError(f"tf.vectorized_map cannot vectorize the function: {error}") from error
        if warn:
            warnings.warn(
                f"tf.vectorized_map applies the function to one element at a time: {error}",
                stacklevel=2,
            )
    rows = [
        map_structure(lambda leaf: Tensor(convert(leaf)), function(_item(parts, i)))
        for i in range(length)
    ]
    columns = zip(*map(_leaves, rows), strict=True)
    return map_structure(lambda _: _stacked(next(columns)), rows[0])
