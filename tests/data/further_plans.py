"""Steps of random plans with states, draws, errors and other sources, and what they mean."""

from __future__ import annotations

import hashlib
import itertools
import pathlib
import random
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

import drumline as dl
from drumline.data import GLOBAL, Dataset

Step = tuple[Any, ...]

few = st.integers(1, 4)
LIGHT = [
    st.tuples(st.just("generator"), few),
    st.tuples(st.just("sequence"), few),
    st.tuples(st.just("asserted")),
    st.tuples(st.just("global"), st.integers(0, 20), st.integers(0, 3)),
    st.tuples(st.just("cache_file")),
]
# Compiling takes most of the time of these.
COMPILED = [
    st.tuples(st.just("scan")),
    st.tuples(st.just("unique"), st.integers(1, 12)),
    st.tuples(st.just("failing"), st.integers(2, 4), st.booleans()),
    st.tuples(st.just("counter"), few),
    st.tuples(st.just("pack"), few, few),
    st.tuples(st.just("buckets"), few, few),
    st.tuples(st.just("drawn"), st.booleans()),
    st.tuples(st.just("resample"), st.booleans()),
]
BY_POSITION = ("scan", "counter", "pack", "buckets")
"""What becomes of an element depends on its position."""
BY_CHANCE = ("global",)
"""Elements come in some other order."""
UNKNOWN = ("drawn", "resample")
"""What the elements are depends on draws."""

_files = tempfile.TemporaryDirectory()


def apply_further(
    ds: Dataset, step: Step, base: Callable[[int], Dataset], before: Any
) -> Dataset | None:
    """``before``: what the dataset was made of, since a cache on disk belongs to that alone."""
    match step:
        case ("scan",):
            return ds.scan(np.int64(1), lambda s, e: ((s * 3 + e[1]) % 97, (e[0], e[1] + s)))
        case ("unique", k):
            numbers = ds.map(lambda a, b: b % k).unique()
            return numbers.map(lambda b: (np.zeros(3, np.float32), b))
        case ("failing", k, parallel):
            divided = ds.map(
                lambda a, b: (a, b + 0 * (1 // (b % k))), num_parallel_calls=2 if parallel else None
            )
            return divided.ignore_errors()
        case ("counter", step_size):
            numbered = Dataset.zip((Dataset.counter(2, step_size), ds))
            return numbered.map(lambda i, e: (e[0], e[1] + i))
        case ("generator", n):
            rows = list(base(n))
            return ds.concatenate(
                Dataset.from_generator(lambda: iter(rows), output_signature=ds.element_spec)
            )
        case ("sequence", n):
            return ds.concatenate(Dataset.from_sequence(list(base(n)), ds.element_spec))
        case ("asserted",):
            return ds if ds.cardinality() < 0 else ds.assert_cardinality(ds.cardinality())
        case ("pack", length, lookahead):
            packed = ds.batch(2).pack(length + 1, lookahead=lookahead)
            rows = packed.map(lambda p: (*p.values, p.segment_ids)).unbatch()
            return rows.filter(lambda a, b, s: s > 0).map(lambda a, b, s: (a, b))
        case ("buckets", first, second):
            return ds.bucket_by_sequence_length(
                lambda a, b: b % 5, [2, 4], [first, second, 1], no_padding=True
            ).unbatch()
        case ("global", n, seed):
            return ds.concatenate(base(n).shuffle(GLOBAL, seed=seed))
        case ("drawn", keep):
            random.seed(3)
            drawn = ds.map(lambda a, b: (a + dl.random.uniform((3,)), b))
            return drawn if keep else drawn.filter(lambda a, b: dl.random.uniform() < 0.7)
        case ("resample", known):
            shares = [0.5, 0.5] if known else None
            return ds.rejection_resample(lambda a, b: b % 2, [0.3, 0.7], shares, seed=7).map(
                lambda label, e: e
            )
        case ("cache_file",):
            digest = hashlib.sha256(repr(before).encode()).hexdigest()
            return ds.cache(pathlib.Path(_files.name) / digest)
    return None


def apply_further_to_list(
    items: list[Any], step: Step, base_list: Callable[[int], list[Any]]
) -> list[Any] | None:
    match step:
        case ("scan",):
            states = itertools.accumulate((int(b) for _, b in items), _next_state, initial=1)
            return [(a, np.int64(int(b) + s)) for (a, b), s in zip(items, states, strict=False)]
        case ("unique", k):
            found = dict.fromkeys(int(b) % k for _, b in items)
            return [(np.zeros(3, np.float32), np.int64(b)) for b in found]
        case ("failing", k, _):
            return [(a, b) for a, b in items if b % k]
        case ("counter", step_size):
            return [(a, b + 2 + i * step_size) for i, (a, b) in enumerate(items)]
        case ("generator", n) | ("sequence", n) | ("global", n, _):
            return items + base_list(n)
        case ("asserted",) | ("cache_file",):
            return items
        case ("pack", length, lookahead):
            groups = _cut(_cut(items, 2), lookahead)
            return [e for group in groups for row in _first_fit(group, length + 1) for e in row]
        case ("buckets", first, second):
            return _bucketed(items, [first, second, 1])
    return None


def _next_state(state: int, number: int) -> int:
    return (state * 3 + number) % 97


def _cut(items: list[Any], size: int) -> list[list[Any]]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def _first_fit(sequences: list[list[Any]], length: int) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for sequence in sequences:
        row = next((r for r in rows if len(r) + len(sequence) <= length), None)
        if row is None:
            rows.append(row := [])
        row += sequence
    return rows


def _bucketed(items: list[Any], sizes: list[int]) -> list[Any]:
    waiting: list[list[Any]] = [[], [], []]
    found: list[Any] = []
    for item in items:
        bucket = (0, 0, 1, 1, 2)[int(item[1]) % 5]
        waiting[bucket].append(item)
        if len(waiting[bucket]) == sizes[bucket]:
            found += waiting[bucket]
            waiting[bucket] = []
    return found + [item for bucket in waiting for item in bucket]
