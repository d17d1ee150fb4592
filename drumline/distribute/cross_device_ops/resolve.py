"""What may be given as ``cross_device_ops=``."""

from __future__ import annotations

from drumline.distribute.cross_device_ops.cross_device_ops import CrossDeviceOps
from drumline.distribute.cross_device_ops.nccl import NcclAllReduce


def resolve_cross_device_ops(value: CrossDeviceOps | None) -> CrossDeviceOps:
    """Return `value`, or `NcclAllReduce()` for None.

    Raises:
        TypeError: if it is something else.
    """
    if value is None:
        return NcclAllReduce()
    if isinstance(value, CrossDeviceOps):
        return value
    if isinstance(value, type) and issubclass(value, CrossDeviceOps):
        raise TypeError(
            f"cross_device_ops takes an instance, not a class: write {value.__name__}()."
        )
    raise TypeError(
        "cross_device_ops must be a CrossDeviceOps such as NcclAllReduce(), RingAllReduce(), "
        f"HierarchicalCopyAllReduce() or ReductionToOneDevice(), not {value!r}."
    )
