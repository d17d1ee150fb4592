"""Embeddings under `CentralStorageStrategy`: tables stay at home, and rows travel."""

from __future__ import annotations

import gc
import logging
from typing import Any

import jax
import keras
import numpy as np
import pytest

from drumline.distribute import MirroredStrategy, Strategy
from drumline.distribute.experimental import CentralStorageStrategy
from tests.moved_rows import count_moved_rows, padded

ROWS, WIDTH, OTHER = 1000, 8, (50, 4)
HOME = "cpu:3"
CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "two replicas": (2, {}),
    "three replicas": (3, {"steps_per_execution": 2}),
    "one replica": (1, {}),
}


def _compute(replicas: int) -> list[str]:
    return [f"cpu:{index}" for index in range(replicas)]


def _model(strategy: Strategy, options: dict[str, Any], **table: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    with strategy.scope():
        first, second = keras.Input((4,), dtype="int32"), keras.Input((4,), dtype="int32")
        embedding = keras.layers.Embedding(ROWS, WIDTH, name="words", **table)
        # The table is looked up twice, and another once.
        both = keras.layers.Concatenate()([embedding(first), embedding(second)])
        both = keras.layers.GlobalAveragePooling1D()(both)
        more = keras.layers.Flatten()(keras.layers.Embedding(*OTHER)(second % OTHER[0]))
        outputs = keras.layers.Dense(1)(keras.layers.Concatenate()([both, more]))
        model = keras.Model([first, second], outputs)
        model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"], **options)
    return model


def _batches(rows: int) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    ids = [rng.integers(0, ROWS, (rows, 4)).astype(np.int32) for _ in range(2)]
    ids[0][:3] = 7  # the same on all replicas, again and again
    return ids, rng.normal(size=(rows, 1)).astype(np.float32)


class _NoTableAway(keras.callbacks.Callback):
    """Checks that no compute device holds an array of a table's shape."""

    def __init__(self, home: str) -> None:
        super().__init__()
        self.batches = 0
        self._home = jax.devices()[int(home.split(":")[1])]

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._look()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._look()

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        self._look()

    def _look(self) -> None:
        self.batches += 1
        for array in jax.live_arrays():
            if array.shape in ((ROWS, WIDTH), OTHER):
                assert array.devices() == {self._home}


@pytest.mark.parametrize("case", CASES)
def test_training_equals_that_of_mirrored_variables(case: str) -> None:
    replicas, options = CASES[case]
    x, y = _batches(40)  # the last batch does not split
    found = []
    gc.collect()
    for strategy in (
        CentralStorageStrategy(_compute(replicas), HOME),
        MirroredStrategy(_compute(replicas)),
    ):
        model = _model(strategy, options)
        watch = _NoTableAway(HOME)
        is_central = isinstance(strategy, CentralStorageStrategy)
        callbacks = [watch] if is_central else []
        history = model.fit(
            x, y, batch_size=12, epochs=2, shuffle=False, verbose=0, callbacks=callbacks
        )
        assert watch.batches or not is_central
        results = [*history.history.values(), model.train_on_batch(x, y)]
        results += [model.evaluate(x, y, batch_size=12, verbose=0, callbacks=callbacks)]
        results += [model.predict(x, batch_size=12, verbose=0, callbacks=callbacks)]
        values = [variable.value for variable in (*model.variables, *model.optimizer.variables)]
        found.append([np.asarray(value) for value in (*values, *results)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_rows_travel_and_tables_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model(CentralStorageStrategy(_compute(2), HOME), {})
    x, y = _batches(8)
    model.train_on_batch(x, y)
    sent = count_moved_rows(monkeypatch, HOME, [(WIDTH,), OTHER[1:]])
    model.train_on_batch(x, y)
    expected = 0
    for share in (slice(0, 4), slice(4, 8)):
        words = len(np.unique([x[0][share], x[1][share]]))
        others = len(np.unique(x[1][share] % OTHER[0]))
        expected += 4 * (WIDTH * padded(words) + OTHER[1] * padded(others))
    assert sent == {"to": expected, "from": expected}


def test_rows_alone_travel_for_evaluate_and_predict(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _model(CentralStorageStrategy(_compute(2), HOME), {})
    x, y = _batches(8)
    model.test_on_batch(x, y)
    model.predict_on_batch(x)
    sent = count_moved_rows(monkeypatch, HOME, [(WIDTH,), OTHER[1:]])
    model.test_on_batch(x, y)
    model.predict_on_batch(x)
    words, others = len(np.unique(x)), len(np.unique(x[1] % OTHER[0]))
    rows = 4 * (WIDTH * padded(words) + OTHER[1] * padded(others))
    assert sent == {"to": 2 * 2 * rows, "from": 0}  # of two steps, to two devices


def test_a_table_that_is_read_otherwise_is_copied_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    x, y = _batches(8)
    found = []
    for strategy in (MirroredStrategy(_compute(2)), CentralStorageStrategy(_compute(2), HOME)):
        model = _model(strategy, {}, embeddings_regularizer="l2")
        with caplog.at_level(logging.INFO, "drumline"):
            model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False)
        found.append([np.asarray(v.value) for v in model.variables])
    (said,) = {record.getMessage() for record in caplog.records if "all of" in record.getMessage()}
    assert "all of words/embeddings is copied to each compute device" in said
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)
