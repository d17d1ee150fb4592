"""What distributed values look like, before there are any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from drumline.data import TensorSpec


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
