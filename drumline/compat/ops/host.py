"""Assertions: ``tf.Assert`` and ``tf.debugging``, which raise also in compiled functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.values import dtypes
from drumline.compat.values.convert import convert, is_traced, raw, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.shape import TensorShape
from drumline.compat.values.tensor import Tensor
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython
from drumline.training.jax_internals import is_staging


class Checks:
    """The assertions of a compiled function, which raises their errors after it ran.

    Attributes:
        used: whether the function has any; then its caller waits for its callbacks.
    """

    def __init__(self) -> None:
        self.used = False
        self._failed: list[Exception] = []

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Raise, at the end of the block, the first error of the function called in it."""
        token = _CHECKS.set(self) if _CHECKS.get() is None else None
        try:
            yield
        finally:
            if token is not None:
                _CHECKS.reset(token)
        if token is not None and self.used and not is_staging():
            jax.effects_barrier()
            if self._failed:
                error = self._failed[0]
                self._failed = []
                raise error

    def fail(self, error: Exception) -> None:
        """Have an error raised once the function has run."""
        self._failed.append(error)


_CHECKS: ContextVar[Checks | None] = ContextVar("drumline_compat_checks", default=None)


def when_it_runs(condition: Any, error: Callable[..., Exception], *arrays: Any) -> None:
    """Raise an error if a condition is false: at once, or when the compiled program runs.

    Args:
        condition: a raw array of booleans.
        error: makes the error of the arrays' values.
        arrays: raw ones.
    """
    if not is_traced(condition):
        if not np.all(np.asarray(condition)):
            raise error(*arrays)
        return
    checks = _CHECKS.get()
    if checks is not None:
        checks.used = True

    def check(passed: Any, *values: Any) -> None:
        if np.all(passed):
            return
        failed = error(*values)
        if checks is None:
            raise failed
        checks.fail(failed)

    given = [jnp.asarray(each) if is_traced(each) else each for each in arrays]
    places = [place for place, each in enumerate(given) if is_traced(each)]

    def with_constants(passed: Any, *values: Any) -> None:
        full = list(given)
        for place, value in zip(places, values, strict=True):
            full[place] = np.asarray(value)
        check(np.asarray(passed), *full)

    jax.debug.callback(with_constants, condition, *(given[place] for place in places))


