"""Evaluation and prediction spread over workers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl


def test_evaluation_counts_every_row_once(still: Any, examples: Any) -> None:
    served, plain = still
    wanted = plain.evaluate(*examples, batch_size=16, verbose=0)
    dataset = dl.data.Dataset.from_tensor_slices(examples).batch(16)
    np.testing.assert_allclose(served.evaluate(*examples, batch_size=16, verbose=0), wanted, 1e-5)
    np.testing.assert_allclose(served.evaluate(dataset, verbose=0), wanted, 1e-5)
    (some,) = [served.evaluate(dataset, steps=2, verbose=0)]
    first = {name: value[:32] for name, value in examples[0].items()}
    np.testing.assert_allclose(some, plain.evaluate(first, examples[1][:32], verbose=0), 1e-5)


def test_predictions_keep_their_order(still: Any, examples: Any) -> None:
    served, plain = still
    wanted = plain.predict(examples[0], verbose=0)
    found = served.predict(examples[0], batch_size=16, verbose=0)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.asarray(served(examples[0])), wanted, rtol=1e-4, atol=1e-6)
    with pytest.raises(TypeError, match="needs input with an order"):
        served.predict(dl.data.Dataset.from_tensor_slices(examples[0]).batch(2).repeat(), steps=2)


def test_structured_outputs(strategy: Any) -> None:
    with strategy.scope():
        inputs = keras.Input((2,))
        outputs = {"sum": keras.ops.sum(inputs, 1), "double": [keras.layers.ReLU()(inputs * 2)]}
        model = keras.Model(inputs, outputs)
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    found = model.predict(x, batch_size=2, verbose=0)
    np.testing.assert_allclose(found["sum"], x.sum(1))
    np.testing.assert_allclose(found["double"][0], 2 * x)


def test_evaluation_by_a_function(still: Any, examples: Any) -> None:
    served, plain = still
    with pytest.raises(ValueError, match="`steps` is needed"):
        served.evaluate(lambda context: dl.data.Dataset.range(1))
    found = served.evaluate(
        lambda context: dl.data.Dataset.from_tensor_slices(examples).batch(36).repeat(),
        steps=4,
        verbose=0,
    )
    np.testing.assert_allclose(found, plain.evaluate(*examples, verbose=0), 1e-5)
