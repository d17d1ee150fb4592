"""The list of TensorFlow's public names is what TensorFlow has."""

import importlib.util
import pathlib

import pytest

tensorflow = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "tf_names.py"


def test_the_list_of_names_is_tensorflows():
    spec = importlib.util.spec_from_file_location("tf_names", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.LIST.read_text() == script.text(tensorflow), "run python scripts/tf_names.py"
