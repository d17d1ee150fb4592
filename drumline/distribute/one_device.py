"""Everything on one named device."""

from __future__ import annotations

import functools
from typing import Any

import jax

from drumline.distribute.collectives.devices import DeviceLike, device_name
from drumline.distribute.strategy import Strategy


class OneDeviceStrategy(Strategy):
    """Place variables and computation on one device.

    Follows ``tf.distribute.OneDeviceStrategy``.

    Args:
        device: a device name such as ``"cpu:1"`` or ``"/gpu:0"``, or a JAX device.

    Raises:
        ValueError: if the device does not exist.

    Example:
        >>> strategy = dl.distribute.OneDeviceStrategy("cpu:1")
        >>> result = strategy.run(lambda x: x + 1, (np.float32(1),))
        >>> float(result), result.devices()
        (2.0, {CpuDevice(id=1)})
    """

    def __init__(self, device: DeviceLike) -> None:
        super().__init__([device])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({device_name(self.replica_devices[0])!r})"


class DefaultStrategy(Strategy):
    """What is in force outside every scope: one replica on JAX's default device."""

    def __init__(self) -> None:
        super().__init__([jax.local_devices()[0]])

    def _adopt_variable(self, variable: Any) -> None:
        """Leave the variable where it is: this is no strategy that anybody chose."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@functools.cache
def default_strategy() -> DefaultStrategy:
    """The one strategy that is in force outside every scope."""
    return DefaultStrategy()
