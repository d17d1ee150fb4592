"""``tf.function``: drumline's compiled functions, whose Python sees tensors."""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drumline import config
from drumline.compat.ops.host import Checks
from drumline.compat.values.boundary import map_structure, unwrap, with_control_flow, wrap
from drumline.compat.values.convert import convert
from drumline.compat.values.tensor import Tensor
from drumline.data.elements.precision import is_tracing
from drumline.data.functions.native.symbol import ValueNeedsPython
from drumline.distribute.functions.function import Function


class TensorFunction(Function):
    """A function that `function` compiles, as ``tf.function`` gives.

    Args:
        python_function: sees tensors in place of arrays; Python's numbers are part of the trace.
        input_signature: a sequence of nested ``tf.TensorSpec``.
    """

    def __init__(
        self, python_function: Callable[..., Any], input_signature: Sequence[Any] | None = None
    ):
        specs = None if input_signature is None else unwrap(list(input_signature))
        super().__init__(python_function, specs, keep_64_bits=True, adapt=_of_tensors)
        self._given_signature = input_signature
        self._checks = Checks()
        self._needs_python = False

    @property
    def input_signature(self) -> Sequence[Any] | None:
        """The specs of the arguments, if some were given."""
        return self._given_signature

    def _call(self, bound: tuple[Any, ...], /, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = map_structure(_argument, args), map_structure(_argument, kwargs)
        if self._specs is not None:
            args, kwargs = unwrap(args), unwrap(kwargs)
        with self._checks.collecting():
            return wrap(self._run(bound, args, kwargs))

    def _run(self, bound: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
        """Run it compiled, or as Python if a tensor's value is needed while it is traced."""
        if not self._needs_python:
            try:
                return super()._call(bound, *args, **kwargs)
            except ValueNeedsPython as error:
                if is_tracing():  # whoever traces this function runs as Python
                    raise
                self._needs_python = True
                name = getattr(self.python_function, "__qualname__", "a function")
                warnings.warn(
                    f"tf.function {name} runs as Python, not compiled: {error}", stacklevel=4
                )
        return self._plain(*bound, *args, **kwargs)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The function for one kind of arguments; it is compiled when it is first called."""
        return ConcreteFunction(self, args, kwargs)

    def experimental_get_tracing_count(self) -> int:
        """How often it was compiled."""
        return len(self._programs)


class ConcreteFunction:
    """A compiled function and the specs that it was asked for with.

    Args:
        compiled: the function.
        args: tensors or specs.
        kwargs: the same, by name.
    """

    def __init__(self, compiled: TensorFunction, args: Any, kwargs: Any):
        self._compiled = compiled
        self.structured_input_signature = (args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)


TensorFunction.__name__ = TensorFunction.__qualname__ = "Function"


def _argument(leaf: Any) -> Any:
    """numpy's arrays become tensors, as in TensorFlow; Python's numbers stay."""
    return Tensor(convert(leaf)) if isinstance(leaf, (np.ndarray, np.generic)) else leaf


def _of_tensors(traced: Callable[..., Any], loops: Any) -> Callable[..., Any]:
    target = with_control_flow(traced, loops)

    @functools.wraps(traced)
    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*map(wrap, args), **{name: wrap(value) for name, value in kwargs.items()})

    with contextlib.suppress(TypeError, ValueError):
        call.__signature__ = inspect.signature(traced)  # type: ignore[attr-defined]
    return call


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    **others: Any,
) -> Any:
    """Compile a function, as ``tf.function``; a decorator.

    Args:
        func: a Python function; None gives the decorator.
        input_signature: specs of the arguments, which every call is checked against.
        autograph: accepted; control flow over tensors is prepared in any case.
        jit_compile: accepted; XLA compiles always.
        reduce_retracing: accepted; each shape is compiled once.
        others: TensorFlow's experimental options, accepted if their names are TensorFlow's.

    Raises:
        TypeError: for an option that ``tf.function`` does not have.
    """
    unknown = [name for name in others if not name.startswith("experimental_")]
    if unknown:
        raise TypeError(f"tf.function takes no {', '.join(unknown)}")
    if func is None:
        return lambda made: function(made, input_signature, autograph, jit_compile)
    return func if isinstance(func, TensorFunction) else TensorFunction(func, input_signature)


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Have all compiled functions run as plain Python, or not."""
    config.run_functions_eagerly(run_eagerly)


def functions_run_eagerly() -> bool:
    """Whether they do."""
    return bool(config.functions_run_eagerly())
