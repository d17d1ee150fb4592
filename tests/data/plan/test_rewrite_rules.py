"""Each rule does its work, and nothing else."""

from drumline.data import Dataset
from drumline.data.operations import map as function_nodes
from drumline.data.operations.ordering import order as ordering
from drumline.data.operations.prefetch import Prefetch
from drumline.data.options import Options
from drumline.data.rewrite.optimize import (
    auto_prefetch,
    drop_noops,
    map_parallelization,
    optimize,
    push_take_skip,
    rules_in_force,
)


def names(plan):
    return [node.name for node in plan.walk()]


def plan_of(ds):
    return ds._plan


def test_noops_are_dropped():
    ds = Dataset.range(5).skip(0).take(9).repeat(1).prefetch(2).prefetch(3)
    plan = drop_noops(plan_of(ds))
    assert names(plan) == ["range", "prefetch"]
    assert plan.size == 3
    assert names(drop_noops(plan_of(Dataset.range(5).take(3)))) == ["range", "take"]


def test_repeat_of_a_shuffle_is_kept_since_its_pass_shows_in_the_order():
    ds = Dataset.range(50).shuffle(50, seed=1).repeat(1)
    assert "repeat" in names(drop_noops(plan_of(ds)))


def test_take_and_skip_move_below_compiled_maps_only():
    ds = Dataset.range(9).map(lambda v: v + 1)
    assert names(push_take_skip(plan_of(ds.take(3)))) == ["range", "take", "map"]
    assert names(push_take_skip(plan_of(ds.skip(3)))) == ["range", "skip", "map"]
    python = Dataset.range(9).map(lambda v: int(v)).take(3)
    assert names(push_take_skip(plan_of(python))) == ["range", "map", "take"]


def test_runs_of_take_and_skip_merge():
    plan = push_take_skip(plan_of(Dataset.range(99).take(9).take(4)))
    assert isinstance(plan, ordering.Take)
    assert plan.count == 4
    assert names(plan) == ["range", "take"]
    plan = push_take_skip(plan_of(Dataset.range(99).skip(9).skip(4)))
    assert isinstance(plan, ordering.Skip)
    assert plan.count == 13


def test_compiled_maps_get_workers_unless_the_user_said_how_many():
    ds = Dataset.range(9).map(lambda v: v + 1).map(lambda v: v * 2, num_parallel_calls=5)
    maps = [
        n for n in map_parallelization(plan_of(ds), 3).walk() if isinstance(n, function_nodes.Map)
    ]
    assert [m.workers for m in maps] == [3, 5]


def test_a_prefetch_ends_plans_that_compute_and_run_no_python():
    computed = Dataset.range(9).map(lambda v: v + 1).batch(2)
    assert isinstance(auto_prefetch(plan_of(computed)), Prefetch)
    assert names(auto_prefetch(plan_of(Dataset.range(9)))) == ["range"]
    python = Dataset.range(9).map(lambda v: int(v))
    assert names(auto_prefetch(plan_of(python))) == ["range", "map"]


def test_the_optimizer_can_be_switched_off():
    options = Options()
    options.experimental_optimization.apply_default_optimizations = False
    plan = plan_of(Dataset.range(5).skip(0))
    assert optimize(plan, rules_in_force(options), None) is plan
