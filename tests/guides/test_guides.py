"""TensorFlow's guides run as they are written, but for names of operations on arrays."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDES = Path(__file__).parent
# Keras reads its own variables in a way that numpy has deprecated.
_WARNINGS = ["-W", "error", "-W", "ignore:__array__ implementation:DeprecationWarning"]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the guides print."""
    directory = tmp_path_factory.mktemp("guides")
    names = ["custom_training", "distributed_input", "parameter_server_training"]
    running = {
        name: subprocess.Popen(
            [sys.executable, *_WARNINGS, GUIDES / f"{name}.py", str(directory)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    }
    texts = {}
    for name, process in running.items():
        out, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors
        texts[name] = out
    return texts


def numbers(text: str, pattern: str) -> list[list[float]]:
    return [[float(number) for number in found.groups()] for found in re.finditer(pattern, text)]


def test_custom_training(printed: dict[str, str]) -> None:
    text = printed["custom_training"]
    assert "Number of devices: 2" in text
    number = r"([\d.]+)"
    epochs = numbers(text, rf"Loss: {number}, Accuracy: {number}")
    assert len(epochs) == 9
    losses = [loss for loss, _ in epochs]
    assert losses[0] > 2 > losses[-1] and epochs[-1][1] > 80
    ((restored,),) = numbers(text, rf"without strategy: {number}")
    ((trained,),) = numbers(text, rf"trained model: {number}")
    assert restored == pytest.approx(trained, abs=1e-3) and trained > 30


def test_distributed_input(printed: dict[str, str]) -> None:
    text = printed["distributed_input"]
    lines = text.splitlines()
    assert "1) cpu:1" in lines
    assert lines.count("plain (16, 1)") == 6 and lines.count("plain (4, 1)") == 1
    assert text.count("Loss is  PerReplica") == 7 + 10
    assert "policy DATA" in lines
    assert "from function [(4, 16, 1), (0, 16, 1)]" in lines
    assert sum(line.startswith("optional (Array(") for line in lines) == 3
    assert lines.count("twice 4 (8, 1)") == 6
    lookups = [line for line in lines if line.startswith("lookup")]
    assert lookups == [
        "lookup [[1, 3], [0, 1]]",
        "lookup [[3, 0], [1, 3]]",
        "lookup [[0, 1], [3, 0]]",
    ]
    assert "ordered True" in lines
    assert lines.count("value [0, 1]") == 4
    assert lines.count("generated [(2,), (2,)] float32") == 4


def test_parameter_server_training(printed: dict[str, str]) -> None:
    text = printed["parameter_server_training"]
    (line,) = [line for line in text.splitlines() if line.startswith("losses ")]
    losses = [float(number) for number in line.split()[1:]]
    assert len(losses) == 5 and losses[-1] < 0.8 * losses[0]
    assert "saved 110 ['train']" in text
    # Nobody waits for anybody, and its learning rate is high: how well it learns, varies.
    accuracies = numbers(text, r"Finished epoch \d, accuracy is (\d\.\d+)")
    assert len(accuracies) == 4 and max(accuracy for (accuracy,) in accuracies) > 0.4
    ((final,),) = numbers(text, r"Final loss is (\d+\.\d+)")
    assert final < 50
    direct, distributed = numbers(text, r"Evaluation accuracy: (\d\.\d+)")
    assert 0 < direct[0] <= 1 and 0 < distributed[0] <= 1
