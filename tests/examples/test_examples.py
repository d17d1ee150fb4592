"""The examples, run as a user runs them, with fewer epochs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot
import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def numbers(pattern: str, text: str) -> list[float]:
    found = re.findall(pattern, text)
    assert found, f"{pattern!r} is not in {text!r}"
    return [float(number) for number in found]


@pytest.mark.thorough
def test_the_custom_loop_learns_digits_and_its_weights_are_restored() -> None:
    output = run("custom_loop.py", "--epochs", "4")
    losses = numbers(r": loss (\S+),", output)
    assert len(losses) == 4
    assert losses[-1] < losses[0] / 3
    (restored,) = numbers(r"restored without a strategy: test accuracy (\S+)", output)
    assert restored > 0.85
    assert numbers(r"test loss \S+, test accuracy (\S+)", output)[-1] == restored
    by_iterator, in_a_function = numbers(r": mean loss (\S+)", output)
    assert in_a_function < by_iterator < losses[-1]


@pytest.mark.thorough
def test_the_custom_loop_computes_the_same_on_one_and_three_replicas() -> None:
    one = run("custom_loop.py", "--epochs", "1", "--replicas", "1")
    three = run("custom_loop.py", "--epochs", "1", "--replicas", "3")
    for pattern in (r": loss (\S+),", r"test loss (\S+),", r": mean loss (\S+)"):
        np.testing.assert_allclose(numbers(pattern, one), numbers(pattern, three), atol=2e-3)


@pytest.mark.thorough
def test_the_gan_draws_images_like_digits(tmp_path: Path) -> None:
    path = tmp_path / "digits.png"
    output = run("gan.py", "--epochs", "60", "--output", str(path))
    (untrained,) = numbers(r"(\S+) untrained", output)
    (trained,) = numbers(r"(\S+) now", output)
    assert trained < 0.6 * untrained
    assert numbers(r"kinds of digits among 100: (\d+)", output)[0] >= 4
    assert matplotlib.pyplot.imread(path).std() > 0.1


def test_the_third_party_strategy_trains_the_same() -> None:
    output = run("third_party_strategy.py", "--steps", "60")
    exact, compressed = numbers(r"(\S+) at the end", output)
    assert abs(exact - compressed) < 0.01
    assert exact < numbers(r"loss: (\S+) at first", output)[0] / 1.3
    (largest,) = numbers(r"steps: (\S+)", output)
    assert 0 < largest < 0.01


def test_the_distribution_aware_library_gives_the_same_everywhere() -> None:
    output = run("distribution_aware_library.py")
    for rows in (8, 7):
        results = numbers(rf"{rows} rows, .*: mean square (\S+)", output)
        assert len(results) == 3
        np.testing.assert_allclose(results, results[0], rtol=1e-5)
