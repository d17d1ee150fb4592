"""What runs Python in between: ``tf.print``, ``tf.py_function``, ``tf.numpy_function``."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from drumline.compat.values import dtypes
from drumline.compat.values.boundary import map_structure, unwrap
from drumline.compat.values.convert import convert, is_traced, raw
from drumline.compat.values.tensor import Tensor
from drumline.data.elements.ragged import RaggedArray
from drumline.data.functions.native.python_calls import call_in_python
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython
from drumline.data.functions.trace import in_dataset_function
from drumline.training.jax_internals import is_staging

_logger = logging.getLogger("tensorflow")
_STREAMS: dict[Any, Callable[[str], Any]] = {
    "stdout": lambda text: sys.stdout.write(text),
    "stderr": lambda text: sys.stderr.write(text),
    "log(info)": lambda text: _logger.info(text.rstrip("\n")),
    "log(warning)": lambda text: _logger.warning(text.rstrip("\n")),
    "log(error)": lambda text: _logger.error(text.rstrip("\n")),
}


def print_values(
    *inputs: Any,
    output_stream: Any = None,
    summarize: int = 3,
    sep: str = " ",
    end: str = "\n",
    name: str | None = None,
) -> None:
    """Print values whenever the function runs, compiled or not, as ``tf.print``.

    Args:
        inputs: nested values; of tensors the first and last elements of each dimension are shown.
        output_stream: ``sys.stderr`` (the default), ``sys.stdout``, a logging level's function, ``"file://..."``,
            or a text file.
        summarize: how many elements are shown at each end; -1 for all.
        sep: between values.
        end: after the last one.

    Raises:
        ValueError: there is no such stream.
    """
    write = _writer(output_stream)
    leaves: list[Any] = []

    def leaf(value: Any) -> Any:
        given = raw(unwrap(value))
        if isinstance(given, Symbol):
            raise ValueNeedsPython("the function prints a string")
        leaves.append(given)
        return _Place(len(leaves) - 1)

    places = [map_structure(leaf, each) for each in inputs]
    traced = [i for i, value in enumerate(leaves) if is_traced(value)]

    def show(*arrays: Any) -> None:
        values = list(leaves)
        for i, array in zip(traced, arrays, strict=True):
            values[i] = np.asarray(array)
        write(sep.join(_text(place, values, summarize) for place in places) + end)

    if traced or is_staging():
        if in_dataset_function():
            raise ValueNeedsPython("the function prints")
        # JAX has an order of effects for programs of one device only.
        ordered = jax.device_count() == 1
        jax.debug.callback(show, *(leaves[i] for i in traced), ordered=ordered)
    else:
        show()


class _Place(int):
    """The position of a leaf among all that are printed."""


def _writer(stream: Any) -> Callable[[str], Any]:
    if stream is None or stream is sys.stderr:
        return _STREAMS["stderr"]
    if stream is sys.stdout:
        return _STREAMS["stdout"]
    if isinstance(stream, str) and stream.startswith("file://"):
        return functools.partial(_append, stream.removeprefix("file://"))
    if stream in _STREAMS:
        return _STREAMS[stream]
    if callable(stream) and getattr(stream, "__module__", None) == "logging":
        return lambda text: stream(text.rstrip("\n"))
    if hasattr(stream, "write"):
        write: Callable[[str], Any] = stream.write
        return write
    raise ValueError(f"Unknown output stream or destination {stream!r}.")


def _append(path: str, text: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def _text(value: Any, leaves: list[Any], summarize: int, nested: bool = False) -> str:
    if isinstance(value, _Place):
        return _leaf_text(leaves[value], summarize, nested)
    if isinstance(value, dict):
        items = (f"{key!r}: {_text(each, leaves, summarize, True)}" for key, each in value.items())
        return f"{{{', '.join(items)}}}"
    inner = [_text(each, leaves, summarize, True) for each in value]
    if isinstance(value, tuple):
        return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    return f"[{', '.join(inner)}]"


def _leaf_text(value: Any, summarize: int, nested: bool) -> str:
    if isinstance(value, str):
        return repr(value) if nested else value
    if isinstance(value, RaggedArray):
        return str(value)
    if not isinstance(value, (np.ndarray, np.generic, jax.Array, bool, int, float, bytes)):
        return str(value)
    if isinstance(value, bool):
        return str(value)
    return _array_text(np.asarray(value), summarize, 1)


def _array_text(array: np.ndarray, summarize: int, depth: int) -> str:
    if array.ndim == 0:
        return _element(array[()])
    shown: list[Any] = list(array)
    if summarize >= 0 and len(array) > 2 * summarize:
        first, last = list(array[:summarize]), list(array[len(array) - summarize :])
        shown = [*first, None, *last]
    texts = [
        "..." if each is None else _array_text(np.asarray(each), summarize, depth + 1)
        for each in shown
    ]
    between = "\n" * (array.ndim - 1) + " " * depth if array.ndim > 1 else " "
    return f"[{between.join(texts)}]"


def _element(value: Any) -> str:
    if isinstance(value, bytes):
        return f'"{value.decode(errors="replace")}"'
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    kind = np.asarray(value).dtype
    if kind.kind in "fV":
        short = f"{float(value):.{15 if kind == np.float64 else 6}g}"
        exact = np.asarray(float(short), kind) == value or value != value
        return short if exact else f"{float(value):.{17 if kind == np.float64 else 9}g}"
    return str(value)


def print_format(template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3) -> str:
    """Values in a text, as `print_values` shows them; for ``tf.strings.format``."""
    given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    texts = [_leaf_text(raw(unwrap(value)), summarize, False) for value in given]
    parts = template.split(placeholder)
    if len(parts) != len(texts) + 1:
        raise ValueError(
            f"{len(parts) - 1} placeholder(s) in template does not match {len(texts)} tensor(s)"
        )
    return "".join(part + text for part, text in zip(parts, [*texts, ""], strict=True))


def _called(
    func: Callable[..., Any] | None,
    inp: Any,
    Tout: Any,
    label: str,
    of_numpy: bool,
) -> Any:
    """Call a function, or make the decorator that does, if there is none."""
    if Tout is None:
        raise TypeError(
            f"Missing required argument: 'Tout'. If using tf.{label} as a decorator, set `Tout` "
            f"by name above the function: `@tf.{label}(Tout=tout)`"
        )
    if func is None:
        if inp is not None:
            raise TypeError(
                f"Don't set the `inp` argument when using tf.{label} as a decorator (`func=None`)."
            )
        return functools.partial(_decorated, Tout=Tout, label=label, of_numpy=of_numpy)
    if inp is None:
        raise TypeError(
            "Missing argument `inp`: set it to the list of arguments to the function, unless "
            f"tf.{label} is used as a decorator (`func=None`)."
        )
    given = [convert(each) for each in (inp if isinstance(inp, (list, tuple)) else [inp])]
    row = functools.partial(_row, func, Tout, of_numpy)
    made: Sequence[Any]
    if in_dataset_function():
        made = call_in_python(row, given, f"tf.{label}")
    elif any(map(is_traced, given)) or is_staging():
        raise ValueNeedsPython(
            f"it calls tf.{label}, and the shape of what {_name(func)} returns is not known; use "
            "jax.pure_callback with the shape, or call it outside"
        )
    else:
        made = row(*given)
    if not isinstance(Tout, (list, tuple)):
        return Tensor(made[0])
    if not Tout:
        # TensorFlow's two functions differ in this.
        return None if of_numpy else []
    return [Tensor(each) for each in made]


def _row(func: Callable[..., Any], Tout: Any, of_numpy: bool, *values: Any) -> list[np.ndarray]:
    """Call a function with one element's values; arrays of what it returns."""
    result = func(*(np.asarray(v)[()] if of_numpy else Tensor(v) for v in values))
    if not isinstance(Tout, (list, tuple)):
        return [convert(result, dtypes.as_dtype(Tout))]
    if not Tout:
        return []
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    if len(results) != len(Tout):
        raise ValueError(f"{_name(func)} returns {len(results)} values, but expects {len(Tout)}")
    return [convert(each, dtypes.as_dtype(kind)) for each, kind in zip(results, Tout, strict=True)]


