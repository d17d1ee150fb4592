"""The trainings that parameter servers are measured with: their numbers, weights and data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BATCHES = 32
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Problem:
    """Embedding tables, the concatenation of their rows, and a relu network over it.

    Attributes:
        tables: how many tables; without any, the network reads numbers.
        rows, width: of each table.
        ids: how many rows of each table an example looks up.
        layers: the widths of the network, from its input to its output of 1.
        batch: examples in a step.
        optimizer: ``sgd`` or ``adagrad``.
        learning_rate: of the optimizer.
    """

    tables: int
    rows: int
    width: int
    ids: int
    layers: tuple[int, ...]
    batch: int
    optimizer: str
    learning_rate: float

    @property
    def columns(self) -> int:
        """Numbers in an example."""
        return self.tables * self.ids or self.layers[0]


EMBEDDING = Problem(1, 100_000, 64, 20, (1280, 256, 1), 256, "sgd", 5e-4)
TABLES = Problem(26, 100_000, 16, 1, (416, 32, 1), 2048, "adagrad", 2e-3)
WIDE = Problem(1, 50_000_000, 16, 10, (160, 32, 1), 2048, "sgd", 5e-4)
CURVES = Problem(1, 2_000, 16, 20, (320, 64, 1), 256, "adagrad", 0.05)
DENSE = Problem(0, 0, 0, 0, (2048, 4096, 4096, 1), 4, "sgd", 5e-7)


def initial_tables(problem: Problem) -> list[Floats]:
    """The tables' first values."""
    random = np.random.default_rng(1)
    shape = (problem.rows, problem.width)
    return [
        random.standard_normal(shape, np.float32) * np.float32(0.05) for _ in range(problem.tables)
    ]


def initial_layers(problem: Problem) -> list[Floats]:
    """The network's first kernels and biases, in turn."""
    random = np.random.default_rng(2)
    weights: list[Floats] = []
    for inputs, outputs in zip(problem.layers, problem.layers[1:], strict=False):
        kernel = random.standard_normal((inputs, outputs), np.float32)
        weights += [kernel * np.float32(np.sqrt(2 / inputs)), np.zeros(outputs, np.float32)]
    weights[-2] *= np.float32(0.1)
    return weights


def learnable_batches(problem: Problem, worker: int) -> tuple[NDArray[np.generic], Floats]:
    """What `batches` gives, with targets that follow from the ids and nothing else."""
    x, _ = batches(problem, worker)
    value = np.random.default_rng(3).standard_normal(problem.rows, np.float32)
    return x, value[x].mean(axis=-1, keepdims=True) * np.float32(np.sqrt(problem.ids))


def batches(problem: Problem, worker: int) -> tuple[NDArray[np.generic], Floats]:
    """What a worker trains on again and again: batches stacked along the first axis.

    Targets lie near 3, and first predictions near 0, so that losses of few examples compare.
    """
    random = np.random.default_rng(10 + worker)
    shape = (BATCHES, problem.batch, problem.columns)
    if problem.tables:
        x = random.integers(0, problem.rows, shape, np.int32)
    else:
        x = random.standard_normal(shape, np.float32)
    noise = random.standard_normal((BATCHES, problem.batch, 1), np.float32)
    return x, np.float32(3) + np.float32(0.3) * noise
