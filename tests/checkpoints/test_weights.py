"""`load_weights`: a model's weights from tensors of any format, by names."""

from __future__ import annotations

from pathlib import Path

import keras
import ml_dtypes
import numpy as np
import pytest

import drumline as dl
from tests.checkpoints.examples import plain, same

VALUES = {
    "0.kernel": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4),
    "0.bias": np.arange(4, dtype=np.float32),
    "1.kernel": np.linspace(2, 3, 8, dtype=np.float32).reshape(4, 2),
    "1.bias": np.array([5, 6], np.float32),
    "unused": np.ones(3),
}
RULES = {"0.*": "net/first/*", "1.*": "net/second/*"}


def net(dtype: str = "float32") -> keras.Model:
    layers = [
        keras.layers.Dense(4, name="first", dtype=dtype),
        keras.layers.Dense(2, name="second", dtype=dtype),
    ]
    model = keras.Sequential(layers, name="net")
    model.build((None, 3))
    return model


def written(folder: Path, **changes: np.ndarray) -> Path:
    file = folder / "model.safetensors"
    file.write_bytes(plain({**VALUES, **changes}))
    return file


@pytest.mark.parametrize("replicas", [0, 2])
@pytest.mark.parametrize("form", ["safetensors", "drumline", "orbax"])
def test_weights_take_the_tensors_of_their_names(tmp_path: Path, form: str, replicas: int) -> None:
    if form == "orbax":
        pytest.importorskip("tensorstore", reason="needs TensorStore, which comes with Orbax")
    path = dl.train.convert_checkpoint(written(tmp_path), tmp_path / "out", form)
    if replicas:
        strategy = dl.distribute.MirroredStrategy([f"cpu:{n}" for n in range(replicas)])
        with strategy.scope():
            model = net()
    else:
        model = net()
    assert dl.train.load_weights(model, path, RULES) == ["unused"]
    for weight, value in zip(model.weights, VALUES.values(), strict=False):
        assert same(weight.value, value)


def test_floating_point_weights_take_values_of_other_dtypes(tmp_path: Path) -> None:
    half = {n: array.astype(ml_dtypes.bfloat16) for n, array in VALUES.items()}
    file = tmp_path / "model.safetensors"
    file.write_bytes(plain(half))
    model = net()
    dl.train.load_weights(model, file, RULES)
    assert same(model.weights[0], half["0.kernel"].astype(np.float32))


@pytest.mark.parametrize(
    ("changes", "rules", "why"),
    [
        ({}, {}, "there is no 'net/first/kernel'; .*; there is no 'net/second/bias'"),
        ({"1.bias": np.ones(3, np.float32)}, RULES, r"'1.bias' is \[3\] for \[2\]"),
        ({"1.bias": np.ones(2, np.int32)}, RULES, "'1.bias' is int32 for float32"),
    ],
)
def test_what_does_not_fit_changes_nothing(
    tmp_path: Path, changes: dict[str, np.ndarray], rules: dict[str, str], why: str
) -> None:
    model = net()
    before = [np.array(weight.value) for weight in model.weights]
    with pytest.raises(ValueError, match=why):
        dl.train.load_weights(model, written(tmp_path, **changes), rules)
    assert all(same(w.value, value) for w, value in zip(model.weights, before, strict=True))


def test_a_damaged_checkpoint_changes_nothing(tmp_path: Path) -> None:
    path = dl.train.convert_checkpoint(written(tmp_path), tmp_path / "out", "drumline")
    content = bytearray(path.read_bytes())
    content[content.index(VALUES["1.bias"].tobytes())] ^= 1
    path.write_bytes(content)
    model = net()
    before = [np.array(weight.value) for weight in model.weights]
    with pytest.raises(dl.train.CheckpointFileError, match="the checksum of '1.bias' differs"):
        dl.train.load_weights(model, path, RULES)
    assert all(same(w.value, value) for w, value in zip(model.weights, before, strict=True))


def test_a_model_that_is_not_built_is_refused(tmp_path: Path) -> None:
    model = keras.Sequential([keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="it is not built"):
        dl.train.load_weights(model, written(tmp_path))
