"""Keras models of users' own classes give what they give with TensorFlow, where it is installed."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from drumline.compat import tf
from tests.compat import keras_programs

pytest.importorskip("tensorflow", reason="compares with TensorFlow, which the reference extra has")


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    path = tmp_path_factory.mktemp("tensorflow") / "results"
    script = Path(keras_programs.__file__)
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, script, path], env=environment, check=True, cwd=path.parent)
    return pickle.loads(path.read_bytes())


@pytest.mark.parametrize("name", ["own_classes", "own_step", "below"])
def test_training_is_that_of_tensorflow(name, expected):
    history, evaluated, weights = keras_programs.results(getattr(keras_programs, name), tf)
    their_history, their_evaluated, their_weights = expected[name]
    assert set(history) == set(their_history)
    for key, values in their_history.items():
        np.testing.assert_allclose(history[key], values, rtol=2e-4, atol=1e-6, err_msg=key)
    for key, value in their_evaluated.items():
        np.testing.assert_allclose(evaluated[key], value, rtol=2e-4, atol=1e-6, err_msg=key)
    for found, theirs in zip(weights, their_weights, strict=True):
        np.testing.assert_allclose(found, theirs, rtol=2e-4, atol=1e-6)


def test_lookups_are_those_of_tensorflow(expected):
    ours = [each.numpy() for each in keras_programs.looked_up(tf)]
    for index, (found, theirs) in enumerate(zip(ours, expected["looked_up"], strict=True)):
        assert np.asarray(found).dtype == np.asarray(theirs).dtype, index
        np.testing.assert_allclose(found, theirs, rtol=1e-6, err_msg=str(index))


def test_masks_are_those_of_tensorflow(expected):
    for index, (found, theirs) in enumerate(
        zip(keras_programs.masks(tf), expected["masks"], strict=True)
    ):
        np.testing.assert_allclose(found, theirs, rtol=1e-6, err_msg=str(index))


def test_attention_is_trained_as_with_tensorflow(expected):
    found = keras_programs.Attention(tf).train()
    for index, (mine, theirs) in enumerate(zip(found, expected["attention"], strict=True)):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5, err_msg=str(index))
