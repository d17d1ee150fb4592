"""What ``map_vectorization`` and ``map_and_batch_fusion`` change, and that elements stay."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline.data import Dataset, Options
from drumline.data.functions.compiled import CompiledFunction
from drumline.data.functions.programs import same_at_any_length
from drumline.data.operations.batch import BatchStage


def without(dataset: Dataset, *rules: str) -> Dataset:
    options = Options()
    for rule in rules:
        setattr(options.experimental_optimization, rule, False)
    return dataset.with_options(options)


def outcomes(iterator: Any, count: int = 1000) -> list[Any]:
    """Elements, as types and bytes, and what errors say, notes and all."""
    found: list[Any] = []
    while len(found) < count:
        try:
            leaves = jax.tree.leaves(next(iterator))
        except StopIteration:
            break
        except (ValueError, ZeroDivisionError) as error:
            found.append((str(error), error.__notes__))
        else:
            found.append([(np.asarray(leaf).dtype, np.asarray(leaf).tobytes()) for leaf in leaves])
    return found


ROWS = np.random.default_rng(0).standard_normal((23, 7)).astype(np.float32)
LONG = np.random.default_rng(1).standard_normal((23, 300)).astype(np.float32)
PICTURES = [dl.image.encode_png(np.full((5 + i % 3, 4, 3), i, np.uint8)) for i in range(11)]
PICTURES[7] = b"no picture"


def pixels(contents: Any) -> Any:
    return dl.image.resize(dl.image.decode_png(contents, channels=3), (4, 4)) / 255


PLANS: dict[str, Callable[[], Dataset]] = {
    "whole numbers": lambda: Dataset.range(23).map(lambda v: (v * v + 1, v)),
    "an error": lambda: Dataset.range(-3, 9).map(lambda v: 60 // v, num_parallel_calls=2),
    "one rounding": lambda: Dataset.from_tensor_slices(ROWS).map(lambda v: v * v),
    "native arithmetic": lambda: Dataset.from_tensor_slices(ROWS).map(lambda v: v / 3),
    "sums": lambda: Dataset.from_tensor_slices(LONG).map(lambda v: (v.sum(), v)),
    "a stream": lambda: Dataset.from_tensor_slices(ROWS).batch(4).map(lambda v: v.mean(0)),
    "natives": lambda: Dataset.from_tensor_slices(PICTURES).map(pixels),
    "constants": lambda: Dataset.range(3).map(lambda v: (7, v)),
}


@functools.cache
def plan(name: str) -> Dataset:
    return PLANS[name]()


@functools.cache
def expected(name: str) -> list[Any]:
    return outcomes(iter(plan(name)))


@pytest.mark.parametrize("name", PLANS)
@settings(max_examples=4, deadline=None)
@given(stop=st.integers(0, 25), back=st.booleans())
def test_elements_errors_and_states_are_the_same_one_by_one(
    name: str, stop: int, back: bool
) -> None:
    one_by_one = without(plan(name), "map_vectorization")
    first, then = (one_by_one, plan(name)) if back else (plan(name), one_by_one)
    iterator = iter(first)
    assert outcomes(iterator, stop) == expected(name)[:stop]
    again = iter(then)
    again.restore(json.loads(json.dumps(iterator.state())))
    assert outcomes(again) == expected(name)[stop:]


@pytest.mark.parametrize(
    ("name", "block", "single"),
    [("whole numbers", 16384, 1), ("one rounding", 1024, 1), ("sums", 1024, 1024)],
)
def test_map_vectorization(
    name: str, block: int, single: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, int]] = []
    run = CompiledFunction.__call__

    def noted(self: CompiledFunction, rows: Any, position: Any) -> Any:
        calls.append((rows.n, self.block_length))
        return run(self, rows, position)

    monkeypatch.setattr(CompiledFunction, "__call__", noted)
    one_by_one = without(plan(name), "map_vectorization")
    assert f"compiled for blocks of {block} (" in plan(name).explain()
    assert "one element at a time" not in plan(name).explain()
    shown = one_by_one.explain()
    assert f"compiled for blocks of {single} (" in shown
    assert "one element at a time" in shown
    list(plan(name))
    assert max(calls) > (1, block)
    calls.clear()
    list(one_by_one)
    assert calls == [(1, single)] * 23


def test_maps_of_varying_shapes_are_computed_one_by_one() -> None:
    ds = Dataset.range(10).batch(4).map(lambda v: v * 2)
    found = without(ds, "map_vectorization")
    assert [row.tolist() for row in found] == [row.tolist() for row in ds]
    assert "one element at a time" in found.explain()


@pytest.mark.parametrize(
    ("function", "same"),
    [
        (lambda v: v.astype(np.int32)[::-1] * 3 + 1, True),
        (lambda v: jnp.clip(v / 3, -1, 1), True),
        (lambda v: jax.nn.relu(v), True),
        (lambda v: v / np.arange(1, 8, dtype=np.float32), False),
        (lambda v: v * 2 + 1, False),
        (lambda v: v.sum(), False),
        (lambda v: jnp.tanh(v), False),
        (lambda v: jax.lax.fori_loop(0, 3, lambda _, x: x * 2, v), False),
        (lambda v: (v > 0).sum(), True),
    ],
)
def test_where_the_length_of_blocks_may_show(function: Callable[[Any], Any], same: bool) -> None:
    program = jax.make_jaxpr(function)(ROWS[0]).jaxpr
    assert same_at_any_length(program) is same


def test_map_and_batch_fusion() -> None:
    files = [dl.image.encode_png(np.full((9, 7, 3), i, np.uint8)) for i in range(25)]
    source = Dataset.range(4).interleave(lambda _: Dataset.from_tensor_slices(files))
    ds = source.map(pixels, num_parallel_calls=2).batch(48)

    def run(dataset: Dataset) -> tuple[list[int], list[Any]]:
        """How many elements the map made at a time, and the batches."""
        iterator = iter(dataset)
        stages = [iterator.stage]
        for stage in stages:
            stages += stage.inputs()
        batch = next(stage for stage in stages if isinstance(stage, BatchStage))
        inner, sizes = batch.source.next, []

        def noted(limit: int) -> Any:
            block = inner(limit)
            sizes.extend([] if block is None else [block.n])
            return block

        batch.source.next = noted  # type: ignore[method-assign]
        return sizes, [made.tolist() for made in iterator]

    fused, apart = run(ds), run(without(ds, "map_and_batch_fusion"))
    assert fused[0] == [48, 48, 4]
    assert apart[0] != fused[0]
    assert sum(apart[0]) == 100
    assert fused[1] == apart[1]
    assert ", whole batches of 48, " in ds.explain()
    assert "whole batches" not in without(ds, "map_and_batch_fusion").explain()


@pytest.mark.parametrize("workers", [None, 1, 2])
@pytest.mark.parametrize("source", ["arrays", "stream"])
def test_first_blocks_end_with_a_batch_so_that_no_later_batch_is_copied_together(
    workers: int | None, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """250 rows are nearly two blocks of 128; the first block is asked for as one of 128."""
    numbers = np.arange(1030, dtype=np.float32)
    ds = Dataset.from_tensor_slices(numbers)
    if source == "stream":
        ds = ds.filter(lambda number: number >= 0)
    ds = ds.map(lambda v: jnp.full((32, 64, 3), v).cumsum(0), num_parallel_calls=workers).batch(50)
    assert "compiled for blocks of 128 " in ds.explain()
    pieces: list[int] = []
    joined = BatchStage._joined

    def noted(self: BatchStage, parts: Any) -> Any:
        pieces.append(len(parts))
        return joined(self, parts)

    monkeypatch.setattr(BatchStage, "_joined", noted)
    found = list(ds)
    assert [len(batch) for batch in found] == [50] * 20 + [30]
    assert [batch[:, 0, 0, 0].tolist() for batch in found] == [
        numbers[start : start + 50].tolist() for start in range(0, 1030, 50)
    ]
    assert set(pieces) == {1}
