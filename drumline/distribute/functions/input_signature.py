"""What a compiled function promises to be called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from drumline.data import TensorSpec
from drumline.distribute.per_replica import PerReplica
from drumline.distribute.per_replica_spec import PerReplicaSpec

_ARRAYS = (jax.Array, np.ndarray, np.generic)


class InputSignature:
    """The specification of a function's arguments, which every call is checked against.

    Args:
        function: the function; messages name it and its parameters.
        specs: for each parameter a pytree of `TensorSpec` and `PerReplicaSpec`.
        skip: how many parameters come before those that the specification describes.

    Raises:
        TypeError: if `specs` is no sequence of such trees.
    """

    def __init__(self, function: Callable[..., Any], specs: Any, skip: int = 0) -> None:
        self._name = getattr(function, "__qualname__", repr(function))
        if not isinstance(specs, (tuple, list)):
            raise TypeError(
                f"input_signature of {self._name} is a {type(specs).__name__}; it takes a list "
                "with an entry for each argument: `input_signature=[dl.TensorSpec([None])]`."
            )
        for leaf in jax.tree.leaves(specs):
            if not isinstance(leaf, (TensorSpec, PerReplicaSpec)):
                raise TypeError(
                    f"input_signature of {self._name} holds {leaf!r:.60}; it takes dl.TensorSpec "
                    "and what the element_spec of a distributed dataset holds."
                )
        self._specs = tuple(specs)
        parameters = list(inspect.signature(function).parameters.values())[skip:]
        self._parameters = inspect.Signature(parameters)
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        named = [parameter for parameter in parameters if parameter.kind in positional]
        self._names = [parameter.name for parameter in named]
        variadic = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
        if len(specs) > len(named) and not variadic:
            raise TypeError(
                f"input_signature of {self._name} has {len(specs)} entries, but the function has "
                f"{len(named)} arguments ({', '.join(self._names)})."
            )
        bare = [p.name for p in named[len(specs) :] if p.default is inspect.Parameter.empty]
        if bare:
            raise TypeError(
                f"input_signature of {self._name} has no entry for {', '.join(bare)}, which has no "
                "default."
            )

    @property
    def specs(self) -> tuple[Any, ...]:
        """The specifications, an entry for each argument."""
        return self._specs

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The positional arguments of a call, arrays where the specification has them.

        Raises:
            TypeError: if they do not fit; the message names the argument, and where in it.
        """
        given = self._in_order(args, kwargs)
        return [
            self._checked(name, spec, value)
            for (name, value), spec in zip(given, self._specs, strict=True)
        ]

    def _in_order(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
        try:
            bound = self._parameters.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}: {error}") from None
        names = [self._names[i] if i < len(self._names) else f"*[{i}]" for i in range(len(args))]
        covered = [*self._names[: len(self._specs)], *names[len(self._names) : len(self._specs)]]
        extra = [name for name in [*names, *kwargs] if name not in covered]
        if extra:
            raise TypeError(
                f"{self._name} got {', '.join(extra)}, which its input_signature does not "
                "describe. Pass only what it describes, or add an entry."
            )
        bound.apply_defaults()
        values = [*bound.args][: len(self._specs)]
        if len(values) < len(self._specs):
            raise TypeError(
                f"{self._name} got {len(values)} arguments, its input_signature describes "
                f"{len(self._specs)}."
            )
        return list(zip(covered, values, strict=True))

    def _checked(self, name: str, spec: Any, value: Any) -> Any:
        paths, treedef = jax.tree_util.tree_flatten_with_path(spec)
        try:
            values = treedef.flatten_up_to(value)  # type: ignore[attr-defined]
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{self._name}: {name} has another structure than its input_signature: {error}"
            ) from None
        leaves = [
            self._leaf(name + jax.tree_util.keystr(path), leaf, given)
            for (path, leaf), given in zip(paths, values, strict=True)
        ]
        return jax.tree.unflatten(treedef, leaves)

    def _leaf(self, name: str, spec: Any, value: Any) -> Any:
        if isinstance(spec, TensorSpec):
            return self._array(name, spec, value)
        if not isinstance(value, PerReplica) or len(value.values) != len(spec.value_specs):
            raise TypeError(
                f"{self._name}: {name} is to be {spec}, got {_described(value)}. Pass what "
                "iterating over the distributed dataset gives."
            )
        if value.is_stacked:
            first, *others = spec.value_specs
            if all(other == first for other in others):
                self._fits(name, first, value.stacked.shape[1:], value.stacked.dtype)
                return value
        for index, (each, replica) in enumerate(zip(value.values, spec.value_specs, strict=True)):
            self._array(f"{name}, replica {index}", replica, each)
        return value

    def _array(self, name: str, spec: TensorSpec, value: Any) -> Any:
        if not isinstance(value, _ARRAYS):
            value = self._converted(name, spec, value)
        self._fits(name, spec, np.shape(value), value.dtype)
        return value

    def _fits(self, name: str, spec: TensorSpec, shape: Any, dtype: Any) -> None:
        wanted = TensorSpec(spec.shape, _on_device(spec.dtype))
        if not wanted.accepts(shape, _on_device(dtype)):
            raise TypeError(
                f"{self._name}: {name} is to be {spec}, got an array of shape {tuple(shape)} and "
                f"dtype {dtype}. Convert it, or widen the input_signature."
            )

    def _converted(self, name: str, spec: TensorSpec, value: Any) -> np.ndarray:
        """A Python number, or a list of numbers, as an array of the dtype that is asked for."""
        kind = None if isinstance(value, PerReplica) else np.asarray(value).dtype
        if (
            kind is None
            or kind.kind not in "biufc"
            or not np.can_cast(_smallest(kind), spec.dtype, casting="same_kind")
        ):
            raise TypeError(f"{self._name}: {name} is to be {spec}, got {_described(value)}.")
        return np.asarray(value, spec.dtype)


def _smallest(dtype: np.dtype) -> np.dtype:
    """The smallest type of its kind: a Python number has a kind and no size."""
    return np.dtype({"b": "?", "i": "i1", "u": "u1", "f": "f2", "c": "c8"}[dtype.kind])


def _on_device(dtype: Any) -> np.dtype:
    kept = np.dtype(dtype)
    return kept if kept.kind in "OSU" else np.dtype(jax.dtypes.canonicalize_dtype(kept))


def _described(value: Any) -> str:
    if isinstance(value, PerReplica):
        return f"a PerReplica of {len(value.values)} values"
    return f"{value!r:.60} ({type(value).__name__})"
