"""Training on a dataset that nobody has batched."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from drumline.data import Dataset, TensorSpec


def model() -> keras.Model:
    made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    made.compile("sgd", "mse")
    return made


@pytest.mark.parametrize("method", ["fit", "evaluate"])
def test_the_error_hints_at_batch(method: str) -> None:
    rows = Dataset.from_tensor_slices((np.ones((8, 3)), np.ones((8, 2)))).map(lambda x, y: (x, y))
    with pytest.raises(Exception, match="hape") as caught:
        getattr(model(), method)(rows, verbose=0)
    assert any("no batch() in it" in note for note in caught.value.__notes__)
    with pytest.raises(Exception, match="hape") as caught:
        getattr(model(), method)(rows.batch(4).unbatch().batch(2).map(lambda x, y: (x, x)))
    assert not any("batch()" in note for note in getattr(caught.value, "__notes__", []))


def test_batches_of_a_generator_are_fine() -> None:
    batches = Dataset.from_generator(
        lambda: [(np.ones((4, 3), np.float32), np.ones((4, 2), np.float32))],
        output_signature=(TensorSpec((None, 3)), TensorSpec((None, 2))),
    )
    assert not batches.has_batches
    assert len(model().fit(batches, verbose=0).history["loss"]) == 1
