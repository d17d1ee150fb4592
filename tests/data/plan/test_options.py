"""Options: which of them hold, and what is refused."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

import drumline as dl
from drumline.data import Dataset, Options
from drumline.data.options import (
    AutoShardPolicy,
    AutotuneOptions,
    DistributeOptions,
    OptimizationOptions,
    ThreadingOptions,
)
from drumline.data.runtime.statistics import Statistics


def sharded(policy: AutoShardPolicy) -> Options:
    options = Options()
    options.experimental_distribute.auto_shard_policy = policy
    return options


def threads(number: int | None) -> Options:
    options = Options()
    options.threading.private_threadpool_size = number
    return options


def test_what_was_not_set_stays() -> None:
    dataset = Dataset.range(4).with_options(threads(3)).map(lambda v: v + 1)
    dataset = dataset.with_options(sharded(AutoShardPolicy.DATA)).batch(2)
    assert dataset.options().threading.private_threadpool_size == 3
    assert dataset.options().experimental_distribute.auto_shard_policy is AutoShardPolicy.DATA
    assert [batch.tolist() for batch in dataset] == [[1, 2], [3, 4]]


def test_the_last_given_value_holds_even_if_it_is_the_default() -> None:
    dataset = Dataset.range(4).with_options(threads(3)).with_options(threads(None))
    assert dataset.options().threading.private_threadpool_size is None
    data = DistributeOptions(auto_shard_policy=AutoShardPolicy.DATA)
    dataset = dataset.with_options(Options(experimental_distribute=data)).with_options(Options())
    assert dataset.options().experimental_distribute.auto_shard_policy is AutoShardPolicy.DATA
    auto = sharded(AutoShardPolicy.AUTO)
    assert dataset.with_options(auto).options() == threads(None)


def test_options_given_are_not_shared() -> None:
    options = sharded(AutoShardPolicy.OFF)
    dataset = Dataset.range(4).with_options(options)
    options.experimental_distribute.auto_shard_policy = AutoShardPolicy.FILE
    assert dataset.options().experimental_distribute.auto_shard_policy is AutoShardPolicy.OFF


@pytest.mark.parametrize("join", [lambda a, b: Dataset.zip(a, b), lambda a, b: a.concatenate(b)])
def test_options_of_all_inputs_hold(join: Any) -> None:
    first = Dataset.range(4).with_options(threads(3))
    second = Dataset.range(4).with_options(sharded(AutoShardPolicy.OFF))
    options = join(first, second).options()
    assert options.threading.private_threadpool_size == 3
    assert options.experimental_distribute.auto_shard_policy is AutoShardPolicy.OFF


def test_policies() -> None:
    assert {policy.name: policy.value for policy in dl.data.experimental.AutoShardPolicy} == {
        "OFF": -1,
        "AUTO": 0,
        "FILE": 1,
        "DATA": 2,
        "HINT": 3,
    }
    assert Options().experimental_distribute.auto_shard_policy is AutoShardPolicy.AUTO


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("autotune", True, r"Options.autotune takes AutotuneOptions, got True.*autotune.enabled"),
        ("threading", None, r"takes ThreadingOptions, got None.*threading.private_threadpool_size"),
        ("threading", AutotuneOptions, "ThreadingOptions, got the class AutotuneOptions itself"),
        (
            "experimental_statistics",
            Statistics,
            r"instance of .*, got the class .*Statistics\(\)",
        ),
    ],
)
def test_an_option_is_refused_where_it_is_given(name: str, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        setattr(Options(), name, value)
    with pytest.raises(TypeError, match=message):
        Options(**{name: value})


@pytest.mark.parametrize("group", [Options, ThreadingOptions, OptimizationOptions])
def test_misspelt_names_are_refused_alike(group: Any) -> None:
    right = dataclasses.fields(group)[0].name
    with pytest.raises(AttributeError, match=f"Did you mean '{right}'. It has {right}") as assigned:
        setattr(group(), right[1:], False)
    with pytest.raises(TypeError) as constructed:
        group(**{right[1:]: False})
    assert str(constructed.value) == str(assigned.value)


def test_what_is_always_so_is_no_argument() -> None:
    with pytest.raises(TypeError, match="is always False; leave it out"):
        OptimizationOptions(map_fusion=False)  # type: ignore[call-arg]


def test_what_is_refused() -> None:
    options = Options()
    with pytest.raises(TypeError, match="must be one of AutoShardPolicy.OFF.*got 'DATA'"):
        options.experimental_distribute.auto_shard_policy = "DATA"  # type: ignore[assignment]
    with pytest.raises(AttributeError, match="no option 'num_devices'; it has auto_shard_policy"):
        options.experimental_distribute.num_devices = 2  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="takes dl.data.Options, got dict"):
        Dataset.range(3).with_options({})  # type: ignore[arg-type]


def test_the_options_of_a_dataset_cannot_be_changed():
    dataset = Dataset.range(3).with_options(threads(3))
    found = dataset.options()
    with pytest.raises(ValueError, match="has no effect.*with_options"):
        found.deterministic = True
    with pytest.raises(ValueError, match="has no effect"):
        found.threading.private_threadpool_size = 1
    assert dataset.options() == found == threads(3)
    again = Dataset.range(3).with_options(found)
    assert again.options().threading.private_threadpool_size == 3
    assert pickle.loads(pickle.dumps(again)).options() == found
    given = threads(2)
    kept = dataset.with_options(given)
    given.threading.private_threadpool_size = 1
    assert kept.options().threading.private_threadpool_size == 2
