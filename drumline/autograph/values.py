"""What the runtime needs to know of values: a look-alike's tensors bring their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


class TensorKind:
    """How traced values are recognized, and tensors unwrapped; this one is of JAX's arrays.

    A library with a tensor class of its own subclasses it and passes an instance to
    `drumline.autograph.convert`.

    Attributes:
        instead_of_lists: what to write in place of a list that a traced loop makes longer.
    """

    instead_of_lists = "Assign to an array of the final size with `.at[i].set`."

    def unwrap(self, tree: Any) -> Any:
        """Return a pytree with arrays in the place of tensors."""
        return tree

    def wrap(self, tree: Any) -> Any:
        """Return a pytree with tensors in the place of arrays."""
        return tree

    def is_traced(self, value: Any) -> bool:
        """Whether what the value is will be known only when the program runs."""
        return isinstance(value, jax.core.Tracer)

    def truth(self, value: Any) -> Any:
        """Return a traced condition as a traced boolean scalar.

        Raises:
            ValueError: it has more than one element.
        """
        array = self.unwrap(value)
        if array.size != 1:
            raise ValueError(
                f"The condition is an array of shape {array.shape}; it takes one value. Reduce it "
                "with `any` or `all`."
            )
        return jnp.reshape(array, ()).astype(bool)

    def started(self, start: Any, after: Any) -> Any:
        """Return `start` in the structure that a step leaves; None if it has none.

        For values whose structure follows from what is first written to them, as of an array of
        tensors whose shape is not known before.

        Args:
            start: what a name holds before, with arrays.
            after: what it holds afterwards, with the shapes and dtypes of arrays.
        """
        return None

    def common(self, one: Any, other: Any) -> Callable[[Any], Any] | None:
        """Return what gives either of two values one structure; None if nothing does.

        Args:
            one: what one branch leaves, with the shapes and dtypes of arrays.
            other: what the other branch leaves.
        """
        return None

    def require(self, passed: Any, failed: Callable[[], Exception]) -> None:
        """Have the error that `failed` makes raised if a traced condition is false in the end."""

        def check(value: Any) -> None:
            if not value:
                raise failed()

        jax.debug.callback(check, passed)

    def refused(self, reason: str) -> Exception:
        """Return the error to raise for what Python can do under a condition, and a trace cannot.

        A library that runs a function as Python where it cannot be traced returns what it catches.

        Args:
            reason: what it is, where, and what to write in its place.
        """
        return TypeError(reason)

    def unlike(self, reason: str, one: Any, other: Any) -> Exception:
        """Return the error to raise where a branch or a step leaves a value of another form.

        Args:
            reason: what it is, where, and what to write in its place.
            one: what one branch leaves, or what a name holds before a loop's step; a pytree with
                shapes and dtypes in the place of arrays.
            other: what the other branch or the step leaves.
        """
        return TypeError(reason)

    def replaced(self, function: Any) -> Any:
        """Return what is called in the place of a function, as of ``range`` over traced limits."""
        return _BUILTINS.get(function, function) if type(function) in _KINDS else function


class TracedRange:
    """A ``range`` whose limits are traced; it can only be looped over.

    Args:
        start: the first number.
        stop: the limit, which is not reached.
        step: the difference between two numbers.
    """

    def __init__(self, start: Any, stop: Any, step: Any = 1) -> None:
        self.start, self.stop, self.step = map(jnp.asarray, (start, stop, step))

    def __iter__(self) -> Any:
        raise TypeError(
            "The limits of a range are known only when the program runs, so only a `for` statement "
            "can go over it: not a comprehension, an unpacking, or a function such as `list`. Use "
            "jnp.arange of the greatest limit with a mask, or a `for` statement that writes into "
            "an array by `.at[i].set`."
        )

    def length(self) -> jax.Array:
        """Return how many numbers it has."""
        forward = self.step > 0
        distance = jnp.where(forward, self.stop - self.start, self.start - self.stop)
        size = jnp.abs(self.step)
        return jnp.maximum(0, (distance + size - 1) // size)

    def item(self, index: Any) -> jax.Array:
        """Return the number at an index."""
        return self.start + index.astype(self.start.dtype) * self.step


def _range(*limits: Any) -> Any:
    if any(isinstance(each, jax.core.Tracer) for each in limits):
        return TracedRange(0, *limits) if len(limits) == 1 else TracedRange(*limits)
    return range(*limits)


def _int(*args: Any) -> Any:
    if len(args) == 1 and isinstance(args[0], jax.core.Tracer):
        return args[0].astype(int)
    return int(*args)


def _float(*args: Any) -> Any:
    if len(args) == 1 and isinstance(args[0], jax.core.Tracer):
        return args[0].astype(float)
    return float(*args)


_BUILTINS: dict[Any, Any] = {range: _range, int: _int, float: _float}
_KINDS = (type, type(len))