def _decorated(
    func: Callable[..., Any], Tout: Any, label: str, of_numpy: bool
) -> Callable[..., Any]:
    @functools.wraps(func)
    def called(*args: Any) -> Any:
        return _called(func, args, Tout, label, of_numpy)

    return called


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)


def py_function(
    func: Callable[..., Any] | None = None,
    inp: Any = None,
    Tout: Any = None,
    name: str | None = None,
) -> Any:
    """What a Python function of tensors returns, as tensors of the types ``Tout``.

    In a dataset's function it runs row by row, and the rest is compiled if ``set_shape`` says the
    shapes of what it returns, where they matter; else all of the function runs as Python. So does
    one of ``tf.function`` that calls it. Without ``func`` it is a decorator:
    ``@tf.py_function(Tout=tf.float32)``, of a function that takes no arguments by name.

    Args:
        func: what to call.
        inp: a tensor, or the list of those that it is called with.
        Tout: the type of what it returns, or a list of them; ``[]`` if it returns nothing.
        name: of no effect.

    Raises:
        TypeError: ``Tout`` is missing, or one of ``func`` and ``inp`` alone is given.
        ValueError: the function returns another number of values than ``Tout`` has.
        ValueNeedsPython: in a step of a strategy or of Keras that is compiled, where the result's
            shape is not known.
    """
    return _called(func, inp, Tout, "py_function", of_numpy=False)


def numpy_function(
    func: Callable[..., Any] | None = None,
    inp: Any = None,
    Tout: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """As `py_function`, but the function is given numpy's arrays."""
    return _called(func, inp, Tout, "numpy_function", of_numpy=True)


print_values.__name__ = print_values.__qualname__ = "print"
