"""One replica on each of several local devices."""

from __future__ import annotations

from collections.abc import Iterable

import jax

from drumline.distribute.devices import DeviceLike
from drumline.distribute.strategy import Strategy


class MirroredStrategy(Strategy):
    """Synchronous training on several devices of one process, as
    ``tf.distribute.MirroredStrategy``.

    Every device holds a copy of every variable and computes on its share of the global batch;
    gradients are averaged over the devices before they are applied.

    Args:
        devices: device names or JAX devices, or one of them; by default all local devices of
            JAX's default backend.
        check_agreement: compare the replicas' variables after each training step; see
            `Strategy`.

    Raises:
        ValueError: if a device does not exist or is given twice.
    """

    def __init__(
        self,
        devices: Iterable[DeviceLike] | DeviceLike | None = None,
        *,
        check_agreement: bool = False,
    ) -> None:
        if devices is None:
            devices = jax.local_devices()
        elif isinstance(devices, (str, jax.Device)):
            devices = [devices]
        super().__init__(devices, check_agreement=check_agreement)
