"""Values of several replicas: `PerReplica`, the spec of one, and the operations that reduce it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import jax
import numpy as np

from drumline.data import TensorSpec


class DistributedValues:
    """Base of values that a strategy's replicas see differently, as in ``tf.distribute``."""

    @property
    def values(self) -> tuple[Any, ...]:
        """The values, by replica."""
        raise NotImplementedError


class MissingValueError(ValueError):
    """A replica that has rows is to use a value that is not known for it."""


@jax.tree_util.register_pytree_with_keys_class
class PerReplica(DistributedValues):
    """One value for each replica, as ``tf.distribute.DistributedValues``.

    A pytree. Values of equal shapes may be held as one array, stacked along a new first dimension
    that is sharded over the replicas' devices; they are split when they are asked for.

    It is no array: ``strategy.experimental_local_results(value)`` gives the values of this
    process's replicas, ``strategy.reduce`` combines those of all.

    Args:
        values: the values, by replica. Arrays lie on their replica's device.
        replicas: the numbers of the replicas that have one; by default all of them, in order.
        carried: for replicas that are not among them, by number, what they hold nevertheless:
            the result of a step that they followed without rows. It is seen by the next step that
            is given this object, and by no other.
        unknown: why the values of all other replicas are not known.

    Attributes:
        replicas: the same; None for all of them.
        carried: the same; empty where the values are stacked, which then has a row for these too.
        unknown: the same.
        reductions: the values reduced over the replicas, by the operation, where the step that
            returned them has done so already.
    """

    __array_ufunc__ = None  # numpy leaves operators to this class, which says what to do instead

    def __init__(
        self,
        values: Iterable[Any],
        replicas: Iterable[int] | None = None,
        carried: Mapping[int, Any] | None = None,
        unknown: str = "",
    ) -> None:
        self._values: tuple[Any, ...] | None = tuple(values)
        self._stacked: Any = None
        self._is_stacked = False
        self.replicas = None if replicas is None else tuple(replicas)
        self.carried = dict(carried or {})
        self.unknown = unknown
        self.reductions: Mapping[ReduceOp, Any] = {}

    @classmethod
    def of_stacked(
        cls,
        stacked: Any,
        replicas: Iterable[int] | None = None,
        reductions: Mapping[ReduceOp, Any] | None = None,
    ) -> PerReplica:
        """The values that `stacked`, of shape ``(replicas, ...)``, holds along its first axis.

        Args:
            stacked: the values of all replicas.
            replicas: the numbers of those that had rows; the others' rows are `carried`.
            reductions: see the attribute.
        """
        made = cls.__new__(cls)  # each step makes one for each array
        made._values, made._stacked, made._is_stacked = None, stacked, True
        made.replicas = None if replicas is None else tuple(replicas)
        made.carried, made.unknown = {}, ""
        made.reductions = {} if reductions is None else reductions
        return made

    @property
    def is_stacked(self) -> bool:
        """Whether the values are held as one array."""
        return self._is_stacked

    @property
    def stacked(self) -> Any:
        """The values as one array of shape ``(replicas, ...)``; None if they are held apart."""
        return self._stacked

    @property
    def values(self) -> tuple[Any, ...]:
        """The values, by replica. Arrays lie on their replica's device."""
        if self._values is None:
            rows = _rows(self._stacked)
            numbers = rows if self.replicas is None else self.replicas
            self._values = tuple(rows[number] for number in numbers if number in rows)
        return self._values

    def knows(self, replica: int) -> bool:
        """Whether a step on `replica` can be given a value."""
        if self._is_stacked or self.replicas is None:
            return True
        return replica in self.replicas or replica in self.carried

    def at(self, replica: int) -> Any:
        """The value that a step on `replica` is given.

        Raises:
            MissingValueError: if it is not known.
        """
        if self._is_stacked:
            traced = isinstance(self._stacked, jax.core.Tracer)
            return self._stacked[replica] if traced else _rows(self._stacked)[replica]
        if self.replicas is None:
            return self.values[replica]
        if replica in self.replicas:
            return self.values[self.replicas.index(replica)]
        if replica in self.carried:
            return self.carried[replica]
        raise MissingValueError(
            f"it has values of the replicas {list(self.replicas)} alone, and none of replica "
            f"{replica}{': ' + self.unknown if self.unknown else ''}"
        )

    def of_all(self) -> PerReplica:
        """The same values, those that are `carried` seen as any other.

        It must be stacked, or know the values of all replicas.
        """
        if self._is_stacked:
            return self if self.replicas is None else PerReplica.of_stacked(self._stacked)
        if self.replicas is None:
            return self
        return PerReplica(map(self.at, range(len(self.replicas) + len(self.carried))))

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Return the children, as JAX's pytree registry asks for them."""
        if self._is_stacked:
            return (self._stacked,), (True, self.replicas)
        children = (*self.values, *self.carried.values())
        return children, (False, self.replicas, tuple(self.carried), self.unknown)

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Any], ...], Any]:
        """Return the children with their keys: the replicas' numbers, or ``stacked``."""
        children, kind = self.tree_flatten()
        if self._is_stacked:
            keys: tuple[Any, ...] = (jax.tree_util.GetAttrKey("stacked"),)
        else:
            numbers = range(len(self.values)) if self.replicas is None else self.replicas
            keys = tuple(map(jax.tree_util.SequenceKey, (*numbers, *self.carried)))
        return tuple(zip(keys, children, strict=True)), kind

    @classmethod
    def tree_unflatten(cls, kind: Any, children: Iterable[Any]) -> PerReplica:
        """Rebuild from the children, which may be anything."""
        if kind[0]:
            (stacked,) = children
            return cls.of_stacked(stacked, kind[1])
        _, replicas, numbers, unknown = kind
        leaves = tuple(children)
        count = len(leaves) - len(numbers)
        carried = dict(zip(numbers, leaves[count:], strict=True))
        return cls(leaves[:count], replicas, carried, unknown)

    def __repr__(self) -> str:
        if self._is_stacked and not isinstance(self._stacked, (jax.Array, np.ndarray)):
            # Of a tree whose leaves were mapped to something else, such as shapes or None.
            return f"PerReplica(stacked={self._stacked!r})"
        shown = self.values
        numbers = range(len(shown)) if self.replicas is None else self.replicas
        rows = "\n".join(f"  {n}: {value!r}" for n, value in zip(numbers, shown, strict=False))
        return f"PerReplica:{{\n{rows}\n}}"

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        _refuse("numpy.asarray")


