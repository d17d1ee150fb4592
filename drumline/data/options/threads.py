"""Options of threads."""

from __future__ import annotations

import dataclasses

from drumline.data.option_groups import Group, amount


@dataclasses.dataclass
class ThreadingOptions(Group):
    """As ``tf.data.ThreadingOptions``.

    Attributes:
        private_threadpool_size: how many threads the dataset's maps share, however many calls they
            may make in parallel. By default each map has threads of its own, and compiled maps
            that name no ``num_parallel_calls`` get as many as there are CPU cores but one; 1 leaves
            these to the thread that asks for elements.
        max_intra_op_parallelism: among how many threads one copy of rows (the gather of a shuffled
            block, a long batch) is divided. By default long copies use every core. Programs that
            XLA compiled use the threads of XLA, which all programs of the process share.
    """

    private_threadpool_size: int | None = None
    max_intra_op_parallelism: int | None = None

    checks = {"private_threadpool_size": amount, "max_intra_op_parallelism": amount}  # noqa: RUF012
