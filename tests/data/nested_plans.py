"""Steps of random plans that make datasets inside datasets, and what they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from drumline.data import Dataset

Step = tuple[Any, ...]

few = st.integers(1, 4)
STEPS = [
    st.tuples(st.just("windows"), few, few, st.booleans()),
    st.tuples(st.just("flat_map"), st.integers(1, 2)),
    st.tuples(st.just("interleave"), few, few),
    st.tuples(st.just("group"), few, few),
    st.tuples(st.just("choose"), st.integers(0, 12)),
    st.tuples(st.just("sample"), st.integers(0, 12)),
]


def copies(number: Any, most: int) -> int:
    return int(number) % (most + 1)


def apply_nested(ds: Dataset, step: Step, base: Callable[[int], Dataset]) -> Dataset | None:
    match step:
        case ("windows", size, shift, drop):
            windows = ds.window(size, shift, drop_remainder=drop)
            return windows.flat_map(lambda a, b: Dataset.zip((a, b)))
        case ("flat_map", most):
            return ds.flat_map(lambda *e: Dataset.from_tensors(e).repeat(copies(e[1], most)))
        case ("interleave", cycle, block):
            return ds.interleave(
                lambda *e: Dataset.from_tensors(e).repeat(copies(e[1], 2)), cycle, block
            )
        case ("group", keys, size):
            return ds.group_by_window(lambda a, b: int(b) % keys, lambda key, w: w, size)
        case ("choose", n):
            return Dataset.choose_from_datasets([ds, base(n)], Dataset.range(2).repeat(), False)
        case ("sample", n):
            return Dataset.sample_from_datasets([ds, base(n)], [2, 1], seed=n)
    return None


def apply_nested_to_list(
    items: list[Any], step: Step, base_list: Callable[[int], list[Any]]
) -> list[Any] | None:
    """The elements; those of a ``sample`` come in some other order."""
    match step:
        case ("windows", size, shift, drop):
            windows = [items[i : i + size] for i in range(0, len(items), shift)]
            return [e for w in windows if len(w) == size or not drop for e in w]
        case ("flat_map", most):
            return [e for e in items for _ in range(copies(e[1], most))]
        case ("interleave", cycle, block):
            return interleaved([[e] * copies(e[1], 2) for e in items], cycle, block)
        case ("group", keys, size):
            return grouped(items, keys, size)
        case ("choose", n):
            other = base_list(n)
            both = min(len(items), len(other))
            pairs = [e for pair in zip(items, other, strict=False) for e in pair]
            return pairs + items[both:] + other[both:]
        case ("sample", n):
            return items + base_list(n)
    return None


def interleaved(inner: list[list[Any]], cycle_length: int, block_length: int) -> list[Any]:
    """What tf.data's iterator does, step by step."""
    slots: list[list[Any] | None] = [None] * cycle_length
    found: list[Any] = []
    slot, used, opened = 0, 0, 0
    while opened < len(inner) or any(items is not None for items in slots):
        items = slots[slot]
        if items is None and opened < len(inner):
            slots[slot] = list(inner[opened])
            opened += 1
        elif items:
            found.append(items.pop(0))
            used += 1
            if used == block_length:
                slot, used = (slot + 1) % cycle_length, 0
        else:
            slots[slot] = None
            slot, used = (slot + 1) % cycle_length, 0
    return found


def grouped(items: list[Any], keys: int, size: int) -> list[Any]:
    waiting: dict[int, list[Any]] = {}
    found: list[Any] = []
    for item in items:
        group = waiting.setdefault(int(item[1]) % keys, [])
        group.append(item)
        if len(group) == size:
            found += waiting.pop(int(item[1]) % keys)
    return found + [item for key in sorted(waiting) for item in waiting[key]]
