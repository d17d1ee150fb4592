"""Memory is used again only when nobody can see it any more."""

import jax
import numpy as np

from drumline.data import Dataset


def big(n=4000):
    rows = np.arange(n, dtype=np.float32)[:, None] * np.ones(256, np.float32)
    return Dataset.from_tensor_slices(rows)


def test_arrays_that_are_held_never_change():
    held, copies = [], []
    for i, batch in enumerate(big().shuffle(4000, seed=1).batch(100)):
        if i % 3 == 0:
            held.append(batch[10:20])
            copies.append(batch[10:20].copy())
    for view, copy in zip(held, copies, strict=True):
        np.testing.assert_array_equal(view, copy)


def test_what_jax_aliases_never_changes():
    step = jax.jit(lambda x: (x @ x.T).sum())
    values, expected = [], []
    device = []
    for batch in big().shuffle(4000, seed=1).batch(128):
        values.append(step(batch))
        device.append(jax.device_put(batch))
        expected.append(batch.copy())
    for value, on_device, copy in zip(values, device, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(on_device), copy)
        np.testing.assert_allclose(float(value), float(step(copy)), rtol=1e-6)


def test_an_epoch_tells_of_its_end(monkeypatch):
    told = []
    monkeypatch.setattr("drumline.data.engine.iterator.epoch_ended", lambda: told.append(1))
    iterator = iter(Dataset.range(3))
    assert [int(v) for v in iterator] == [0, 1, 2]
    assert told == [1]
    assert list(iterator) == []
    assert told == [1]
    for _ in iter(Dataset.range(5)).blocks(2):
        assert told == [1]
    assert told == [1, 1]
