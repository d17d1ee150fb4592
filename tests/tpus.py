"""CPU devices in the place of a TPU's, in a row: there is no TPU where the tests run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import jax

from drumline.distribute.cluster_resolver.tpu import system


@contextlib.contextmanager
def cpus_as_tpus() -> Iterator[None]:
    """Within the block take JAX's CPU devices, those of all processes, for a TPU's cores."""

    def place(device: Any) -> tuple[int, int, int, int]:
        return jax.devices("cpu").index(device), 0, 0, 0

    with (
        mock.patch.object(system, "PLATFORM", "cpu"),
        mock.patch.object(system, "_place", place),
    ):
        yield
