"""Scoring a saved model again, elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np

import drumline as dl
from drumline.demo import plain_keras
from drumline.demo.digits_data import DigitsData


def score_on_one_device(model_path: Path, data: DigitsData) -> float:
    """Test accuracy of the saved model, loaded under ``OneDeviceStrategy``."""
    with dl.distribute.OneDeviceStrategy("cpu:0").scope():
        model = keras.models.load_model(model_path)
    return float(model.evaluate(data.test(), verbose=0, return_dict=True)["accuracy"])


def score_in_plain_keras(model_path: Path, data: DigitsData) -> float:
    """Test accuracy of the saved model in another process, which imports Keras only.

    Raises:
        RuntimeError: the process failed, or had imported drumline.
    """
    images, labels = data.test_arrays()
    with tempfile.TemporaryDirectory() as directory:
        data_path = Path(directory, "test.npz")
        np.savez(data_path, images=images, labels=labels)
        done = subprocess.run(
            [sys.executable, "-P", plain_keras.__file__, str(model_path), str(data_path)],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
        )
    if done.returncode:
        raise RuntimeError(f"Plain Keras could not score {model_path}:\n{done.stderr.strip()}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if answer["drumline"]:
        raise RuntimeError(f"Keras was not alone in its process: {answer['drumline']}")
    return float(answer["accuracy"])
