"""Evaluation: what it says of a model, which it does not train."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.cnn.loop.evaluation import Evaluation
from drumline.cnn.loop.reporting import BenchmarkLog

ROWS, WIDTH, CLASSES, BATCHES = 8, 5, 9, 3
STRATEGIES: dict[str, Callable[[], dl.distribute.Strategy]] = {
    "one device": lambda: dl.distribute.OneDeviceStrategy("cpu:0"),
    "two devices": lambda: dl.distribute.MirroredStrategy(["cpu:0", "cpu:1"]),
}


def rows() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(3)
    images = random.standard_normal((BATCHES * ROWS, WIDTH)).astype(np.float32)
    return images, random.randint(0, CLASSES, BATCHES * ROWS).astype(np.int32)


def model() -> keras.Model:
    """One that computes something else while it trains: it drops, and takes a batch's mean."""
    made = keras.Sequential(
        [
            keras.Input((WIDTH,)),
            keras.layers.BatchNormalization(momentum=0.5),
            keras.layers.Dropout(0.5, seed=1),
            keras.layers.Dense(CLASSES),
        ]
    )
    random = np.random.RandomState(4)
    weights = [random.uniform(0.5, 1.5, weight.shape) for weight in made.get_weights()]
    made.set_weights(weights)
    return made


def accuracies(made: keras.Model, images: np.ndarray, labels: np.ndarray) -> list[float]:
    """Top-1 and top-5 in float64."""
    norm, _, dense = made.layers
    gamma, beta, mean, variance = (np.asarray(w, np.float64) for w in norm.get_weights())
    x = (images - mean) / np.sqrt(variance + norm.epsilon) * gamma + beta
    kernel, bias = (np.asarray(w, np.float64) for w in dense.get_weights())
    order = np.argsort(-(x @ kernel + bias), axis=1)
    return [float((order[:, :k] == labels[:, None]).any(axis=1).mean()) for k in (1, 5)]


def evaluation(
    strategy: dl.distribute.Strategy, made: keras.Model, lines: list[str], **more: Any
) -> Evaluation:
    dataset = dl.data.Dataset.from_tensor_slices(rows()).batch(ROWS, drop_remainder=True)
    return Evaluation(
        strategy,
        made,
        lambda: iter(strategy.experimental_distribute_dataset(dataset)),
        BATCHES,
        ROWS,
        say=lines.append,
        display_every=2,
        **more,
    )


@pytest.mark.parametrize("name", STRATEGIES)
def test_accuracies_are_means_over_all_batches_of_a_model_at_rest(
    name: str, tmp_path: Path
) -> None:
    strategy, lines = STRATEGIES[name](), []
    with strategy.scope():
        made = model()
    before = made.get_weights()
    top_1, top_5 = accuracies(made, *rows())
    assert 0 < top_1 < top_5 < 1
    evaluate = evaluation(strategy, made, lines, log=BenchmarkLog(tmp_path))
    for _ in range(2):  # it is made once, and runs as often as it is asked
        assert evaluate.run(17) == pytest.approx(top_1)
    for ours, theirs in zip(made.get_weights(), before, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert lines[1] == f"Accuracy @ 1 = {top_1:.4f} Accuracy @ 5 = {top_5:.4f} [24 examples]"
    assert re.fullmatch(r"2\t[\d.]+ examples/sec", lines[0])
    assert lines[3].startswith("total images/sec: ")
    logged = [json.loads(line) for line in (tmp_path / "metric.log").read_text().splitlines()]
    found = {each["name"]: each["value"] for each in logged}
    assert found["eval_top_1_accuracy"] == pytest.approx(top_1)
    assert found["eval_top_5_accuracy"] == pytest.approx(top_5)
    assert {each["global_step"] for each in logged} == {17}


def test_a_goal_is_reached_by_the_last_evaluation() -> None:
    strategy = STRATEGIES["one device"]()
    with strategy.scope():
        made = model()
    top_1, _ = accuracies(made, *rows())
    lines: list[str] = []
    evaluate = evaluation(strategy, made, lines, totals=False)
    assert not evaluate.reached(top_1)
    evaluate.run(0)
    assert evaluate.reached(top_1 - 1e-6) and not evaluate.reached(top_1 + 1e-3)
    assert not evaluate.reached(None) and not evaluate.reached(0.0)
    assert not any("images/sec" in line for line in lines)
