"""`PerReplica` as a pytree, as no array, and in other libraries' hands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import drumline as dl
from drumline.distribute import MirroredStrategy, PerReplica
from tests.distribute.step.loops import mirrored


@pytest.fixture
def strategy() -> MirroredStrategy:
    return mirrored(2)


def results(strategy: MirroredStrategy) -> list[PerReplica]:
    """Stacked values, values apart, and values of one replica alone."""
    kinds = []
    for rows in (4, 3, 1):
        (x,) = strategy.experimental_distribute_dataset([np.arange(rows, dtype=np.float32)])
        kinds.append(strategy.run(lambda w, x: {"w": w, "x": x}, args=(jnp.float32(1), x)))
    return [leaf for kind in kinds for leaf in kind.values()]


def test_any_tree_map_keeps_the_kind(strategy: MirroredStrategy) -> None:
    for result in results(strategy):
        for change in (lambda _: None, lambda _: object(), lambda _: 3, lambda leaf: leaf):
            changed = jax.tree.map(change, result)
            leaves, treedef = jax.tree.flatten(changed)
            again = jax.tree.unflatten(treedef, leaves)
            assert isinstance(again, PerReplica) and again.replicas == result.replicas
            assert len(jax.tree.leaves(changed)) in (0, len(jax.tree.leaves(result)))
        doubled = jax.tree.map(lambda leaf: 2 * leaf, result)
        for one, two in zip(result.values, doubled.values, strict=True):
            np.testing.assert_array_equal(two, 2 * one)


def test_paths_name_the_replicas(strategy: MirroredStrategy) -> None:
    named = jax.tree_util.tree_flatten_with_path({"p": PerReplica([1, 2])})[0]
    assert [jax.tree_util.keystr(path) for path, _ in named] == ["['p'][0]", "['p'][1]"]


@pytest.mark.parametrize(
    "use",
    [
        lambda r: r + 1,
        lambda r: 1 - r,
        lambda r: np.ones(2) * r,
        lambda r: jnp.ones(2) / r,
        lambda r: -r,
        lambda r: r < 1,
        lambda r: r[0],
        lambda r: len(r),
        float,
        int,
        np.asarray,
    ],
)
def test_it_is_no_array_and_says_what_to_do(strategy: MirroredStrategy, use: Any) -> None:
    for result in results(strategy):
        with pytest.raises(TypeError, match=r"experimental_local_results.*strategy\.reduce"):
            use(result)
        with pytest.raises(TypeError, match="PerReplica"):
            jnp.asarray(result)


def test_orbax_saves_and_restores_what_run_returned(
    strategy: MirroredStrategy, tmp_path: Path
) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    rank = lambda: dl.distribute.get_replica_context().replica_id_in_sync_group  # noqa: E731
    start = {"w": np.float32([1, 2]), "key": jax.random.key(3)}
    params = strategy.run(lambda p: {**p, "w": p["w"] + rank()}, args=(start,))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "all", params)
        checkpointer.save(tmp_path / "one", strategy.experimental_local_results(params)[0])
        checkpointer.wait_until_finished()
        back = checkpointer.restore(tmp_path / "all", params)
        one = checkpointer.restore(tmp_path / "one", strategy.experimental_local_results(params)[0])
    doubled = strategy.run(lambda p: p["w"] * 2, args=(back,))
    assert [v.tolist() for v in doubled.values] == [[2, 4], [4, 6]]
    assert one["w"].tolist() == [1, 2] and one["key"] == jax.random.key(3)


def test_typed_keys_go_everywhere(strategy: MirroredStrategy) -> None:
    rank = lambda: dl.distribute.get_replica_context().replica_id_in_sync_group  # noqa: E731
    key = jax.random.key(5)
    own = strategy.run(lambda key: jax.random.fold_in(key, rank()), args=(key,))
    expected = [jax.random.fold_in(key, index) for index in range(2)]
    assert [bool(a == b) for a, b in zip(own.values, expected, strict=True)] == [True, True]
    for rows in (4, 1, 3):
        (x,) = strategy.experimental_distribute_dataset([np.zeros(rows, np.float32)])
        own, drawn = strategy.run(
            lambda key, x: (jax.random.split(key)[1], x + jax.random.normal(key)), args=(own, x)
        )
        assert strategy.gather(drawn, 0).tolist() == [
            float(jax.random.normal(expected[index]))
            for index, share in enumerate(np.array_split(np.zeros(rows), 2))
            for _ in share
        ]
        expected = [jax.random.split(each)[1] for each in expected]
    assert bool(strategy.gather(strategy.run(lambda k: k[None], args=(own,)), 0)[0] == expected[0])
    made = strategy.experimental_distribute_values_from_function(
        lambda context: jax.random.key(context.replica_id_in_sync_group)
    )
    strategy.run(jax.random.split, args=(made,))
    distributed = strategy.experimental_distribute_dataset([jax.random.split(key, 4)])
    (keys,) = strategy.run(jax.vmap(jax.random.uniform), args=tuple(distributed)).values[:1]
    assert keys.shape == (2,)
    normal = dl.function(lambda key: jax.random.normal(key, (2,)))
    np.testing.assert_array_equal(normal(key), jax.random.normal(key, (2,)))
    again = dl.function(lambda key: strategy.run(jax.random.split, args=(key,)))(own)
    assert bool((again.values[1] == jax.random.split(expected[1])).all())
    dl.config.run_functions_eagerly(True)
    try:
        eager = strategy.run(lambda key: jax.random.fold_in(key, rank()), args=(key,))
    finally:
        dl.config.run_functions_eagerly(False)
    assert bool(eager.values[1] == jax.random.fold_in(key, 1))


def test_no_warning_of_python_numbers_where_there_are_none(strategy: MirroredStrategy) -> None:
    """Warnings are errors here: five kinds of batches are five programs, and nobody's mistake."""
    for rows in range(1, 8):
        (x,) = strategy.experimental_distribute_dataset([np.ones((rows, rows), np.float32)])
        for structure in (x, (x,), [x], {"x": x}, {"y": x}, (x, None)):
            strategy.run(_identity, args=(structure,))


