"""Random numbers in a dataset's functions: by seed, operation, epoch and position, nothing else."""

import json
import random

import jax
import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset, Options


def noisy(n=40):
    random.seed(5)
    return Dataset.range(n).map(lambda i: (i, dl.random.uniform((2,)), dl.random.normal()))


def python_noise(i):
    return np.asarray(i) + 0, dl.random.uniform(), str(int(i))


def bits(dataset):
    return [tuple(np.asarray(leaf).tobytes() for leaf in element) for element in dataset]


def test_elements_and_draws_differ_and_are_distributed_as_they_should_be():
    random.seed(0)
    rows = Dataset.range(20_000).map(
        lambda i: (dl.random.uniform((2,), -1, 3), dl.random.normal((), 5.0, 2.0))
    )
    pairs, normals = next(iter(rows.batch(20_000)))
    assert len(np.unique(pairs)) > 39_900
    assert pairs.min() >= -1 and pairs.max() < 3
    np.testing.assert_allclose(pairs.mean(0), [1, 1], atol=0.04)
    np.testing.assert_allclose([normals.mean(), normals.std()], [5, 2], atol=0.06)
    assert abs(np.corrcoef(pairs[:, 0], pairs[:, 1])[0, 1]) < 0.03
    assert abs(np.corrcoef(pairs[:-1, 0], pairs[1:, 0])[0, 1]) < 0.03


def test_each_kind():
    def draw(i):
        whole = dl.random.uniform((50,), 3, 6, np.int32)
        cut = dl.random.truncated_normal((50,), 10.0, 2.0)
        mixed = dl.random.shuffle(np.arange(50))
        coin = dl.random.bernoulli(0.25, (50,))
        one, two = dl.random.split()
        return whole, cut, mixed, coin, jax.random.uniform(one), jax.random.uniform(two)

    whole, cut, mixed, coin, one, two = next(iter(Dataset.range(200).map(draw).batch(200)))
    assert sorted(np.unique(whole)) == [3, 4, 5] and whole.dtype == np.int32
    assert abs(cut - 10).max() <= 4 and cut.std() > 1.5
    assert (np.sort(mixed, axis=1) == np.arange(50)).all() and len(np.unique(mixed[:, 0])) > 40
    assert coin.dtype == bool and abs(coin.mean() - 0.25) < 0.03
    assert not np.intersect1d(one, two).size


def test_every_epoch_and_every_pass_differs():
    dataset = noisy().repeat(2)
    first, second = bits(dataset), bits(dataset)
    assert len({row[1] for row in first + second}) == 160
    assert bits(noisy().repeat(2)) == first


@pytest.mark.parametrize(("threads", "optimize"), [(1, False), (3, True)])
def test_position_counts_where_the_function_stands(threads, optimize):
    options = Options()
    options.threading.private_threadpool_size = threads
    options.experimental_optimization.apply_default_optimizations = optimize
    whole = bits(noisy())
    assert bits(noisy().skip(7).take(5).with_options(options)) == whole[7:12]
    assert bits(noisy().shard(3, 1).with_options(options)) == whole[1::3]
    assert sorted(bits(noisy().shuffle(40, seed=1).with_options(options))) == sorted(whole)
    assert bits(noisy().prefetch(3).with_options(options)) == whole


@pytest.mark.parametrize("function", [lambda i: (i, dl.random.uniform()), python_noise])
def test_resuming(function):
    def build():
        random.seed(9)
        source = Dataset.range(30).shuffle(8, seed=2).map(function)
        return source.filter(lambda i, *_: dl.random.bernoulli(0.5))

    iterator = iter(build())
    for _ in range(5):
        next(iterator)
    state = json.loads(json.dumps(iterator.state()))
    rest = bits(iterator)
    assert 3 < len(rest) < 22
    again = iter(build())
    again.restore(state)
    assert bits(again) == rest


def test_python_functions_draw_what_compiled_ones_do():
    random.seed(3)
    compiled = Dataset.range(6).map(lambda i: (i, dl.random.uniform()))
    random.seed(3)
    python = Dataset.range(6).map(python_noise, num_parallel_calls=2)
    assert "runs as Python" in python.explain()
    assert [row[1] for row in python] == [row[1] for row in compiled]


def test_operations_differ_unless_they_share_a_seed():
    source = Dataset.range(5)
    a, b = (source.map(lambda i: dl.random.uniform()) for _ in range(2))
    assert list(a) != list(b)
    c, d = (source.map(lambda i: dl.random.uniform(seed=4)) for _ in range(2))
    assert list(c) == list(d)
    twice = Dataset.zip(a, a)
    assert all(x != y for x, y in twice)


def test_filter_keeps_elements_as_they_were():
    kept = Dataset.range(1000).filter(lambda i: dl.random.bernoulli(0.3))
    assert kept.element_spec == dl.TensorSpec((), np.int64)
    found = list(kept)
    assert found == sorted(found) and 230 < len(found) < 370


