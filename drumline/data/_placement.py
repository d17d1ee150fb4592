"""Methods that reach for single elements, or put them where they are needed."""

from __future__ import annotations

import re
from typing import Any, Self

import jax

from drumline.data.methods.arguments import AUTOTUNE, count_of
from drumline.data.methods.padding import check_arrays
from drumline.data.methods.planned import Planned
from drumline.data.plan.placing import PrefetchToDevice
from drumline.data.random_access import element_at

_NAME = re.compile(r"/?(?:device:)?([a-z]+)(?::(\d+))?", re.IGNORECASE)
_BUFFER = 2


class Placing(Planned):
    """``prefetch_to_device`` and ``index``."""

    def prefetch_to_device(
        self, device: Any, buffer_size: int | None = None, name: str | None = None
    ) -> Self:
        """Elements as JAX arrays on a device, copied while earlier ones are used.

        It is the last operation of a dataset. As everywhere in JAX, 64-bit types become 32-bit ones
        unless ``jax_enable_x64`` is on.

        Args:
            device: a ``jax.Device``, a ``jax.sharding.Sharding`` (leaves are divided along it), or
                a name such as ``"gpu:0"``.
            buffer_size: how many elements are copied ahead; 2 unless said otherwise.
            name: shown by ``explain()``.

        Raises:
            TypeError: elements hold strings, datasets or ragged arrays, or ``device`` is none.
            ValueError: there is no device of that name.
        """
        leaves = self._plan.spec.leaves
        check_arrays(leaves, "prefetch_to_device")
        if any(leaf.is_string for leaf in leaves):
            raise TypeError(f"prefetch_to_device: no device holds strings: {self.element_spec}")
        automatic = buffer_size is None or buffer_size == AUTOTUNE
        size = (
            _BUFFER
            if automatic
            else count_of(buffer_size, "prefetch_to_device", "buffer_size", least=1)
        )
        return self._with(PrefetchToDevice((self._plan,), placement(device), size), name)

    def index(self, index: int, epoch: int = 0) -> Any:
        """The element at a position, where the plan allows to reach it alone.

        Args:
            index: from 0, or from -1 backwards.
            epoch: in which; shuffles differ between epochs.

        Raises:
            TypeError: an operation of the plan prevents it; the message names it.
            IndexError: there is no such position.
        """
        return element_at(
            self._plan, count_of(index, "index", "index"), count_of(epoch, "index", "epoch", 0)
        )


def placement(device: Any) -> Any:
    """The JAX device or sharding meant.

    Raises:
        TypeError: it is neither, and no name.
        ValueError: there is no device of that name.
    """
    if isinstance(device, jax.Device | jax.sharding.Sharding):
        return device
    if not isinstance(device, str):
        raise TypeError(
            f"prefetch_to_device takes a jax.Device, a Sharding or a name, not {device!r:.60}"
        )
    match = _NAME.fullmatch(device)
    try:
        found = jax.local_devices(backend=match[1].lower()) if match else []
    except RuntimeError:
        found = []
    number = int(match[2] or 0) if match else 0
    if number >= len(found):
        known = ", ".join(f"{d.platform}:{d.id}" for d in jax.local_devices())
        raise ValueError(f"prefetch_to_device: there is no device {device!r}; there are {known}")
    return found[number]
