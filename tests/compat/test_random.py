"""``tf.random``: which draws are equal, which differ, and how they are distributed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drumline.compat import tf

DRAWS: dict[str, Callable[[], Any]] = {
    "uniform": lambda: tf.random.uniform([3]),
    "uniform of int32": lambda: tf.random.uniform([3], maxval=2**30, dtype=tf.int32),
    "uniform of int64": lambda: tf.random.uniform([3], maxval=2**60, dtype=tf.int64),
    "normal": lambda: tf.random.normal([3]),
    "normal of float64": lambda: tf.random.normal([3], dtype=tf.float64),
    "truncated_normal": lambda: tf.random.truncated_normal([3]),
    "gamma": lambda: tf.random.gamma([3], 2.0),
    "categorical": lambda: tf.random.categorical(tf.zeros([1, 1000]), 5),
    "poisson": lambda: tf.random.poisson([4], 100.0),
    "shuffle": lambda: tf.random.shuffle(tf.range(100)),
    "an operation's seed": lambda: tf.random.uniform([3], seed=4),
    "random_crop": lambda: tf.image.random_crop(tf.range(10_000), [2]),
    "random_crop with a seed": lambda: tf.image.random_crop(tf.range(10_000), [2], 5),
    "random_brightness": lambda: tf.image.random_brightness(PICTURE, 0.3),
    "random_flip_left_right": lambda: tf.image.random_flip_left_right(PICTURES),
    "random_brightness with a seed": lambda: tf.image.random_brightness(PICTURE, 0.1, seed=2),
    "sample_distorted_bounding_box": lambda: tf.image.sample_distorted_bounding_box(
        [50, 60, 3], [[[0.1, 0.1, 0.9, 0.9]]], min_object_covered=0.1
    )[0],
}
PICTURE = np.linspace(0, 1, 5 * 4 * 3).reshape(5, 4, 3).astype(np.float32)
PICTURES = np.stack([PICTURE] * 40)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "tf.function"])
@pytest.mark.parametrize("name", DRAWS)
def test_each_call_draws_anew_and_a_seed_begins_again(name: str, compiled: bool) -> None:
    draw = tf.function(DRAWS[name]) if compiled else DRAWS[name]

    def two() -> list[bytes]:
        tf.random.set_seed(3)
        return [draw().numpy().tobytes() for _ in range(2)]

    first, second = two()
    assert first != second
    assert two() == [first, second]
    tf.random.set_seed(4)
    assert draw().numpy().tobytes() not in (first, second)


def test_values_are_in_range_and_of_the_type() -> None:
    numbers = tf.random.uniform([10_000], -2, 3, seed=1)
    assert numbers.dtype == tf.float32 and -2 <= numbers.numpy().min() < numbers.numpy().max() < 3
    assert abs(numbers.numpy().mean() - 0.5) < 0.05
    whole = tf.random.uniform([10_000], 2, 5, tf.int64).numpy()
    assert whole.dtype == np.int64 and set(whole) == {2, 3, 4}
    normal = tf.random.normal([10_000], 3.0, 2.0, tf.float64).numpy()
    assert normal.dtype == np.float64 and abs(normal.mean() - 3) < 0.1
    assert abs(normal.std() - 2) < 0.1
    within = tf.random.truncated_normal([10_000], 1.0, 2.0).numpy()
    assert np.abs(within - 1).max() <= 4 and within.std() > 1.5
    classes = tf.random.categorical(np.log([[0.8, 0.2], [0.1, 0.9]]), 5_000).numpy()
    assert classes.shape == (2, 5_000) and classes.dtype == np.int64
    np.testing.assert_allclose(classes.mean(axis=1), [0.2, 0.9], atol=0.03)
    assert sorted(tf.random.shuffle(["b", "a", "c"]).numpy()) == [b"a", b"b", b"c"]
    with pytest.raises(ValueError, match="maxval"):
        tf.random.uniform([1], dtype=tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="minval < maxval"):
        tf.random.uniform([1], 3, 3, tf.int32)


def test_stateless_draws_depend_on_their_seed_alone() -> None:
    for name in ("uniform", "normal", "truncated_normal"):
        draw = getattr(tf.random, f"stateless_{name}")
        compiled = tf.function(lambda seed, draw=draw: draw([4], seed))
        one = draw([4], seed=[1, 2]).numpy()
        assert one.tobytes() == draw([4], seed=tf.constant([1, 2], tf.int64)).numpy().tobytes()
        np.testing.assert_array_equal(one, compiled(tf.constant([1, 2])).numpy())
        for other in ([2, 1], [1, 3], tf.constant([1, 2 + 2**40], tf.int64)):
            assert (draw([4], seed=other).numpy() != one).any(), other
    bits = tf.random.stateless_uniform([1000], [1, 2], None, None, tf.int32).numpy()
    assert bits.min() < -(2**30) and bits.max() > 2**30
    seeds = tf.random.split([1, 2], 3)
    assert seeds.shape == (3, 2) and len({tuple(seed) for seed in seeds.numpy()}) == 3
    assert tuple(tf.random.fold_in([1, 2], 1).numpy()) != tuple(
        tf.random.fold_in([1, 2], 2).numpy()
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="shape"):
        tf.random.stateless_uniform([1], [1, 2, 3])


def test_a_datasets_functions_draw_for_each_element() -> None:
    def drawn() -> np.ndarray:
        tf.random.set_seed(2)
        dataset = (
            tf.data.Dataset.range(50)
            .shuffle(50)
            .map(
                lambda i: (
                    i,
                    tf.random.uniform([2]),
                    tf.random.stateless_normal([], tf.stack([i, i])),
                )
            )
        )
        return np.array([[float(a), *b.numpy(), float(c)] for a, b, c in dataset])

    rows = drawn()
    assert len(np.unique(rows[:, 1])) == len(np.unique(rows[:, 3])) == 50
    np.testing.assert_array_equal(rows, drawn())
    assert list(rows[:, 0]) != sorted(rows[:, 0])


def test_replicas_draw_numbers_of_their_own() -> None:
    strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    values = strategy.run(lambda: tf.random.normal([4])).values
    assert (np.asarray(values[0]) != np.asarray(values[1])).all()


def test_generators_go_on_from_their_state() -> None:
    generator = tf.random.Generator.from_seed(1)
    state = generator.state.numpy()
    first = generator.normal([2]).numpy()
    assert (generator.normal([2]).numpy() != first).all()
    generator.reset(state)
    np.testing.assert_array_equal(generator.normal([2]).numpy(), first)
    generator.reset_from_seed(1)
    np.testing.assert_array_equal(generator.normal([2]).numpy(), first)
    copy = tf.random.Generator(copy_from=generator)
    np.testing.assert_array_equal(copy.uniform([3]), generator.uniform([3]))
    draw = tf.function(lambda: generator.uniform([2]))
    assert (draw().numpy() != draw().numpy()).all()
    children = generator.split(3)
    assert len({child.normal([]).numpy().item() for child in children}) == 3
    assert generator.make_seeds(3).shape == (2, 3)
    assert generator.uniform_full_int([], tf.int64).dtype == tf.int64
    counts = generator.binomial([1000], 10.0, 0.5).numpy()
    assert counts.min() >= 0 and counts.max() <= 10 and abs(counts.mean() - 5) < 0.5
    tf.random.set_global_generator(tf.random.Generator.from_seed(7))
    assert tf.random.get_global_generator().normal([]).shape == ()


def test_generators_are_saved_and_restored(tmp_path):
    generator = tf.random.Generator.from_seed(1)
    checkpoint = tf.train.Checkpoint(generator=generator)
    generator.normal([])
    path = checkpoint.write(tmp_path / "at")
    expected = [generator.normal([]).numpy() for _ in range(3)]
    other = tf.random.Generator.from_seed(7)
    tf.train.Checkpoint(generator=other).restore(path)
    assert [other.normal([]).numpy() for _ in range(3)] == expected


def test_a_step_makes_generators_of_its_own():
    strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])

    def step():
        generator = tf.random.Generator.from_seed(1)
        first, second = generator.normal([]), generator.normal([])
        generator.reset_from_seed(1)
        return tf.stack([first, second, generator.normal([])])

    for _ in range(2):
        first, second, again = strategy.run(step).values[0].numpy()
        assert first == again != second


def test_compiled_functions_of_several_strategies_draw_from_states_of_their_own() -> None:
    strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    drop = tf.keras.layers.Dropout(0.5)

    @tf.function
    def step() -> Any:
        return tf.random.normal([2])

    @tf.function
    def plain(x: Any) -> Any:
        return drop(x, training=True) + tf.random.normal(x.shape)

    def draws() -> list[Any]:
        tf.random.set_seed(3)
        in_step = strategy.experimental_local_results(strategy.run(step))
        return [*(x.numpy().tolist() for x in in_step), tf.function(step)().numpy().tolist()]

    first = draws()
    assert len({tuple(each) for each in first}) == 3
    assert draws() == first
    assert plain(tf.ones(4)).shape == [4]
    with strategy.scope():
        assert len(set(step().numpy().tolist())) == 2


def test_windows_depend_on_the_seed():
    boxes = [[[0.1, 0.2, 0.5, 0.9]]]
    draw = tf.image.stateless_sample_distorted_bounding_box
    one, other = (draw([100, 120, 3], boxes, seed=[1, 2]) for _ in range(2))
    for a, b in zip(one, other, strict=True):
        assert a.numpy().tolist() == b.numpy().tolist()
    more = [tuple(draw([100, 120, 3], boxes, [1, n])[1].numpy().tolist()) for n in range(5)]
    assert len(set(more)) > 1
    with pytest.raises(TypeError, match="seed"):
        draw([100, 120, 3], boxes)
