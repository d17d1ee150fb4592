"""``tf.autograph``: what of the conversion of control flow users see and choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumline import autograph
from drumline.compat.values.boundary import with_control_flow
from drumline.compat.values.shape import TensorShape
from drumline.data.functions.native.symbol import ValueNeedsPython
from drumline.training.jax_internals import is_staging


def to_graph(
    entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: Any = None
) -> Callable[..., Any]:
    """A function converted so that its control flow may be over traced tensors.

    Args:
        entity: a function.
        recursive: False would leave the functions that it calls as they are; refused.
        experimental_optional_features: accepted; all are on.

    Raises:
        NotImplementedError: `recursive` is False.
    """
    if not recursive:
        raise NotImplementedError(
            "tf.autograph.to_graph(recursive=False): mark the functions that are to stay as they "
            "are by tf.autograph.experimental.do_not_convert."
        )
    return with_control_flow(getattr(entity, "python_function", entity))


def to_code(
    entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: Any = None
) -> str:
    """The source of what `to_graph` gives.

    Raises:
        ValueError: there is no source to convert.
    """
    return autograph.converted_source(entity)


def do_not_convert(func: Callable[..., Any] | None = None) -> Any:
    """Leave a function as it is written, also where a converted one calls it; a decorator."""
    return do_not_convert if func is None else autograph.do_not_convert(func)


def set_loop_options(
    parallel_iterations: Any = None,
    swap_memory: Any = None,
    maximum_iterations: Any = None,
    shape_invariants: Any = None,
) -> None:
    """Say something about the loop around, as ``tf.autograph.experimental.set_loop_options``.

    Args:
        parallel_iterations: accepted; XLA orders operations itself.
        swap_memory: accepted.
        maximum_iterations: refused in compiled functions: the loop's condition must say it.
        shape_invariants: pairs of a tensor and its shape, with None for sizes that change between
            steps; a compiled function then runs as Python.

    Raises:
        NotImplementedError: for `maximum_iterations` in a compiled function.
    """
    if not is_staging():
        return
    if maximum_iterations is not None:
        raise NotImplementedError(
            "set_loop_options(maximum_iterations=): count the steps in the loop's condition, or "
            "use tf.while_loop, which takes maximum_iterations."
        )
    for _, shape in shape_invariants or ():
        known = TensorShape(shape)
        if known.rank is None or None in known.as_list():
            raise ValueNeedsPython("shape_invariants let the loop change shapes")


def set_verbosity(level: int, alsologtostdout: bool = False) -> None:
    """Accepted: conversions write no log, and what fails is an error."""


def trace(*args: Any) -> None:
    """Print the arguments while a function is traced."""
    print(*args)
