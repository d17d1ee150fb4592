"""Preprocessing layers give what Keras gives with TensorFlow, where it is installed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset
from tests.keras.layers import layer_programs

pytest.importorskip("tensorflow", reason="compares with TensorFlow, which the reference extra has")

LAYERS = SimpleNamespace(
    **{name: getattr(keras.layers, name) for name in ("Normalization", "Discretization")},
    CategoryEncoding=keras.layers.CategoryEncoding,
    **{name: getattr(dl.keras.layers, name) for name in dl.keras.layers.__all__},
)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[np.ndarray]]:
    path = tmp_path_factory.mktemp("tensorflow") / "results"
    script = Path(layer_programs.__file__)
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, script, path], env=environment, check=True, cwd=path.parent)
    found: dict[str, list[np.ndarray]] = pickle.loads(path.read_bytes())
    return found


@pytest.mark.parametrize("program", layer_programs.PROGRAMS, ids=lambda each: each.__name__)
def test_layers_give_what_they_give_with_tensorflow(
    program: Any, theirs: dict[str, list[np.ndarray]]
) -> None:
    ours = program(LAYERS, lambda rows: Dataset.from_tensor_slices(rows).batch(2))
    assert len(ours) == len(theirs[program.__name__])
    for index, (found, wanted) in enumerate(zip(ours, theirs[program.__name__], strict=True)):
        found = np.asarray(found)
        assert found.shape == wanted.shape and found.dtype.kind == wanted.dtype.kind, index
        if wanted.dtype == object:
            assert found.tolist() == wanted.tolist(), index
        else:
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6, err_msg=str(index))
