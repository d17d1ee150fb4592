"""``tf.GradientTape`` of tensors."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp

from drumline.compat.values.convert import WIDE, convert
from drumline.compat.values.tensor import Tensor
from drumline.training import GradientTape, UnconnectedGradients


class TensorTape(GradientTape):
    """Records what is computed, as ``tf.GradientTape``.

    What it watches becomes an array of JAX's in place, since it sees nothing else.
    """

    def watch(self, tensor: Any) -> None:
        """Let gradients with respect to a tensor, or nested ones, be possible."""
        for leaf in jax.tree.leaves(tensor, is_leaf=_is_tensor):
            if _is_tensor(leaf):
                _on_device(leaf)
            super().watch(leaf)

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """The gradients of the sum of the elements of ``target``, in the structure of ``sources``.

        A gradient is None where ``target`` does not depend on the source.
        """
        weights = None if output_gradients is None else _conjugated(_prepared(output_gradients))
        target, sources = _prepared(target), _prepared(sources)
        found = super().gradient(target, sources, weights, unconnected_gradients)
        return _tensors(_conjugated(found))

    def jacobian(self, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        """The derivatives of each element of ``target``."""
        return _tensors(super().jacobian(_raw(target), _prepared(sources), *args, **kwargs))

    def batch_jacobian(self, target: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
        """The derivatives within each example of a batch."""
        return _tensors(super().batch_jacobian(_raw(target), _raw(source), *args, **kwargs))


TensorTape.__name__ = TensorTape.__qualname__ = "GradientTape"


def _is_tensor(leaf: Any) -> bool:
    return type(leaf) is Tensor


def _on_device(tensor: Tensor) -> None:
    if not isinstance(tensor._value, jax.Array):
        wide = tensor._value.dtype in WIDE
        with jax.enable_x64(True) if wide else contextlib.nullcontext():
            tensor._value = jnp.asarray(tensor._value)


def _prepared(tree: Any) -> Any:
    """Nested tensors and variables with JAX's arrays in the tensors."""

    def prepared(leaf: Any) -> Any:
        if _is_tensor(leaf):
            _on_device(leaf)
        elif isinstance(leaf, (int, float)):
            return jnp.asarray(convert(leaf))
        return leaf

    return jax.tree.map(prepared, tree, is_leaf=_is_tensor)


def _raw(tensor: Any) -> Any:
    return _prepared(tensor)._value if _is_tensor(tensor) else tensor


def _conjugated(tree: Any) -> Any:
    """Gradients as the other of TensorFlow and JAX states them: of complex numbers conjugated."""

    def conjugated(leaf: Any) -> Any:
        value = leaf._value if _is_tensor(leaf) else leaf
        if getattr(getattr(value, "dtype", None), "kind", "") != "c":
            return leaf
        return Tensor(value.conj()) if _is_tensor(leaf) else value.conj()

    return jax.tree.map(conjugated, tree, is_leaf=_is_tensor)


def _tensors(tree: Any) -> Any:
    wrapped = jax.tree.map(
        lambda leaf: leaf if _is_tensor(leaf) else Tensor(leaf), tree, is_leaf=_is_tensor
    )
    return wrapped
