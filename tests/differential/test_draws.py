"""What is drawn by chance has the distribution that it has in ``tf.data``.

Draws are other numbers than TensorFlow's. Each test counts the same events in both libraries, with
seeds that are given, and asks whether one distribution explains both counts: seeds and thus counts
are the same in every run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.differential.sides import Ours, Theirs

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="compares with TensorFlow (the extra `reference`)")

SIDES = (Ours(), Theirs(tf))
DRAWS = 2000
LEAST = 1e-5
"""The probability of counts as different as they are; less is another distribution."""


def _numbers(ds: Any, count: int = DRAWS) -> np.ndarray:
    """The first elements, which are scalars."""
    return np.array([int(x) for x in ds.take(count)])


def assert_one_distribution(*counts: np.ndarray) -> None:
    """Ask whether these counts of the same events come of one distribution (chi square)."""
    table = np.array(counts)
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] > 1:
        chance = stats.chi2_contingency(table).pvalue
        assert chance > LEAST, f"p = {chance:.2g} for {table.tolist()}"


def _counted(made: Callable[[Any], Any], events: int, count: int = DRAWS) -> list[np.ndarray]:
    return [np.bincount(_numbers(made(side), count), minlength=events) for side in SIDES]


_shares = st.lists(st.integers(0, 8), min_size=2, max_size=4).filter(lambda s: sum(s) > 0)


@settings(max_examples=5)
@given(weights=_shares, seed=st.integers(0, 99))
def test_samples_have_their_weights(weights: list[int], seed: int) -> None:
    given_weights = (np.array(weights) / sum(weights)).tolist()

    def sampled(side: Any) -> Any:
        endless = [side.D.from_tensors(np.int64(i)).repeat() for i in range(len(weights))]
        return side.D.sample_from_datasets(endless, given_weights, seed=seed)

    counts = _counted(sampled, len(weights))
    assert_one_distribution(*counts, np.array(given_weights) * 10 * DRAWS)


@settings(max_examples=4)
@given(
    target=_shares,
    initial=st.lists(st.integers(1, 8), min_size=4, max_size=4),
    told=st.booleans(),
    seed=st.integers(0, 99),
)
def test_resampled_classes_have_the_shares_asked_for(
    target: list[int], initial: list[int], told: bool, seed: int
) -> None:
    """With shares of the classes that are given, or counted on the way."""
    classes = len(target)
    shares = np.array(initial[:classes]) / sum(initial[:classes])
    wanted = np.array(target) / sum(target)
    rows = np.random.default_rng(seed).choice(classes, 200_000, p=shares)

    def resampled(side: Any) -> Any:
        given_shares = shares.astype(np.float32) if told else None
        made = side.D.from_tensor_slices((rows, np.arange(len(rows)))).rejection_resample(
            lambda label, row: label, wanted.astype(np.float32), given_shares, seed=seed
        )
        return made.map(lambda label, pair: side.where(label == pair[0], label, label + classes))

    counts = _counted(resampled, 2 * classes)
    assert all(found[classes:].sum() == 0 for found in counts), "a class is not its element's"
    # The first elements are drawn while few are counted.
    assert_one_distribution(*(counts if told else []), *([wanted_counts(wanted)] if told else []))
    for found in counts:
        np.testing.assert_allclose(found[:classes] / DRAWS, wanted, atol=0.06)


def wanted_counts(shares: np.ndarray) -> np.ndarray:
    return np.concatenate([shares, np.zeros_like(shares)]) * 10 * DRAWS


@settings(max_examples=6)
@given(buffer=st.integers(2, 9), rows=st.integers(5, 12))
def test_a_shuffle_moves_elements_as_far(buffer: int, rows: int) -> None:
    """How often which element comes first, and where the first element goes to."""

    def orders(side: Any) -> np.ndarray:
        passes = side.D.range(rows).shuffle(buffer, seed=5).batch(rows).repeat(600)
        return np.array([np.asarray(order) for order in passes])

    found = [orders(side) for side in SIDES]
    assert all((np.sort(order) == np.arange(rows)).all() for order in found)
    assert_one_distribution(*(np.bincount(order[:, 0], minlength=rows) for order in found))
    assert_one_distribution(
        *(np.bincount((order == 0).argmax(axis=1), minlength=rows) for order in found)
    )
    assert_one_distribution(*(np.bincount(order[:, -1], minlength=rows) for order in found))


def test_orders_of_passes_are_independent() -> None:
    """How often an element that came first in a pass does so in the next one."""
    again = []
    for side in SIDES:
        passes = side.D.range(4).shuffle(4, seed=2).batch(4).repeat(1200)
        first = np.array([np.asarray(order)[0] for order in passes])
        again.append(np.bincount((first[1:] == first[:-1]).astype(int), minlength=2))
    assert_one_distribution(*again, np.array([3, 1]) * DRAWS)


@pytest.mark.parametrize("name", ["uniform", "normal", "integers"])
def test_draws_in_a_map(name: str) -> None:
    """The distribution of numbers, and that neighbours and columns are independent."""
    import drumline as dl

    draws: dict[str, dict[str, Callable[[], Any]]] = {
        "uniform": {
            "drumline": lambda: dl.random.uniform((3,), -1.0, 3.0),
            "tf.data": lambda: tf.random.uniform((3,), -1.0, 3.0),
        },
        "normal": {
            "drumline": lambda: dl.random.normal((3,), mean=1.0, stddev=2.0),
            "tf.data": lambda: tf.random.normal((3,), mean=1.0, stddev=2.0),
        },
        "integers": {
            "drumline": lambda: dl.random.uniform((3,), 0, 10, np.int32),
            "tf.data": lambda: tf.random.uniform((3,), 0, 10, tf.int32),
        },
    }
    tf.random.set_seed(3)
    found = []
    for side in SIDES:
        draw = draws[name][side.name]
        rows = side.D.range(DRAWS).map(lambda _, draw=draw: draw()).batch(DRAWS)
        found.append(np.asarray(next(iter(rows)), np.float64))
    ours, theirs = found
    assert stats.ks_2samp(ours.ravel(), theirs.ravel()).pvalue > LEAST
    for values in found:
        above = (values > np.median(values)).astype(int)
        for one, other in ((above[:-1, 0], above[1:, 0]), (above[:, 0], above[:, 1])):
            table = np.bincount(2 * one + other, minlength=4).reshape(2, 2)
            assert stats.chi2_contingency(table).pvalue > LEAST


def test_random_numbers() -> None:
    """`Dataset.random`: how often each remainder comes."""
    counts = _counted(lambda side: side.D.random(seed=4).map(lambda x: x % 16), 16)
    assert_one_distribution(*counts, np.full(16, DRAWS))
