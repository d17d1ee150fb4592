"""What each option changes: a plan, a number of threads, when work is done. Never an element."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drumline.data import Dataset, Options, TensorSpec
from drumline.data.elements import columns as copying
from drumline.data.engine.iterator import Epochs
from drumline.data.operations.ordering.order import ParallelSourceStage
from drumline.data.operations.prefetch import SLACK


def options(group: str, **values: Any) -> Options:
    made = Options()
    for name, value in values.items():
        setattr(getattr(made, group) if group else made, name, value)
    return made


def optimized(dataset: Dataset, **rules: bool | None) -> list[str]:
    """The operations of the plan as it runs, sources first."""
    epochs = Epochs(dataset._plan, options("experimental_optimization", **rules))
    return [node.name for node in epochs.optimized.walk()]


def as_lists(dataset: Dataset) -> list[Any]:
    return [element.tolist() for element in dataset]


def doubled(dataset: Dataset) -> Dataset:
    return dataset.map(lambda v: v * 2)


@pytest.mark.parametrize(
    ("rule", "make", "without", "with_it"),
    [
        ("noop_elimination", lambda d: d.skip(0), ["range", "skip"], ["range"]),
        (
            "take_skip_pushdown",
            lambda d: doubled(d).take(3),
            ["range", "map", "take"],
            ["range", "take", "map"],
        ),
        (
            "shard_pushdown",
            lambda d: doubled(d).shard(3, 1),
            ["range", "map", "shard"],
            ["range", "shard", "map"],
        ),
        (
            "window_and_batch_fusion",
            lambda d: d.window(2).flat_map(lambda w: w.batch(2)),
            ["range", "window", "flat_map"],
            ["range", "stacked_windows"],
        ),
        ("inject_prefetch", doubled, ["range", "map"], ["range", "map", "prefetch"]),
    ],
)
def test_rules(
    rule: str,
    make: Callable[[Dataset], Dataset],
    without: list[str],
    with_it: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)), raising=False)
    dataset = make(Dataset.range(10))
    assert optimized(dataset, apply_default_optimizations=False) == without
    assert optimized(dataset, apply_default_optimizations=False, **{rule: True}) == with_it
    assert rule not in ("inject_prefetch",) or optimized(dataset, **{rule: False}) == without
    off = options("experimental_optimization", **{rule: False})
    assert as_lists(dataset.with_options(off)) == as_lists(dataset)


def test_map_parallelization(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)), raising=False)
    dataset = doubled(Dataset.range(10))

    def stage(**rules: bool) -> Any:
        rules["inject_prefetch"] = False
        chosen = options("experimental_optimization", **rules)
        return iter(dataset.with_options(chosen)).stage

    assert stage().workers == 3
    assert isinstance(stage(), ParallelSourceStage)
    assert not isinstance(stage(map_parallelization=False), ParallelSourceStage)


def test_a_synchronous_map_is_left_to_the_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    chosen = options("experimental_optimization", inject_prefetch=False)
    alone = Dataset.range(10).map(lambda v: v * 2, synchronous=True).with_options(chosen)
    assert iter(alone).stage.workers == 0
    assert list(alone) == list(doubled(Dataset.range(10)))


def test_an_unbounded_pool_is_the_maps_own() -> None:
    made = Options()
    made.threading.private_threadpool_size = 2

    def workers(unbounded: bool) -> int:
        mapped = Dataset.range(9).map(lambda v: int(v), 5, use_unbounded_threadpool=unbounded)
        return iter(mapped.with_options(made)).stage.workers

    assert (workers(False), workers(True)) == (2, 5)


def test_what_is_always_so_may_be_said_but_not_changed() -> None:
    chosen = Options().experimental_optimization
    chosen.map_fusion = None  # type: ignore[attr-defined]
    assert chosen.filter_fusion is False  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"map_fusion is always False and cannot be True: two"):
        chosen.map_fusion = True  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="has no option 'map_fussion'"):
        _ = chosen.map_fussion  # type: ignore[attr-defined]


def test_older_names_are_those_of_today() -> None:
    chosen = Options()
    chosen.experimental_deterministic = False  # type: ignore[attr-defined]
    chosen.experimental_threading.private_threadpool_size = 3
    assert chosen.deterministic is False and chosen.threading.private_threadpool_size == 3
    assert chosen.experimental_deterministic is False
    options = Dataset.range(3).with_options(chosen).options()
    assert options.deterministic is False and options.threading.private_threadpool_size == 3


@pytest.mark.parametrize(
    ("group", "name", "value", "error", "message"),
    [
        ("", "deterministic", 1, TypeError, "Options.deterministic must be a bool or None, got 1"),
        ("", "experimental_statistics", {}, TypeError, "takes an instance of dl.data.experimental"),
        ("", "experimental_deterministic", 1, TypeError, "Options.deterministic must be a bool"),
        ("autotune", "enabled", "yes", TypeError, "AutotuneOptions.enabled must be a bool"),
        ("autotune", "cpu_budget", -1, ValueError, "cpu_budget must be at least 0, got -1"),
        ("autotune", "ram_budget", 1.5, TypeError, "ram_budget must be an integer or None"),
        ("autotune", "min_parallelism", 1, AttributeError, "one worker is the least"),
        ("threading", "private_threadpool_size", True, ValueError, "must be at least 0"),
        ("threading", "private_threads", 2, AttributeError, "It has private_threadpool_size, max"),
        ("experimental_optimization", "inject_prefetch", 0, TypeError, "must be a bool or None"),
        ("experimental_distribute", "num_devices", 2, AttributeError, "knows its devices"),
    ],
)
def test_what_is_refused(
    group: str, name: str, value: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        options(group, **{name: value})


def calls_while_the_first_takes_long(
    option: bool | None, argument: bool | None, result: Callable[[int], Any] = int
) -> int:
    """How many of 300 calls by three workers are over before the first one is."""
    others: list[int] = []
    running, first = threading.Event(), threading.Event()

    def slow_at_first(value: Any) -> Any:
        if not running.is_set():
            return result(int(value))
        if int(value) == 0:
            assert first.wait(30)
        else:
            # So slow that a call is not given several elements.
            time.sleep(0.03)
            others.append(int(value))
        return result(int(value))

    mapped = Dataset.range(300).map(slow_at_first, 3, deterministic=argument)
    iterator = iter(mapped.with_options(options("", deterministic=option)))
    found: list[Any] = []
    running.set()
    reader = threading.Thread(target=lambda: found.extend(iterator))
    reader.start()
    seen = -1
    while seen != len(others):
        seen = len(others)
        time.sleep(0.5)
    first.set()
    reader.join(30)
    assert len(found) == 300
    return seen


@pytest.mark.parametrize(
    ("option", "argument", "calls"),
    [
        (None, None, 5),
        (True, None, 5),
        (False, True, 5),
        (False, None, 95),
        (True, False, 95),
    ],
)
def test_what_need_not_be_deterministic_goes_on_while_one_element_is_late(
    option: bool | None, argument: bool | None, calls: int
) -> None:
    assert calls_while_the_first_takes_long(option, argument) == calls


def test_few_results_are_ahead_before_it_is_known_what_one_takes() -> None:
    assert calls_while_the_first_takes_long(False, None, lambda v: np.zeros(1 + v % 2)) == 5


def test_what_is_ready_does_not_wait_for_a_slow_input() -> None:
    read: list[int] = []

    def slow() -> Any:
        for i in range(100):
            time.sleep(0.005)
            read.append(i)
            yield i

    numbers = Dataset.from_generator(slow, output_signature=TensorSpec((), np.int64))
    mapped = numbers.map(lambda v: v.item(), num_parallel_calls=3, deterministic=False)
    read.clear()
    iterator = iter(mapped)
    assert next(iterator) == 0
    assert len(read) < 30
    assert [int(v) for v in iterator] == list(range(1, 100))


@pytest.mark.parametrize("deterministic", [True, False, None])
def test_order_is_kept_whatever_deterministic_says(deterministic: bool | None) -> None:
    def late(value: Any) -> Any:
        time.sleep(0.002 if int(value) % 3 == 0 else 0.0)
        return int(value)

    dataset = Dataset.range(20).map(late, num_parallel_calls=3, deterministic=deterministic)
    found = dataset.with_options(options("", deterministic=deterministic))
    assert [int(v) for v in found] == list(range(20))


@pytest.mark.parametrize(("most", "threads"), [(None, 1), (1, 1), (3, 3)])
def test_max_intra_op_parallelism(
    most: int | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, names = [], set()
    real = copying.gather_rows

    def noted(source: np.ndarray, index: np.ndarray, out: np.ndarray) -> None:
        sizes.append(out.nbytes)
        names.add(threading.current_thread().name)
        real(source, index, out)

    monkeypatch.setattr(copying, "gather_rows", noted)
    rows = np.arange(3000 * 700, dtype=np.float32).reshape(3000, 700)
    out = np.empty_like(rows)
    index = np.random.default_rng(0).permutation(3000)
    copying.gather(rows.view(np.uint8), index, out.view(np.uint8), most)
    assert (out == rows[index]).all()
    if most is None:
        assert sizes == [rows.nbytes]
    else:
        assert max(sizes) < 1 << 20
        assert sum(sizes) == rows.nbytes
    assert len(names) <= threads
    chosen = options("threading", max_intra_op_parallelism=most)
    sizes.clear()
    shuffled = Dataset.from_tensor_slices(rows).shuffle(3000, seed=1).batch(3000)
    (batch,) = shuffled.with_options(chosen)
    assert sorted(batch[:, 0]) == rows[:, 0].tolist()
    assert (max(sizes) < 1 << 20) == (most is not None)


def test_slack_leaves_the_consumer_some_time() -> None:
    made: list[float] = []

    def generate() -> Any:
        for i in range(50):
            made.append(time.monotonic())
            yield i

    dataset = Dataset.from_generator(generate, output_types=np.int64, output_shapes=()).prefetch(2)
    rested = iter(dataset.with_options(options("", experimental_slack=True)))
    next(rested)
    pause, gaps = 0.05, []
    for _ in range(4):
        time.sleep(pause)
        before = len(made)
        taken = time.monotonic()
        next(rested)
        deadline = taken + 30
        while len(made) == before and time.monotonic() < deadline:
            time.sleep(0.001)
        gaps.append(made[before] - taken)
    assert min(gaps[1:]) >= 0.9 * SLACK * pause
    assert list(dataset.with_options(options("", experimental_slack=True))) == list(range(50))


def test_slack_needs_a_prefetch_at_the_end() -> None:
    dataset = Dataset.range(4).prefetch(2).batch(2)
    with pytest.raises(
        ValueError, match="datasets that end with prefetch; this one ends with batch"
    ):
        iter(dataset.with_options(options("", experimental_slack=True)))
