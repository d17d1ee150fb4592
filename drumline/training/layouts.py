"""Where variables lie on a mesh of several axes, by layouts for the paths of variables.

A layout names an axis of the mesh for each dimension of a variable that is cut over that axis, and
None for one that is not (`keras.distribution.LayoutMap`). What an optimizer keeps for a variable
lies as that variable does.
"""

from __future__ import annotations

import difflib
import math
import re
import warnings
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import keras
from jax.sharding import Mesh, NamedSharding, PartitionSpec

_SLOT_OF = "_drumline_slot_of"
SHOWN = 3
"""How many paths of variables a message shows."""


def note_slot(slot: Any, reference: Any) -> None:
    """Let `slot`, which an optimizer keeps for the variable `reference`, lie as that does."""
    if tuple(slot.shape) == tuple(reference.shape):
        vars(slot)[_SLOT_OF] = reference.path


class VariableLayouts:
    """The shardings of variables on a mesh.

    Args:
        mesh: the devices.
        layout_map: layouts by regular expressions for the paths of variables, as Keras matches
            them, or by their paths.
        batch_axis: the axis over which batches are cut.
        shard: also cut over the batch's axis, where a dimension divides: ``"optimizer"``, what an
            optimizer keeps for variables; ``"parameters"``, trainable variables as well.

    Attributes:
        mesh: the devices.

    Raises:
        TypeError: if a layout is none.
        ValueError: if a layout names an axis twice, or one that the mesh does not have.
    """

    def __init__(
        self,
        mesh: Mesh,
        layout_map: Mapping[str, Any],
        batch_axis: str,
        shard: str | None = None,
    ) -> None:
        self.mesh = mesh
        self._batch_axis = batch_axis
        self._shard = shard
        self._layouts = keras.distribution.LayoutMap(None)
        for pattern, layout in layout_map.items():
            axes = _axes(pattern, layout)
            self._require_axes(pattern, axes)
            self._layouts[pattern] = keras.distribution.TensorLayout(axes)
        self._specs: dict[tuple[str, tuple[int, ...], bool], PartitionSpec] = {}
        self._used: set[str] = set()
        self._warned: set[str] = set()
        self._made: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()

    def _require_axes(self, pattern: str, axes: tuple[str | None, ...]) -> None:
        named = [axis for axis in axes if axis is not None]
        unknown = [axis for axis in named if axis not in self.mesh.axis_names]
        if unknown:
            raise ValueError(
                f"The layout {axes} for {pattern!r} names the axis {unknown[0]!r}; the mesh has "
                f"{_sizes(self.mesh)}."
            )
        if len(set(named)) < len(named):
            raise ValueError(
                f"The layout {axes} for {pattern!r} names an axis twice, and an array is cut over "
                "an axis in one dimension alone."
            )

    def __len__(self) -> int:
        return len(self._layouts)

    def sharding_of(self, variable: Any) -> NamedSharding:
        """Where `variable` lies, which need not have a value yet.

        Raises:
            ValueError: if several layouts match its path, or the one that does has more dimensions
                than it, which is trainable, or cuts a dimension that does not divide.
        """
        self._made[id(variable)] = variable
        spec = self._spec(variable)
        weight = variable.trainable and self._shard == "parameters"
        if weight or (self._shard is not None and _SLOT_OF in vars(variable)):
            spec = self._also_over_batch(spec, tuple(variable.shape))
        return NamedSharding(self.mesh, spec)

    def computed_with(self, variable: Any) -> NamedSharding:
        """Where `variable` lies while a model computes: as its layout alone says."""
        return NamedSharding(self.mesh, self._spec(variable))

    def _spec(self, variable: Any) -> PartitionSpec:
        path, shape = vars(variable).get(_SLOT_OF, variable.path), tuple(variable.shape)
        key = path, shape, bool(variable.trainable)
        found = self._specs.get(key)
        if found is None:
            found = self._specs[key] = self._spec_of(*key)
        return found

    def _spec_of(self, path: str, shape: tuple[int, ...], trainable: bool) -> PartitionSpec:
        layout = self._layouts[path]
        if layout is None:
            return PartitionSpec()
        pattern = next(each for each in self._layouts if self._layouts[each] is layout)
        axes = tuple(layout.axes)
        if len(axes) > len(shape) and not trainable:
            return PartitionSpec()  # Adafactor keeps rows and columns by the variable's name
        self._used.add(pattern)
        what = f"The layout {axes} for {pattern!r} does not fit {path!r} of shape {shape}"
        if len(axes) > len(shape):
            raise ValueError(
                f"{what}: it has {len(axes)} dimensions and the variable {len(shape)}. Let the "
                "expression match that variable no more, or give it a layout of its own."
            )
        for dimension, axis in enumerate(axes):
            size = 1 if axis is None else self.mesh.shape[axis]
            if shape[dimension] % size:
                raise ValueError(
                    f"{what}: dimension {dimension} has {shape[dimension]} elements, which do not "
                    f"divide over the {size} devices of axis {axis!r}. Make it a multiple of "
                    f"{size}, or leave that dimension whole (None)."
                )
        return PartitionSpec(*axes)

    def _also_over_batch(self, spec: PartitionSpec, shape: tuple[int, ...]) -> PartitionSpec:
        """`spec`, with the batch's axis for the largest whole dimension that divides, if any."""
        axes = [*spec, *[None] * (len(shape) - len(spec))]
        replicas = self.mesh.shape[self._batch_axis]
        free = [
            dimension
            for dimension, size in enumerate(shape)
            if axes[dimension] is None and size and size % replicas == 0
        ]
        if replicas == 1 or self._batch_axis in axes or not free:
            return spec
        largest = max(free, key=lambda dimension: shape[dimension])
        axes[largest] = self._batch_axis
        return PartitionSpec(*axes)

    def require_matches(self) -> None:
        """Check that the layouts are for variables that there are, once some have been made.

        Warns of each that matches none.

        Raises:
            ValueError: if none matches any.
        """
        paths = [
            variable.path for variable in self._made.values() if _SLOT_OF not in vars(variable)
        ]
        unused = [each for each in self._layouts if each not in self._used | self._warned]
        if not paths or not unused:
            return
        hints = "; ".join(f"{each!r} (nearest: {_nearest(each, paths)})" for each in unused)
        if not self._used:
            raise ValueError(
                f"The layout map matches no variable, so nothing would be cut: {hints}. Layouts "
                "are for the paths of variables, as `variable.path` gives them."
            )
        self._warned.update(unused)
        warnings.warn(
            f"These layouts match no variable: {hints}. What they were meant for lies whole on "
            "each device.",
            stacklevel=2,
        )

    def describe(self) -> str:
        """How many of the variables that were made are cut, and how much a device holds."""
        made = list(self._made.values())
        if not made:
            return "no variable has been made"
        shares = [(v, self.sharding_of(v).shard_shape(tuple(v.shape))) for v in made]
        cut = sum(tuple(variable.shape) != share for variable, share in shares)
        total = sum(math.prod(v.shape) * _itemsize(v) for v in made)
        held = sum(math.prod(share) * _itemsize(v) for v, share in shares)
        return (
            f"{cut} of {len(made)} variables are cut, and each device holds {held:,} of "
            f"{total:,} bytes ({100 * held / max(total, 1):.0f} %)"
        )


def _axes(pattern: str, layout: Any) -> tuple[str | None, ...]:
    axes = getattr(layout, "axes", layout)
    if not isinstance(axes, Iterable) or isinstance(axes, str):
        raise TypeError(
            f"The layout for {pattern!r} is {layout!r}. A layout is a tuple with the name of an "
            "axis, or None, for each dimension, or a keras.distribution.TensorLayout."
        )
    return tuple(axes)


def _sizes(mesh: Mesh) -> str:
    return ", ".join(f"{name}={size}" for name, size in mesh.shape.items())


def _nearest(pattern: str, paths: Iterable[str]) -> str:
    words = re.sub(r"[^\w/]+", "", pattern)

    def likeness(path: str) -> tuple[float, str]:
        return -difflib.SequenceMatcher(None, words, path).ratio(), path

    return ", ".join(map(repr, sorted(set(paths), key=likeness)[:SHOWN]))


def _itemsize(variable: Any) -> int:
    size: int = jnp.dtype(keras.backend.standardize_dtype(variable.dtype)).itemsize
    return size
