"""Memory of received arrays is used again by as many as are in flight, and aligned."""

from __future__ import annotations

import numpy as np
import pytest

from drumline import _memory
from drumline._memory import ALIGNMENT, address_of
from drumline.distribute.parameter_server.wire.codec import Buffers


@pytest.mark.parametrize(("nbytes", "in_flight"), [(1 << 20, 48), (8 << 20, 16), (40 << 20, 8)])
def test_replies_in_flight_are_read_into_memory_of_former_ones(
    monkeypatch: pytest.MonkeyPatch, nbytes: int, in_flight: int
) -> None:
    taken_from_system: list[int] = []
    fresh = _memory.fresh

    def counted(size: int) -> np.ndarray:
        taken_from_system.append(size)
        return fresh(size)

    monkeypatch.setattr(_memory, "fresh", counted)
    received = Buffers()
    for _ in range(3):
        held = [received.take(nbytes) for _ in range(in_flight)]
        assert len({address_of(array) for array in held}) == in_flight
        assert all(address_of(array) % ALIGNMENT == 0 for array in held)
        assert all(len(array) == nbytes for array in held)
        del held
    assert len(taken_from_system) == in_flight
