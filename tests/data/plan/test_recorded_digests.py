"""Digests that earlier versions wrote on disk: snapshots, caches and states name them.

A digest that changes makes each of these be written anew, so the tables below are recorded ones:
a change is a decision, and this file says that it was taken.
"""

import dataclasses
import functools
import math
import sys
import types

import jax.numpy as jnp
import numpy as np
import pytest

from drumline.data import Dataset, TensorSpec
from drumline.data.plan.digest import Digest, put

FACTOR = 3
TABLE = np.arange(6, dtype=np.int16).reshape(2, 3)
loss = 1.5  # what `by_attribute` has an attribute named like


def plain(x):
    return x + 1


def with_a_global(x):
    return x * FACTOR + TABLE.sum()


def with_defaults(x, by=2, *rest, named="a", **others):
    return x, by, rest, named, others


def nested(x):
    def inner(y):
        return [FACTOR * z for z in range(y)]

    return inner(x)


def recursive(n):
    return 1 if n == 0 else n * recursive(n - 1)


def even(n):
    return n == 0 or odd(n - 1)


def odd(n):
    return n != 0 and even(n - 1)


def of_libraries(x):
    return np.sqrt(x) + math.pi


def by_attribute(x):
    return x.loss


def importing(x):
    import json

    return json.dumps(x)


def generating(n):
    yield from range(n)


def with_a_class(x):
    class Local:
        factor = FACTOR

        def __call__(self):
            return self.factor * x

    return Local()()


def annotated(x: int, y: "str" = "") -> float:
    """Say nothing."""
    return x + len(y)


def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@logged
def decorated(x):
    return x - FACTOR


@functools.lru_cache(maxsize=2)
def cached(x):
    return x * 2


def closing_over(value):
    return lambda x: (x, value)


def before_assignment():
    def reads():
        return later

    yield reads
    later = 1
    yield later


class Scale:
    base = 2

    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by

    def method(self, x):
        return x * self.by + self.base

    @classmethod
    def of_class(cls, x):
        return x * cls.base

    @staticmethod
    def static(x):
        return x + 1

    @property
    def doubled(self):
        return 2 * self.by


@dataclasses.dataclass(frozen=True)
class Settings:
    rate: float
    names: tuple[str, ...]


def itself_in_a_list():
    things = [1]
    things.append(things)
    return lambda x: (x, things)


FUNCTIONS = {
    "plain": plain,
    "with a global": with_a_global,
    "with defaults": with_defaults,
    "nested": nested,
    "recursive": recursive,
    "mutually recursive": even,
    "of libraries": of_libraries,
    "by attribute": by_attribute,
    "importing": importing,
    "generating": generating,
    "with a class": with_a_class,
    "annotated": annotated,
    "decorated": decorated,
    "cached": cached,
    "over a number": closing_over(4),
    "over a float": closing_over(0.1),
    "over a scalar of numpy": closing_over(np.float32(0.1)),
    "over an array": closing_over(np.linspace(0, 1, 7)),
    "over objects": closing_over(np.array(["a", b"b", None], object)),
    "over an array of jax": closing_over(jnp.arange(3)),
    "over a dict": closing_over({"a": [1, (2, None)], 3: {4, 5}}),
    "over a function": closing_over(closing_over(1)),
    "over itself": itself_in_a_list(),
    "not assigned": next(before_assignment()),
    "method": Scale(5).method,
    "object": Scale(5),
    "class": Scale,
    "class method": Scale.of_class,
    "static method": Scale.static,
    "partial": functools.partial(with_defaults, 1, named="b", z=2),
    "partial of a method": functools.partial(Scale(1).method, 3),
    "builtin": len,
    "builtin method": [1, 2].append,
    "ufunc": np.add,
    "function of numpy": np.linspace,
    "module": types.ModuleType("tables"),
}
PIPELINES = {
    "range": lambda: Dataset.range(10).batch(3),
    "slices": lambda: Dataset.from_tensor_slices({"a": np.arange(4.0), "b": ["x"] * 4}),
    "python": lambda: Dataset.range(4).map(lambda x: int(x) + FACTOR),
    "generator": lambda: Dataset.from_generator(
        functools.partial(generating, 3), output_signature=TensorSpec((), np.int64)
    ),
    "filter": lambda: Dataset.range(9).filter(lambda x: int(x) % 2 == 0).shuffle(4, seed=1),
    "nested": lambda: Dataset.range(3).flat_map(lambda n: Dataset.range(n).repeat(2)),
    "zip": lambda: Dataset.zip(Dataset.range(3), Dataset.range(3).skip(1)).take(2),
    # Of a class that has another name now.
    "sampled": lambda: Dataset.sample_from_datasets(
        [Dataset.range(5), Dataset.range(7)], [0.3, 0.7], seed=3
    ),
}

