"""One replica on each of several local devices."""

from __future__ import annotations

from collections.abc import Iterable

import jax

from drumline.distribute.collectives import CrossDeviceOps
from drumline.distribute.collectives.devices import DeviceLike
from drumline.distribute.strategy import Strategy


class MirroredStrategy(Strategy):
    """Synchronous training on several devices of one process.

    Follows ``tf.distribute.MirroredStrategy``. Every device holds a copy of every variable and
    computes on its share of the global batch; gradients are reduced before they are applied.

    Args:
        devices: device names or JAX devices, or one of them; by default all local devices of
            JAX's default backend.
        cross_device_ops: the algorithm that reduces gradients and other values, such as
            `RingAllReduce()`; by default `NcclAllReduce()`, the platform's own.
        check_agreement: compare the replicas' variables after each training step; see
            `Strategy`.

    Raises:
        ValueError: if a device does not exist or is given twice.

    Example:
        >>> strategy = dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
        >>> with strategy.scope():
        ...     model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        ...     model.compile(optimizer="sgd", loss="mse")
        >>> rows = (np.ones((8, 3), np.float32), np.ones((8, 1), np.float32))
        >>> history = model.fit(dl.data.Dataset.from_tensor_slices(rows).batch(4), verbose=0)
        >>> len(history.history["loss"])
        1
    """

    def __init__(
        self,
        devices: Iterable[DeviceLike] | DeviceLike | None = None,
        cross_device_ops: CrossDeviceOps | None = None,
        *,
        check_agreement: bool = False,
    ) -> None:
        if devices is None:
            devices = jax.local_devices()
        elif isinstance(devices, (str, jax.Device)):
            devices = [devices]
        super().__init__(
            devices, cross_device_ops=cross_device_ops, check_agreement=check_agreement
        )
