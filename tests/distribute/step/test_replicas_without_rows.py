"""Batches with fewer rows than replicas: what the others compute, and what a next step is given."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline.data import Dataset
from drumline.distribute import MirroredStrategy, PerReplica, Strategy
from tests.distribute.step.loops import mirrored


@pytest.fixture(params=[False, True], ids=["compiled", "eagerly"])
def strategy(request: pytest.FixtureRequest) -> Any:
    dl.config.run_functions_eagerly(request.param)
    yield mirrored(2)
    dl.config.run_functions_eagerly(False)


def ones(strategy: Strategy, rows: int, batch: int) -> Any:
    return strategy.experimental_distribute_dataset(
        Dataset.from_tensor_slices(np.ones(rows, np.float32)).batch(batch)
    )


def context() -> Any:
    return dl.distribute.get_replica_context()


def test_what_a_step_returned_is_given_back_and_no_row_is_lost(strategy: MirroredStrategy) -> None:
    def step(w: Any, x: Any) -> Any:
        return w + 1, context().all_reduce("SUM", jnp.sum(x))

    w: Any = jnp.zeros(())
    sums = []
    for _ in range(2):
        for x in ones(strategy, 9, 4):
            w, total = strategy.run(step, args=(w, x))
            sums.append(float(strategy.reduce("MEAN", total)))
    assert sums == [4, 4, 1] * 2
    (last,) = strategy.experimental_local_results(w)  # of the replica that had the row
    assert float(last) == 6
    assert [
        float(v) for v in strategy.run(step, args=(w, next(iter(ones(strategy, 2, 2)))))[0].values
    ] == [7, 7]


@settings(max_examples=8)
@given(
    replicas=st.sampled_from([2, 4]),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    mean=st.booleans(),
)
def test_each_replicas_own_total_counts_every_row(
    replicas: int, sizes: list[int], mean: bool
) -> None:
    """Also where a short batch comes in the middle, and is followed by a full one."""
    strategy = mirrored(replicas)
    rows = np.split(np.arange(1, sum(sizes) + 1, dtype=np.float32), np.cumsum(sizes)[:-1])
    total: Any = jnp.zeros(())

    def step(total: Any, x: Any) -> Any:
        return total + x.sum(), context().all_reduce("SUM", x.sum())

    for x in strategy.experimental_distribute_dataset(rows):
        total, met = strategy.run(step, args=(total, x))
    everyone = strategy.run(lambda total: total, args=(total,))
    known = everyone.of_all() if isinstance(everyone, PerReplica) else everyone
    assert float(strategy.reduce("SUM", known)) == sum(sizes) * (sum(sizes) + 1) / 2
    assert float(strategy.reduce("MEAN", met)) == rows[-1].sum()


def test_those_without_rows_add_nothing_and_return_nothing(strategy: MirroredStrategy) -> None:
    (x,) = ones(strategy, 1, 4)

    def step(w: Any, x: Any) -> Any:
        met = context().all_reduce("MEAN", jnp.mean(x)), context().all_reduce("SUM", w)
        return {"met": met, "rows": x, "gathered": context().all_gather(w[None])}

    with jax.debug_nans(False):
        out = strategy.run(step, args=(jnp.float32(3), x))
    assert [len(v.values) for v in jax.tree.leaves(out, is_leaf=_per_replica)] == [1] * 4
    assert [float(v.values[0]) for v in out["met"]] == [1, 3]
    assert out["gathered"].values[0].tolist() == [3]
    assert strategy.gather(out["rows"], 0).tolist() == [1]


def _per_replica(node: Any) -> bool:
    return isinstance(node, PerReplica)


def test_a_value_that_is_not_known_is_refused(strategy: MirroredStrategy) -> None:
    (short,) = ones(strategy, 1, 4)
    (full,) = ones(strategy, 4, 4)
    state = strategy.run(lambda w, x: {"w": w + jnp.max(x)}, args=(jnp.zeros(()), short))
    add = lambda state, x: state["w"] + x.sum()  # noqa: E731
    with pytest.raises(ValueError, match=r"Replica 1 has rows .* args\[0\]\['w'\] .*step raised"):
        strategy.run(add, args=(state, full))
    with pytest.raises(ValueError, match=r"kwargs\['state'\]"):
        strategy.run(add, kwargs={"state": state, "x": full})
    assert len(strategy.run(add, args=(state, short)).values) == 1
    once = strategy.run(lambda x: x.sum(), args=(short,))
    with pytest.raises(ValueError, match="nothing but the batch to compute it from"):
        strategy.run(lambda w, x: w + x.sum(), args=(once, full))


def test_those_without_rows_may_make_other_calls(strategy: MirroredStrategy) -> None:
    (short,) = ones(strategy, 1, 4)
    (full,) = ones(strategy, 4, 4)

    def step(w: Any, x: Any) -> Any:
        return w + (context().all_reduce("SUM", x.sum()) if len(x) else 0.0)

    w = strategy.run(step, args=(jnp.zeros(()), short))
    assert float(strategy.reduce("MEAN", w)) == 1
    with pytest.raises(ValueError, match="without rows it makes other calls"):
        strategy.run(step, args=(w, full))


def test_a_merge_call_is_followed(strategy: MirroredStrategy) -> None:
    with strategy.scope():
        seen = dl.Variable(0.0)

    def merged(strategy: Any, value: Any) -> Any:
        total = strategy.reduce("SUM", value)
        seen.assign_add(total)
        return total

    def step(w: Any, x: Any) -> Any:
        return w + context().merge_call(merged, args=(x.sum(),))

    w: Any = jnp.zeros(())
    for _ in range(2):
        for x in ones(strategy, 5, 4):
            w = strategy.run(step, args=(w, x))
    assert float(strategy.reduce("MEAN", w)) == float(seen.value) == 10


def test_what_they_share_is_each_ones_own(strategy: MirroredStrategy) -> None:
    """A step may change the dict that a sum gave it."""
    (x,) = ones(strategy, 3, 4)

    def step(x: Any) -> Any:
        met = context().all_reduce("SUM", {"s": x.sum()})
        met["s"] = met["s"] + 1
        return met

    assert [float(v) for v in strategy.run(step, args=(x,))["s"].values] == [4, 4]


def test_whose_the_results_are_follows_the_batch(strategy: MirroredStrategy) -> None:
    """A program that was compiled for one batch is run again after another."""
    sizes = [3, 1, 3]
    batches = strategy.experimental_distribute_dataset([np.ones(n, np.float32) for n in sizes])
    add = lambda x: x.sum()  # noqa: E731
    out = [strategy.run(add, args=(x,)) for x in batches]
    assert [len(each.values) for each in out] == [2, 1, 2]
    assert [each.replicas for each in out] == [None, (0,), None]


def test_losses_are_scaled_by_those_that_take_part(strategy: MirroredStrategy) -> None:
    def step(x: Any) -> Any:
        loss = dl.nn.scale_regularization_loss(jnp.float32(6))
        return loss, dl.nn.compute_average_loss(x)

    for rows in (4, 1):
        (x,) = ones(strategy, rows, 4)
        regularization, loss = strategy.run(step, args=(x,))
        assert float(strategy.reduce("SUM", regularization)) == 6
        assert float(strategy.reduce("SUM", loss)) == 1


def test_a_short_batch_in_the_middle_of_a_compiled_loop() -> None:
    strategy = mirrored(4)
    data = Dataset.from_generator(
        lambda: (np.ones(n, np.float32) for n in (4, 8, 1, 8, 8, 3)),
        output_signature=dl.TensorSpec([None], "float32"),
    )

    @dl.function
    def epoch(w: Any, data: Any) -> Any:
        for x in data:
            w = strategy.run(lambda w, x: w + context().all_reduce("SUM", x.sum()), args=(w, x))
        return w

    w = epoch(jnp.zeros(()), strategy.experimental_distribute_dataset(data))
    w = epoch(w, strategy.experimental_distribute_dataset(data))
    assert float(strategy.experimental_local_results(w)[0]) == 2 * 32


def test_an_axis_by_name_is_refused_with_what_to_do() -> None:
    strategy = mirrored(2)
    (full,), (short,) = ones(strategy, 4, 4), ones(strategy, 3, 4)
    step = lambda x: jax.lax.psum(x.sum(), "replica")  # noqa: E731
    assert float(strategy.reduce("MEAN", strategy.run(step, args=(full,)))) == 4
    with pytest.raises(NameError, match="get_replica_context\\(\\).all_reduce"):
        strategy.run(step, args=(short,))


def test_those_without_rows_follow_sums_and_gathers_within_gradients(
    strategy: MirroredStrategy,
) -> None:
    def step(w: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            everyone = context().all_gather(w * x[: max(len(x), 1)])
            return context().all_reduce("SUM", (w * x).sum()) ** 2 + everyone.sum()

        gradient = context().all_reduce("SUM", jax.grad(loss)(w))
        return w + 0 * gradient, gradient

    w: Any = jnp.float32(2)
    for _ in range(2):
        gradients = []
        for x in ones(strategy, 5, 4):
            w, gradient = strategy.run(step, args=(w, x))
            gradients.append(float(strategy.reduce("MEAN", gradient)))
    assert gradients[1] == 2 * 2 * 1 + 1
    assert float(strategy.experimental_local_results(w)[0]) == 2