def assert_true(
    condition: Any, data: Any, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise an error unless a condition is true, as ``tf.Assert``; also in compiled functions.

    A compiled function raises it after it ran, so variables keep what it assigned. In a step that
    runs outside a ``tf.function`` JAX reports the error of the callback.

    Args:
        condition: a boolean tensor; all of it must be true.
        data: tensors and text for the message.
        summarize: how many elements of each are shown; -1 for all.
        name: accepted.

    Raises:
        InvalidArgumentError: it is false.
    """
    test = raw(condition)
    shown = 3 if summarize is None else summarize
    if isinstance(test, Symbol):
        raise ValueNeedsPython("the function asserts something about strings")

    def error(*values: Any) -> Exception:
        parts = "\n".join(_formatted(np.asarray(each), shown, False) for each in values)
        return InvalidArgumentError(
            None,
            None,
            f"Expected 'tf.Tensor(False, shape=(), dtype=bool)' to be true. "
            f"Summarized data: {parts}",
        )

    when_it_runs(test if is_traced(test) else convert(condition), error, *map(convert, data))


def _formatted(array: Any, summarize: int, quoted: bool = True) -> str:
    """The text of an array as TensorFlow prints it."""
    if array.ndim == 0:
        return _element(array[()], quoted)
    size = array.shape[0]
    if summarize < 0 or size <= 2 * summarize:
        parts = [_formatted(row, summarize, quoted) for row in array]
    else:
        ends = [*array[:summarize]], [*array[size - summarize :]]
        first, last = ([_formatted(np.asarray(row), summarize, quoted) for row in e] for e in ends)
        parts = [*first, "...", *last]
    if array.ndim == 1:
        return f"[{' '.join(parts)}]"
    between = "\n" * (array.ndim - 1)
    return "[" + (between + " ").join(part.replace("\n", "\n ") for part in parts) + "]"


def _element(value: Any, quoted: bool) -> str:
    if isinstance(value, (bytes, str)):
        text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
        return f'"{text}"' if quoted else text
    kind = np.asarray(value).dtype
    if kind.kind == "b":
        return str(int(value))
    if kind.kind == "c":
        return f"({_element(value.real, quoted)},{_element(value.imag, quoted)})"
    if kind.kind in "iu":
        return str(int(value))
    digits = (15, 17) if kind.itemsize == 8 else (6, 9)
    exact = np.float64 if kind.itemsize == 8 else kind.type
    number = float(value)
    short = f"{number:.{digits[0]}g}"
    same = exact(short) == value or number != number
    return short if same else f"{number:.{digits[1]}g}"


# tf.debugging: assertions about values, which are checked when the program runs, and about shapes
# and dtypes, which are known before.


def _said(message: Any) -> str:
    return f"{message}\n" if message else ""


def _comparison(symbol: str, compare: Callable[[Any, Any], Any]) -> Callable[..., None]:
    def check(x: Any, y: Any, message: Any = None, summarize: Any = None, name: Any = None) -> None:
        from drumline.compat.values.convert import same_dtype

        a, b = same_dtype(x, y, "assertion")
        if isinstance(a, Symbol) or isinstance(b, Symbol):
            raise ValueNeedsPython("the function asserts something about strings")
        try:
            passed = compare(a, b)
        except (ValueError, TypeError) as failure:
            raise InvalidArgumentError(None, None, f"{_said(message)}{failure}") from None
        count = 3 if summarize is None else int(summarize)

        def error(first: Any, second: Any) -> Exception:
            first, second = np.asarray(first), np.asarray(second)
            lines = [f"{_said(message)}Condition x {symbol} y did not hold."]
            differing = np.argwhere(~np.asarray(compare(first, second)))
            if symbol == "==" and first.shape == second.shape and first.ndim:
                lines.append(f"Indices of first {min(count, len(differing))} different values:")
                lines.append(str(differing[:count]))
                for label, values in (("x", first), ("y", second)):
                    at = values[tuple(differing[:count].T)]
                    lines.append(f"Corresponding {label} values:\n{at}")
            for label, values in (("x", first), ("y", second)):
                flat = np.ravel(values)[:count]
                lines.append(f"First {len(flat)} elements of {label}:\n{flat}")
            return InvalidArgumentError(None, None, "\n".join(lines))

        when_it_runs(passed, error, a, b)

    return check


def _named(name: str, function: Callable[..., None], text: str) -> Callable[..., None]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Raise `InvalidArgumentError` unless {text}, as ``tf.debugging.{name}``.\n\n"
        "    In compiled functions it is raised after the function ran."
    )
    return function


assert_equal = _named(
    "assert_equal", _comparison("==", lambda a, b: a == b), "``x == y`` for all elements"
)


def assert_none_equal(
    x: Any, y: Any, summarize: Any = None, message: Any = None, name: Any = None
) -> None:
    """Raise `InvalidArgumentError` unless ``x != y`` for all elements.

    In compiled functions it is raised after the function ran.
    """
    _none_equal(x, y, message, summarize, name)


_none_equal = _comparison("!=", lambda a, b: a != b)
assert_less = _named(
    "assert_less", _comparison("<", lambda a, b: a < b), "``x < y`` for all elements"
)
assert_less_equal = _named(
    "assert_less_equal", _comparison("<=", lambda a, b: a <= b), "``x <= y`` for all elements"
)
assert_greater = _named(
    "assert_greater", _comparison(">", lambda a, b: a > b), "``x > y`` for all elements"
)
assert_greater_equal = _named(
    "assert_greater_equal", _comparison(">=", lambda a, b: a >= b), "``x >= y`` for all elements"
)


def _about(symbol: str, test: Callable[[Any], Any]) -> Callable[..., None]:
    def check(x: Any, message: Any = None, summarize: Any = None, name: Any = None) -> None:
        def error(value: Any) -> Exception:
            shown = _formatted(np.asarray(value), 3 if summarize is None else int(summarize))
            return InvalidArgumentError(
                None,
                None,
                f"{_said(message)}Condition x {symbol} did not hold element-wise:\nx "
                f"(shape={np.shape(value)}) = {shown}",
            )

        value = convert(x)
        when_it_runs(test(value), error, value)

    return check


assert_positive = _named("assert_positive", _about("> 0", lambda x: x > 0), "``x > 0``")
assert_negative = _named("assert_negative", _about("< 0", lambda x: x < 0), "``x < 0``")
assert_non_negative = _named("assert_non_negative", _about(">= 0", lambda x: x >= 0), "``x >= 0``")
assert_non_positive = _named("assert_non_positive", _about("<= 0", lambda x: x <= 0), "``x <= 0``")


def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    message: Any = None,
    summarize: Any = None,
    name: Any = None,
) -> None:
    """Raise unless ``|x - y| <= atol + rtol * |y|``, as ``tf.debugging.assert_near``.

    Args:
        x: floating numbers.
        y: the same.
        rtol: by default ten times the smallest difference from one that their dtype has.
        atol: the same.
        message: comes first in the error's.
        summarize: accepted.
        name: accepted.

    Raises:
        InvalidArgumentError: they differ by more.
    """
    from drumline.compat.values.convert import same_dtype

    a, b = same_dtype(x, y, "assert_near")
    smallest = 10 * float(jnp.finfo(a.dtype).eps)
    relative = smallest if rtol is None else raw(rtol)
    absolute = smallest if atol is None else raw(atol)

    def error(first: Any, second: Any) -> Exception:
        return InvalidArgumentError(
            None,
            None,
            f"{_said(message)}x and y not equal to tolerance rtol = {relative}, atol = {absolute}\n"
            f"x = {first}\ny = {second}",
        )

    when_it_runs(abs(a - b) <= absolute + relative * abs(b), error, a, b)


def check_numerics(tensor: Any, message: str, name: Any = None) -> Tensor:
    """The tensor; raise if it has NaN or infinity, as ``tf.debugging.check_numerics``.

    Raises:
        InvalidArgumentError: it has; in compiled functions after the function ran.
    """
    value = convert(tensor)
    finite = (jnp if is_traced(value) else np).isfinite(value)

    def error(given: Any) -> Exception:
        flat = np.asarray(given)
        kinds = [("NaN", np.isnan(flat)), ("Inf", np.isinf(flat))]
        found = " and ".join(kind for kind, where in kinds if where.any())
        return InvalidArgumentError(None, None, f"{message} : Tensor had {found} values")

    when_it_runs(finite, error, value)
    return Tensor(value)


def assert_all_finite(x: Any, message: str, name: Any = None) -> Tensor:
    """`check_numerics`, as ``tf.debugging.assert_all_finite``."""
    return check_numerics(x, message)


def _shape(x: Any) -> TensorShape:
    return Tensor(convert(x)).shape


def assert_rank(x: Any, rank: Any, message: Any = None, name: Any = None) -> None:
    """Raise ``ValueError`` unless a tensor has so many dimensions."""
    wanted, shape = int(static(rank)), _shape(x)
    if shape.rank is not None and shape.rank != wanted:
        raise ValueError(
            f"{message or ''}Tensor must have rank {wanted}.  Received rank {shape.rank}, shape "
            f"{shape}"
        )


def assert_rank_at_least(x: Any, rank: Any, message: Any = None, name: Any = None) -> None:
    """Raise ``ValueError`` if a tensor has fewer dimensions."""
    wanted, shape = int(static(rank)), _shape(x)
    if shape.rank is not None and shape.rank < wanted:
        raise ValueError(
            f"{message or ''}Tensor must have rank at least {wanted}.  Received rank "
            f"{shape.rank}, shape {shape}"
        )


def assert_rank_in(x: Any, ranks: Any, message: Any = None, name: Any = None) -> None:
    """Raise ``ValueError`` unless the number of dimensions is one of some."""
    wanted, shape = tuple(int(static(each)) for each in ranks), _shape(x)
    if shape.rank is not None and shape.rank not in wanted:
        raise ValueError(
            f"{message or ''}Tensor must have rank in {wanted}.  Received rank {shape.rank}, shape "
            f"{shape}"
        )


def assert_scalar(tensor: Any, message: Any = None, name: Any = None) -> Any:
    """The tensor; raise ``ValueError`` unless it has no dimensions."""
    if _shape(tensor).rank not in (0, None):
        raise ValueError(f"{message or ''}Expected scalar shape, saw shape: {_shape(tensor)}.")
    return tensor


def assert_shapes(
    shapes: Any, data: Any = None, summarize: Any = None, message: Any = None, name: Any = None
) -> None:
    """Raise ``ValueError`` unless tensors have shapes, as ``tf.debugging.assert_shapes``.

    Args:
        shapes: pairs of a tensor and its shape (or a dict of them): numbers, None or ``"..."`` for
            any size, and names, which stand for one size wherever they are.
        data: accepted: the message shows the shapes.
        summarize: accepted.
        message: comes first in the error's.
        name: accepted.

    Raises:
        ValueError: a tensor has another shape.
    """
    sizes: dict[str, tuple[int, Any]] = {}
    for tensor, wanted in list(shapes.items() if isinstance(shapes, dict) else shapes):
        found = _shape(tensor)
        if found.rank is None:
            continue
        given = found.as_list()
        symbols = list(wanted) if not isinstance(wanted, (int, str)) else [wanted]
        if symbols in ([], ["..."]) and found.rank == 0:
            continue
        if symbols and symbols[0] == "...":
            symbols = [None] * (found.rank - len(symbols) + 1) + symbols[1:]
        elif symbols and symbols[-1] == "...":
            symbols = symbols[:-1] + [None] * (found.rank - len(symbols) + 1)
        if len(symbols) != found.rank:
            raise ValueError(
                f"{_said(message)}Specified explicitly.  Tensor shape={found} must have rank "
                f"{len(symbols)}.  Received rank {found.rank}"
            )
        for place, (symbol, size) in enumerate(zip(symbols, given, strict=True)):
            if symbol in (None, ".") or size is None:
                continue
            if isinstance(symbol, str) and not symbol.isdigit():
                known, where = sizes.setdefault(symbol, (size, found))
                if known == size:
                    continue
                raise ValueError(
                    f"{_said(message)}Specified by tensor of shape {where} dimension.  Tensor "
                    f"shape={found} dimension {place} must have size {known}.  Received size {size}"
                )
            if int(symbol) != size:
                raise ValueError(
                    f"{_said(message)}Specified explicitly.  Tensor shape={found} dimension "
                    f"{place} must have size {symbol}.  Received size {size}"
                )


def assert_type(tensor: Any, tf_type: Any, message: Any = None, name: Any = None) -> None:
    """Raise ``TypeError`` unless a tensor has a dtype."""
    wanted, found = dtypes.as_dtype(tf_type), Tensor(convert(tensor)).dtype
    if found != wanted:
        raise TypeError(f"{message or ''}tensor must be of type {wanted!r}; got {found!r}")


def assert_integer(x: Any, message: Any = None, name: Any = None) -> None:
    """Raise ``TypeError`` unless a tensor has an integer dtype."""
    found = Tensor(convert(x)).dtype
    if found.dtype.kind not in "iu":
        raise TypeError(
            f'{_said(message)}Expected "x" to be integer type.  Found: tensor of dtype {found!r}'
        )


def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> Any:
    """The dtype of tensors; raise ``ValueError`` unless it is one and floating."""
    found = [Tensor(convert(each)).dtype for each in tensors or () if each is not None]
    wanted = dtypes.as_dtype(dtype) if dtype is not None else (found or [dtypes.float32])[0]
    for each in found:
        if each != wanted:
            raise ValueError(f"Expected {wanted!r}, got {each!r}; the dtypes must be the same.")
    if not wanted.is_floating:
        raise ValueError(f"Expected floating point type, got {wanted!r}.")
    return wanted


def assert_proper_iterable(values: Any) -> None:
    """Raise ``TypeError`` for what is one value, or no iterable."""
    one = isinstance(values, (Tensor, np.ndarray, bytes, str)) or not hasattr(values, "__iter__")
    if one:
        raise TypeError(f"Expected argument 'values' to be iterable. Found: {type(values)}")


def is_numeric_tensor(tensor: Any) -> bool:
    """Whether a value is a tensor of numbers."""
    return isinstance(tensor, Tensor) and Tensor(raw(tensor)).dtype.dtype.kind in "iufcV"


@contextlib.contextmanager
def control_dependencies(control_inputs: Any) -> Iterator[None]:
    """A block that runs after what is passed, as all that is written below it does.

    Args:
        control_inputs: tensors, and what assignments return; also functions, which are called.
    """
    for each in control_inputs or ():
        if callable(each) and not hasattr(each, "dtype"):
            each()
    yield


def tuple_(tensors: Any, control_inputs: Any = None, name: Any = None) -> list[Any]:
    """The tensors in a list; all of them have run."""
    return [None if each is None else Tensor(convert(each)) for each in tensors]


def identity_n(input: Any, name: Any = None) -> list[Any]:
    """Tensors with the same values, in a list."""
    return [Tensor(convert(each)) for each in input]