# By CPython 3.11, whose bytecode they hold.
RECORDED_FUNCTIONS = {
    "plain": "de2c3d5fd3de497b",
    "with a global": "3bd4b0a17207fb11",
    "with defaults": "b8f7387dad5bbc9f",
    "nested": "b36fb689d1e6f664",
    "recursive": "9bf9f22d8d9d258c",
    "mutually recursive": "ffec2824096174b3",
    "of libraries": "90b246a9743d2c26",
    "by attribute": "02df20149d0ce975",
    "importing": "c9147004dbe75d9e",
    "generating": "86484911fdff9e19",
    "with a class": "207eeede1a819058",
    "annotated": "f38e658ff44cfe62",
    "decorated": "8a9c9805b6fe5f5d",
    "cached": "0c8a31f5c79959c9",
    "over a number": "cc52dd7b12d99427",
    "over a float": "3a8f169823f92567",
    "over a scalar of numpy": "6cdd545bbf16d628",
    "over an array": "ca6cd953872acdbd",
    "over objects": "4711b5365bf27cb8",
    "over an array of jax": "9a102662b48d951b",
    "over a dict": "457f8d59c5ec8d1b",
    "over a function": "ba78ec217e788adc",
    "over itself": "ed7583a799729f16",
    "not assigned": "2cf3925f6d377981",
    "method": "79c6713f50f95b0d",
    "object": "0286e2b0676412fe",
    "class": "6a38c988958e7475",
    "class method": "1bdeeda6512e8b3e",
    "static method": "de2c3d5fd3de497b",
    "partial": "5483665a08e99ef9",
    "partial of a method": "a469406b5e71a330",
    "builtin": "1dee92341737d8e1",
    "builtin method": "6911c7c8bf058425",
    "ufunc": "b58c2ed5d01da58d",
    "function of numpy": "dad9432990995961",
    "module": "fc0ba581c6ffeb5b",
}
RECORDED_PIPELINES = {
    "range": "b7d066ebd80ba69b",
    "slices": "6421d8d18a72f7b3",
    "python": "a7795ae45d423a30",
    "generator": "7ebea2e9bb6487e4",
    "filter": "1145011cd2a3c7c7",
    "nested": "d8afec6ca6b1104d",
    "zip": "9d9b00e5a71599ae",
    "sampled": "835219f3d3a54fb7",
}

same_bytecode = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="digests of functions hold the bytecode of Python 3.11"
)


def digest_of(value):
    digest = Digest()
    put(value, digest)
    return digest.result().hex()[:16]


@same_bytecode
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_digests_on_disk(name):
    assert digest_of(FUNCTIONS[name]) == RECORDED_FUNCTIONS[name]


@same_bytecode
@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_have_the_fingerprints_on_disk(name):
    assert format(PIPELINES[name]().fingerprint(), "x") == RECORDED_PIPELINES[name]


def test_no_two_of_them_are_equal_by_chance():
    alike = {"plain", "static method"}  # the same code
    digests = [digest_of(function) for name, function in FUNCTIONS.items() if name not in alike]
    assert len(set(digests)) == len(digests)