def test_varying_shapes_and_strings():
    rows = Dataset.from_generator(
        lambda: ((np.zeros(n, np.float32), b"x") for n in (1, 2, 2)),
        output_signature=(dl.TensorSpec((None,), np.float32), dl.TensorSpec((), "string")),
    )
    noise = list(rows.map(lambda x, s: (x + dl.random.normal(x.shape), s)))
    assert [len(x) for x, _ in noise] == [1, 2, 2] and noise[0][1] == b"x"
    assert not np.array_equal(noise[1][0], noise[2][0])


def test_datasets_made_for_elements_draw_by_their_place():
    def build():
        random.seed(1)
        return Dataset.range(2).flat_map(
            lambda i: Dataset.range(2).map(lambda j: dl.random.uniform())
        )

    dataset = build()
    first = list(dataset)
    assert len(set(map(float, first))) == 4
    assert list(build()) == first != list(dataset)


def test_outside_of_datasets():
    assert dl.random.uniform((2,)).shape == (2,)
    assert dl.random.uniform() != dl.random.uniform()
    random.seed(2)
    first = dl.random.normal()
    random.seed(2)
    assert dl.random.normal() == first
    with pytest.raises(RuntimeError, match="use jax.random with a key"):
        jax.jit(lambda: dl.random.uniform())()
    with pytest.raises(ValueError, match="give maxval for integers"):
        dl.random.uniform((), dtype=np.int32)


def drawing(s, i):
    return s + dl.random.uniform(), (i, dl.random.uniform())


def drawing_in_python(s, i):
    float(s)
    return drawing(s, i)


STATEFUL = {
    "scan": lambda ds: ds.scan(np.float32(0), drawing).map(lambda i, u: (i, u)),
    "scan in Python": lambda ds: ds.scan(np.float32(0), drawing_in_python),
    "take_while": lambda ds: ds.take_while(lambda i: dl.random.uniform() < 0.95),
    "group_by_window": lambda ds: ds.group_by_window(
        lambda i: dl.random.uniform((), 0, 3, np.int32), lambda k, w: w.batch(4), 4
    ),
    "of tuples": lambda ds: (
        Dataset.zip((ds,))
        .group_by_window(
            lambda i: dl.random.uniform((), 0, 3, np.int32), lambda k, w: w.batch(4), 4
        )
        .map(lambda i: (i, i))
    ),
    "bucket_by_sequence_length": lambda ds: ds.bucket_by_sequence_length(
        lambda i: dl.random.uniform((), 0, 3, np.int32), [1, 2], [4, 4, 4]
    ),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_draws_in_functions_of_other_operations(name):
    def build():
        random.seed(6)
        ds = STATEFUL[name](Dataset.range(40))
        return ds if isinstance(ds.element_spec, tuple) else ds.map(lambda i: (i,))

    dataset = build()
    first, second = bits(dataset), bits(dataset)
    assert first != second
    assert bits(build()) == first
    iterator = iter(build())
    for _ in range(len(first) // 2):
        next(iterator)
    again = iter(build())
    again.restore(json.loads(json.dumps(iterator.state())))
    assert bits(again) == first[len(first) // 2 :]


def test_windows_of_drawn_keys_hold_each_element_once():
    ds = Dataset.zip((Dataset.range(60), Dataset.range(60, 120))).group_by_window(
        lambda a, b: dl.random.uniform((), 0, 3, np.int32), lambda k, w: w.batch(8), 8
    )
    pairs = [(int(a), int(b)) for x, y in ds for a, b in zip(x, y, strict=True)]
    assert sorted(pairs) == [(i, i + 60) for i in range(60)]
    assert pairs != sorted(pairs)
    assert ds.element_spec == (dl.TensorSpec((None,), np.int64),) * 2


def test_draws_in_reduce():
    ds = Dataset.range(2000)
    random.seed(4)
    one, other = (ds.reduce(np.float32(0), lambda s, i: s + dl.random.uniform()) for _ in range(2))
    assert one != other
    assert abs(one / 2000 - 0.5) < 0.03
    random.seed(4)
    again = ds.reduce(np.float32(0), lambda s, i: drawing_in_python(s, i)[0])
    np.testing.assert_allclose(again, one, rtol=1e-4)


def test_a_function_that_draws_for_some_elements_says_so():
    source = Dataset.range(4)

    def sometimes(i):
        return np.float32(0) if str(int(i)) == "0" else dl.random.uniform()

    iterator = iter(source.map(sometimes))
    assert next(iterator) == 0
    with pytest.raises(RuntimeError, match="draw for every element"):
        next(iterator)


def test_shuffled_strings_and_wide_numbers_are_those_given():
    names = [f"file{i}" for i in range(30)]
    found = dl.random.shuffle(names).tolist()
    assert found != [n.encode() for n in names] and sorted(found) == sorted(map(str.encode, names))
    wide = np.arange(30) + 2**40
    assert sorted(dl.random.shuffle(wide).tolist()) == wide.tolist()
