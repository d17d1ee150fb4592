"""By which algorithm, and in which packs, the flags of a mode reduce gradients."""

from __future__ import annotations

import numpy as np
import pytest

from drumline.cnn import flags
from drumline.cnn.updates import modes
from drumline.distribute.collectives.cross_device_ops import Packing
from tests.ports import free_addresses

SMALL = [np.zeros(count, np.float32) for count in (8, 1000, 16, 8)]


@pytest.mark.parametrize(
    ("given", "groups"),
    [
        ([], [[0, 1, 2, 3]]),
        (["--gradient_repacking=2"], [[0, 1], [2, 3]]),
        (["--agg_small_grads_max_bytes=100"], [[0, 2, 3], [1]]),
        (["--agg_small_grads_max_bytes=100", "--agg_small_grads_max_group=2"], [[0, 2], [3], [1]]),
        (["--all_reduce_spec=xring"], [[0], [1], [2], [3]]),
        (["--all_reduce_spec=xring", "--gradient_repacking=1"], [[0, 1, 2, 3]]),
    ],
)
@pytest.mark.parametrize("mode", ["replicated", "collective_all_reduce"])
def test_small_gradients_travel_in_the_packs_of_the_flags(
    mode: str, given: list[str], groups: list[list[int]]
) -> None:
    hosts = [f"--worker_hosts={free_addresses(1)[0]}", "--job_name=worker"]
    over = hosts if mode == "collective_all_reduce" else []
    parsed = flags.parse([f"--variable_update={mode}", "--num_gpus=4", *over, *given])
    strategy = modes.mode_of(parsed, lambda line: None).strategy
    packing = strategy.cross_device_ops.packing  # type: ignore[attr-defined]
    assert isinstance(packing, Packing)
    assert sorted(packing.groups(SMALL)) == sorted(groups)  # type: ignore[arg-type]
