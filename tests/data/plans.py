"""Random plans, and what they mean written with plain Python lists."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import strategies as st

from drumline.data import Dataset, Options
from tests.data.further_plans import COMPILED, LIGHT, apply_further, apply_further_to_list
from tests.data.nested_plans import STEPS as NESTED_STEPS
from tests.data.nested_plans import apply_nested, apply_nested_to_list

Step = tuple[Any, ...]


def base(n: int) -> Dataset:
    """Pairs (row of three float32, id past 2**40)."""
    rows = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
    return Dataset.from_tensor_slices((rows, np.arange(n) + 2**41))


def base_list(n: int) -> list[Any]:
    rows = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
    return [(rows[i], np.int64(i + 2**41)) for i in range(n)]


def python_map(a: Any, b: Any) -> Any:
    return np.asarray(a) + np.float32(1), np.int64(int(b) + 1)


def python_scan(s: Any, e: Any) -> Any:
    return np.int64(int(s) + int(e[1]) % 7), (np.asarray(e[0]), np.int64(int(e[1]) + int(s)))


small = st.integers(0, 9)
small1 = st.integers(1, 5)
_STEPS = [
    st.tuples(st.just("map")),
    st.tuples(st.just("python_map")),
    st.tuples(st.just("parallel_map"), st.sampled_from([2, 3, -1])),
    st.tuples(st.just("filter"), st.integers(2, 4)),
    st.tuples(st.just("take"), st.integers(0, 40)),
    st.tuples(st.just("skip"), small),
    st.tuples(st.just("repeat"), st.integers(0, 3)),
    st.tuples(st.just("batch_unbatch"), st.integers(1, 7), st.booleans()),
    st.tuples(st.just("concatenate"), small),
    st.tuples(st.just("enumerate"), small),
    st.tuples(st.just("zip")),
    st.tuples(st.just("shard"), st.integers(1, 5), st.integers(0, 4)),
    st.tuples(st.just("prefetch"), st.integers(1, 5)),
    st.tuples(st.just("cache")),
    st.tuples(st.just("take_while"), st.integers(1, 64)),
    st.tuples(st.just("python_scan")),
    st.tuples(st.just("padded_unbatch"), st.integers(1, 7)),
    st.tuples(st.just("ragged_unbatch"), st.integers(1, 7)),
    st.tuples(st.just("rebatch"), st.integers(1, 7), st.lists(small1, min_size=1, max_size=3)),
    st.tuples(st.just("ignore_errors")),
    st.tuples(st.just("shuffle"), st.integers(1, 60), st.integers(0, 3)),
    *NESTED_STEPS,
    *LIGHT,
]
steps = st.lists(st.one_of(*_STEPS), max_size=5)
all_steps = st.lists(st.one_of(*_STEPS, *COMPILED), max_size=5)
lengths = st.integers(0, 50)


def apply_step(ds: Dataset, step: Step, before: Any = ()) -> Dataset:
    other = apply_nested(ds, step, base) or apply_further(ds, step, base, before)
    if other is not None:
        return other
    match step:
        case ("map",):
            return ds.map(lambda a, b: (a * 2 + 1, b + 3))
        case ("python_map",):
            return ds.map(python_map)
        case ("parallel_map", workers):
            return ds.map(python_map, num_parallel_calls=workers)
        case ("filter", k):
            return ds.filter(lambda a, b: b % k != 0)
        case ("batch_unbatch", n, drop):
            return ds.batch(n, drop_remainder=drop).unbatch()
        case ("concatenate", n):
            return ds.concatenate(base(n))
        case ("enumerate", start):
            return ds.enumerate(start).map(lambda i, e: (e[0], e[1] + i))
        case ("zip",):
            return Dataset.zip((ds, base(20))).map(lambda x, y: (x[0] + y[0], x[1] - y[1]))
        case ("shard", n, index):
            return ds.shard(n, index % n)
        case ("cache",):
            return ds.cache()
        case ("take_while", k):
            return ds.take_while(lambda a, b: b % 64 < k)
        case ("python_scan",):
            return ds.scan(np.int64(1), python_scan)
        case ("padded_unbatch", n):
            return ds.padded_batch(n).unbatch()
        case ("ragged_unbatch", n):
            return ds.ragged_batch(n).unbatch()
        case ("rebatch", n, sizes):
            return ds.batch(n).rebatch(sizes).unbatch()
        case ("ignore_errors",):
            return ds.ignore_errors()
        case ("shuffle", n, seed):
            return ds.shuffle(n, seed=seed)
        case (name, n):
            return getattr(ds, name)(n)
    raise AssertionError(step)


def apply_to_list(items: list[Any], step: Step) -> list[Any]:
    for others in (apply_nested_to_list, apply_further_to_list):
        found = others(items, step, base_list)
        if found is not None:
            return found
    match step:
        case ("map",):
            return [(a * 2 + 1, b + 3) for a, b in items]
        case ("python_map",) | ("parallel_map", _):
            return [(a + np.float32(1), b + 1) for a, b in items]
        case ("filter", k):
            return [(a, b) for a, b in items if b % k != 0]
        case ("batch_unbatch", n, drop):
            return items[: len(items) - len(items) % n] if drop else items
        case ("concatenate", n):
            return items + base_list(n)
        case ("enumerate", start):
            return [(a, b + i) for i, (a, b) in enumerate(items, start)]
        case ("zip",):
            return [(a + c, b - d) for (a, b), (c, d) in zip(items, base_list(20), strict=False)]
        case ("shard", n, index):
            return items[index % n :: n]
        case ("take", n):
            return items[:n]
        case ("take_while", k):
            return list(itertools.takewhile(lambda e: e[1] % 64 < k, items))
        case ("python_scan",):
            sums = itertools.accumulate((int(b) % 7 for _, b in items), initial=1)
            return [(a, np.int64(int(b) + s)) for (a, b), s in zip(items, sums, strict=False)]
        case ("skip", n):
            return items[n:]
        case ("repeat", n):
            return items * n
    return items


def build(n: int, plan: list[Step]) -> Dataset:
    ds = base(n)
    for i, step in enumerate(plan):
        ds = apply_step(ds, step, (n, plan[: i + 1]))
    return ds


def options(optimize: bool, threads: int) -> Options:
    made = Options()
    made.experimental_optimization.apply_default_optimizations = optimize
    made.threading.private_threadpool_size = threads
    return made


def bits(items: list[Any]) -> list[tuple[Any, ...]]:
    """Elements as dtypes, shapes and bytes, for exact comparison."""
    return [
        tuple((x.dtype.str, x.shape, x.tobytes()) for x in map(np.asarray, item)) for item in items
    ]