def _identity(tree: Any) -> Any:
    return tree


@pytest.mark.parametrize("rows", [4, 3])
@pytest.mark.parametrize("compiled", [False, True])
def test_an_nnx_object_that_a_step_changes_is_returned_or_refused(
    strategy: MirroredStrategy, rows: int, compiled: bool
) -> None:
    nnx = pytest.importorskip("flax.nnx", exc_type=ImportError)
    model = nnx.Linear(2, 1, rngs=nnx.Rngs(0))
    (x,) = strategy.experimental_distribute_dataset([np.ones((rows, 2), np.float32)])

    def change(model: Any, x: Any) -> Any:
        model.bias[...] = model.bias[...] + 1
        return model(x).sum()

    def run(fn: Any) -> Any:
        outer = lambda model, x: strategy.run(fn, args=(model, x))  # noqa: E731
        return (dl.function(outer) if compiled else outer)(model, x)

    assert float(strategy.reduce("SUM", run(lambda model, x: model(x).sum()))) == pytest.approx(
        float(model(np.ones((rows, 2), np.float32)).sum()), rel=1e-5
    )
    with pytest.raises(RuntimeError, match=r"an nnx.Linear.*nnx\.split"):
        run(change)
    changed, _ = run(lambda model, x: (model, change(model, x)))
    (first, *_) = strategy.experimental_local_results(changed)
    assert first.bias[...].tolist() == [1] and model.bias[...].tolist() == [0]


def test_a_tree_of_other_things_is_shown(strategy: MirroredStrategy) -> None:
    result = strategy.run(lambda value: value, args=(np.ones(2, np.float32),))
    assert repr(jax.tree.map(lambda leaf: None, result)) == "PerReplica(stacked=None)"
    assert "ShapeDtypeStruct" in repr(jax.eval_shape(lambda tree: tree, result))
