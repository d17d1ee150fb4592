"""Options of the automatic choice of numbers."""

from __future__ import annotations

import dataclasses

from drumline.data.option_groups import Group, amount, switch


@dataclasses.dataclass
class AutotuneOptions(Group):
    """As ``tf.data.experimental.AutotuneOptions``.

    Attributes:
        enabled: whether numbers given as ``AUTOTUNE`` are chosen, and changed, while the dataset
            runs. Otherwise they are fixed: as many workers as CPU cores, buffers of 4 MB.
        cpu_budget: how many cores the chosen workers may keep busy; by default all.
        ram_budget: how many bytes the buffers whose sizes are chosen may hold together; by default
            a quarter of the memory that is free at the start.
    """

    enabled: bool | None = None
    cpu_budget: int | None = None
    ram_budget: int | None = None

    checks = {"enabled": switch, "cpu_budget": amount, "ram_budget": amount}  # noqa: RUF012
    refused = {  # noqa: RUF012
        "autotune_algorithm": "there is one",
        "initial_parallelism": "the first number follows from the budget",
        "min_parallelism": "one worker is the least; give num_parallel_calls a number for more",
    }
