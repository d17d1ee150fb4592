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

_FIRST_LINES = ["Achilles sing, cowper 0", "Of Peleus' son, derby 0", "Sing, butler 0"]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the guides print."""
    directory = tmp_path_factory.mktemp("guides")
    names = [
        *("consuming_data", "custom_training", "distributed_input"),
        "parameter_server_training",
    ]
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
        out, errors = process.communicate(timeout=120)
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


def test_consuming_data(printed: dict[str, str]) -> None:
    sections = dict(re.findall(r"== (.*)\n((?:(?!== ).*\n)*)", printed["consuming_data"]))
    lines = {name: text.splitlines() for name, text in sections.items()}
    assert lines["Basic mechanics"] == ["8", "3", "0", "8", "2", "1", "next 8", "reduced 22"]
    assert lines["Dataset structure"].count("shapes: (10,), (), (100,)") == 4
    counted = lines["Consuming Python generators"]
    assert counted[0] == "[0 1 2 3 4 5 6 7 8 9]" and counted[2] == "[20 21 22 23 24  0  1  2  3  4]"
    assert counted[-1].startswith("padded (10,) 10 float32")
    assert lines["Consuming TFRecord data"] == ["[b'Rue Perreyon 0']"]
    text = lines["Consuming text data"]
    assert text[:2] == ["b'Achilles sing, cowper 0'", "b'Achilles sing, cowper 1'"]
    assert text[6:9] == [f"b{line!r}" for line in _FIRST_LINES]
    assert sum(line.startswith("survivor b'1,") for line in text) == 10
    table = lines["Consuming CSV data"]
    assert table[0] == "'survived': (4,)" and "'age': float32" in table and "'sex': object" in table
    assert "chosen ['class', 'fare']" in table
    files = lines["Consuming sets of files"]
    assert files[:2] == ["/flowers/daisy/0.jpg", "/flowers/daisy/1.jpg"]
    assert files[2] == r"b'\xff\xd8\xff' b'daisy'"
    assert files.count("image (128, 128, 3) float32 b'daisy'") == 2
    assert lines["Parsing Example messages"] == [
        f"{[f'Rue Perreyon {i}'.encode() for i in range(3)]}"
    ]
    series = lines["Time series windowing"]
    assert (
        series[2] == "[0 1 2 3 4 5 6 7 8]  =>  [1 2 3 4 5 6 7 8 9]" and series[-1] == "[2 3 4 5 6]"
    )
    ((balanced,),) = numbers(printed["consuming_data"], r"fraction ([\d.]+)")
    ((sampled,),) = numbers(printed["consuming_data"], r"sampled ([\d.]+)")
    assert abs(balanced - 0.5) < 0.1 and abs(sampled - 0.5) < 0.06


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
