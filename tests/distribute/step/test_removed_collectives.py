"""What is the same on all replicas anyway needs no collective in the compiled step."""

from __future__ import annotations

import re
from typing import Any

import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl
from drumline.distribute.step.compiled_step import NumberedPrograms
from tests.distribute.step.loops import mirrored

_COLLECTIVE = re.compile(r"= .*\b(all-reduce|all-gather|collective-permute|all-to-all)(-start)?\(")


def collectives(text: str) -> int:
    """How many collectives a compiled program has."""
    return sum(bool(_COLLECTIVE.search(line)) for line in text.splitlines())


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The collectives of each program that `run` or `fit` runs, in order."""
    found: list[int] = []
    alone = NumberedPrograms.alone

    def counted(self: Any, *arguments: Any) -> Any:
        found.append(collectives(self._alone.lower(*arguments).compile().as_text()))
        return alone(self, *arguments)

    monkeypatch.setattr(NumberedPrograms, "alone", counted)
    return found


def drawn(made: Any) -> Any:
    return lambda x: keras.random.normal((2,), seed=made["seed"])


def counted_by(name: str, by: Any) -> Any:
    return lambda made: lambda x: (made[name].assign_add(by(x)), x)[1]


def variables() -> dict[str, Any]:
    return {
        "seed": keras.random.SeedGenerator(1),
        "first": dl.Variable(0, aggregation="ONLY_FIRST_REPLICA"),
        "sum": dl.Variable(0, aggregation="SUM"),
        "mean": dl.Variable(0.0, aggregation="MEAN"),
        "keras": keras.Variable(0, dtype="int32", trainable=False),
        "keras first": keras.Variable(0.0, trainable=False, aggregation="only_first_replica"),
        "keras sum": keras.Variable(0.0, trainable=False, aggregation="sum"),
    }


def one(x: Any) -> Any:
    return 1


def of_batch(x: Any) -> Any:
    return x[0]


@pytest.mark.parametrize(
    ("make_step", "expected", "value"),
    [
        (drawn, 0, ("seed", [1, 1])),
        (counted_by("first", one), 0, ("first", 1)),
        (counted_by("sum", one), 0, ("sum", 2)),
        (counted_by("mean", one), 0, ("mean", 1)),
        (counted_by("keras", one), 0, ("keras", 1)),
        (counted_by("keras first", one), 0, ("keras first", 1)),
        (counted_by("keras sum", one), 1, ("keras sum", 2)),
        (counted_by("first", of_batch), 1, ("first", 3)),
        (counted_by("keras", of_batch), 1, ("keras", 3)),
        (counted_by("mean", of_batch), 1, ("mean", 4)),
        (lambda made: lambda x: x + 1, 0, None),
    ],
)
def test_steps_of_run(counts: list[int], make_step: Any, expected: int, value: Any) -> None:
    strategy = mirrored(2)
    with strategy.scope():
        made = variables()
    (batch,) = strategy.experimental_distribute_dataset([np.array([3, 5], np.int32)])
    strategy.run(make_step(made), args=(batch,))
    assert counts == [expected]
    if value is not None:
        name, after = value
        found = made[name].state if name == "seed" else made[name]
        np.testing.assert_array_equal(np.asarray(found.value), after)


@pytest.mark.parametrize("first", ["constant", "batch"])
def test_what_differed_before_is_merged(counts: list[int], first: str) -> None:
    """A counter that is set from the batch, and then advanced by a constant."""
    strategy = mirrored(2)
    with strategy.scope():
        counter = keras.Variable(0, dtype="int32", trainable=False)
        seed = keras.random.SeedGenerator(1)

    def step(x: Any) -> Any:
        for state in (counter, seed.state):
            start = jnp.broadcast_to(x[0], state.shape)
            state.assign(np.full(state.shape, 3) if first == "constant" else start)
        counter.assign_add(4)
        return seed.next()

    (batch,) = strategy.experimental_distribute_dataset([np.array([3, 5], np.int32)])
    strategy.run(step, args=(batch,))
    assert (counts == [0]) == (first == "constant")
    assert int(counter.value) == 7
    np.testing.assert_array_equal(np.asarray(seed.state.value), [3, 4])


class Counting(keras.layers.Layer):
    """Counts its calls, and remembers a number of its batch."""

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(shape=(), dtype="int32", trainable=False, initializer="zeros")
        self.first = self.add_weight(shape=(), dtype="int32", trainable=False, initializer="zeros")

    def call(self, x: Any) -> Any:
        self.calls.assign_add(1)
        self.first.assign(keras.ops.cast(x[0, 0], "int32"))
        return x


def test_steps_of_fit(counts: list[int]) -> None:
    """Dropout's seeds, a count of calls and an integer of the batch cost no collective."""
    strategy = mirrored(2)
    x, y = np.arange(8, dtype=np.float32).reshape(4, 2), np.ones((4, 1), np.float32)

    def fitted(*layers: keras.layers.Layer) -> keras.Model:
        with strategy.scope():
            model = keras.Sequential([keras.Input((2,)), *layers, keras.layers.Dense(1)])
            model.compile("sgd", "mse")
        model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
        return model

    fitted()
    fitted(keras.layers.Dropout(0.5))
    assert counts[0] == counts[1]
    counting = Counting()
    fitted(counting)
    assert counts[2] == counts[0]  # what is remembered of the batch goes with the gradients
    assert int(counting.calls.value) == 1 and int(counting.first.value) == 0