def _refuse(operation: str) -> NoReturn:
    raise TypeError(
        f"{operation} got a PerReplica, which holds a value for each replica and is no array. "
        "Take one of them, `strategy.experimental_local_results(value)[0]`, combine them, "
        "`strategy.reduce('MEAN', value)`, or compute in the step that `strategy.run` runs."
    )


def _refusing(operation: str) -> Callable[..., NoReturn]:
    def method(*_: Any) -> NoReturn:
        _refuse(operation)

    return method


_OPERATORS = {
    **dict.fromkeys(("add", "radd"), "+"),
    **dict.fromkeys(("sub", "rsub"), "-"),
    **dict.fromkeys(("mul", "rmul"), "*"),
    **dict.fromkeys(("truediv", "rtruediv"), "/"),
    **dict.fromkeys(("floordiv", "rfloordiv"), "//"),
    **dict.fromkeys(("mod", "rmod"), "%"),
    **dict.fromkeys(("pow", "rpow"), "**"),
    **dict.fromkeys(("matmul", "rmatmul"), "@"),
    **{"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neg": "-", "abs": "abs"},
    **{"getitem": "[]", "len": "len", "float": "float", "int": "int"},
}
for _name, _shown in _OPERATORS.items():
    setattr(PerReplica, f"__{_name}__", _refusing(_shown))


def _rows(stacked: Any) -> dict[int, Any]:
    """The rows of an array by their numbers; of an array of several processes, this one's."""
    if isinstance(stacked, jax.core.Tracer) or not isinstance(stacked, jax.Array):
        return {index: stacked[index] for index in range(stacked.shape[0])}
    rows: dict[int, Any] = {}
    for shard in stacked.addressable_shards:
        first = shard.index[0].start or 0
        if first in rows:  # the device has a copy of what another one has
            continue
        data = shard.data
        rows.update((first + number, data[number]) for number in range(data.shape[0]))
    return dict(sorted(rows.items()))


class PerReplicaSpec:
    """The specification of a `PerReplica`: of what each replica gets of a leaf.

    As the one in ``tf.distribute``; `DistributedDataset.element_spec` holds them.

    Args:
        specs: a `TensorSpec` for each replica.

    Attributes:
        value_specs: the same, as a tuple.
    """

    def __init__(self, *specs: TensorSpec) -> None:
        self.value_specs = specs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PerReplicaSpec) and other.value_specs == self.value_specs

    def __hash__(self) -> int:
        return hash(self.value_specs)

    def __repr__(self) -> str:
        return f"PerReplicaSpec({', '.join(map(repr, self.value_specs))})"


def on_replicas(
    tree: Any,
    replicas: int,
    first_dimension: Callable[[int | None], int | None],
    *,
    narrow: bool,
) -> Any:
    """The specification of a dataset's elements as the replicas get them.

    Args:
        tree: a pytree of `TensorSpec`.
        replicas: how many replicas there are; one gets plain values.
        first_dimension: gives a replica's first dimension, from that of an element.
        narrow: whether they are brought to devices in the types that JAX has by default.

    Returns:
        A pytree of `PerReplicaSpec`, or of `TensorSpec` for one replica.
    """

    def spec_of(leaf: TensorSpec) -> Any:
        narrowed = narrow and not leaf.is_string
        dtype = jax.dtypes.canonicalize_dtype(leaf.dtype) if narrowed else leaf.dtype
        shape = leaf.shape
        if shape and replicas > 1:
            shape = (first_dimension(shape[0]), *shape[1:])
        spec = TensorSpec(shape, dtype, leaf.name)
        return spec if replicas == 1 else PerReplicaSpec(*[spec] * replicas)

    return jax.tree.map(spec_of, tree)


REPLICA_AXIS = "replica"
"""The mesh axis along which replicas lie."""


class ReduceOp(enum.Enum):
    """How replicas' values are combined, as ``tf.distribute.ReduceOp``."""

    SUM = "SUM"
    MEAN = "MEAN"

    @classmethod
    def of(cls, value: ReduceOp | str) -> ReduceOp:
        """Return the operation that `value` names, in any case.

        Raises:
            ValueError: if it names none.
        """
        if isinstance(value, cls):
            return value
        try:
            return cls[str(value).upper()]
        except KeyError:
            raise ValueError(f"Unknown reduction {value!r}: use 'SUM' or 'MEAN'.") from None
