"""Options of the rules that rewrite a plan before it runs."""

from __future__ import annotations

import dataclasses

from drumline.data.option_groups import Group, switch

_BITS = "two programs compiled as one round differently; maps run back to back on a block instead"


@dataclasses.dataclass
class OptimizationOptions(Group):
    """As ``tf.data.experimental.OptimizationOptions``, with the rules there are here.

    The elements are the same bits with any of them. ``None`` leaves a rule to
    ``apply_default_optimizations``, but for ``map_vectorization``; a bool decides by itself.

    Attributes:
        apply_default_optimizations: whether rules apply for which nothing is said.
        noop_elimination: leaves out what changes nothing, such as ``repeat(1)``.
        map_and_batch_fusion: has native maps of several threads make whole batches, which are not
            copied then. Of other maps' blocks, batches are slices either way.
        map_vectorization: computes the elements of a block of a compiled map together. Where it is
            ``False`` each has a call of its own, of a program compiled for one element. Where a
            program rounds more than once, the length it is compiled for shows in the last bits: it
            keeps that, filled up, and costs as much for an element as for a block.
        map_parallelization: has several threads compute compiled maps.
        inject_prefetch: adds a prefetch at the end of plans that compute.
        take_skip_pushdown: moves ``take`` and ``skip`` below maps; not in tf.data.
        shard_pushdown: moves ``shard`` below maps; not in tf.data.
        window_and_batch_fusion: stacks windows that a function batches or gives as they are
            without a dataset for each; not in tf.data.
        native_arithmetic: has the Rust core instead of a compiled program compute what a map only
            moves within an element, makes float32, and scales or shifts by constants
            (``image[:, ::-1] / 255``); not in tf.data.
    """

    apply_default_optimizations: bool = True
    noop_elimination: bool | None = None
    map_and_batch_fusion: bool | None = None
    map_vectorization: bool | None = None
    map_parallelization: bool | None = None
    inject_prefetch: bool | None = None
    take_skip_pushdown: bool | None = None
    shard_pushdown: bool | None = None
    window_and_batch_fusion: bool | None = None
    native_arithmetic: bool | None = None

    checks = {  # noqa: RUF012
        "noop_elimination": switch,
        "map_and_batch_fusion": switch,
        "map_vectorization": switch,
        "map_parallelization": switch,
        "inject_prefetch": switch,
        "take_skip_pushdown": switch,
        "shard_pushdown": switch,
        "window_and_batch_fusion": switch,
        "native_arithmetic": switch,
    }
    settled = {  # noqa: RUF012
        "map_fusion": (False, _BITS),
        "filter_fusion": (False, _BITS),
        "map_and_filter_fusion": (False, _BITS),
        "shuffle_and_repeat_fusion": (
            False,
            "each pass of a repeat is shuffled by itself, with a key of its own",
        ),
        "filter_parallelization": (False, "a predicate is evaluated on whole blocks already"),
        "parallel_batch": (False, "a batch that lies within a block is not copied at all"),
        "seq_interleave_prefetch": (False, "give interleave num_parallel_calls"),
    }

    def applies(self, rule: str) -> bool:
        """Whether the rule of that name is used."""
        chosen = getattr(self, rule)
        return self.apply_default_optimizations if chosen is None else chosen
