"""A cluster within this process, and models on its servers beside the same ones in plain Keras."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from tests.ports import free_addresses

ROWS = 36
IDS = 50


@pytest.fixture(scope="session")
def strategy() -> Iterator[Any]:
    """Two workers and two parameter servers, as threads; tables of 40 rows and more are cut."""
    ports = free_addresses(4)
    spec = dl.train.ClusterSpec({"worker": ports[:2], "ps": ports[2:]})
    tasks = [(job, index) for job in ("worker", "ps") for index in range(2)]
    servers = [dl.distribute.Server(spec, job, index) for job, index in tasks]
    resolver = dl.distribute.cluster_resolver.SimpleClusterResolver(spec)
    partitioner = dl.distribute.experimental.partitioners.MinSizePartitioner(800, max_shards=2)
    strategy = dl.distribute.ParameterServerStrategy(resolver, partitioner)
    yield strategy
    dl.distribute.coordinator.ClusterCoordinator(strategy).close()
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def examples() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """36 rows of ids and numbers with 3 classes."""
    random = np.random.default_rng(4)
    inputs = {
        "ids": random.integers(0, IDS, (ROWS, 3)).astype(np.int32),
        "numbers": random.normal(size=(ROWS, 4)).astype(np.float32),
    }
    return inputs, (inputs["ids"].sum(1) % 3).astype(np.int32)


def classifier(*extra: keras.layers.Layer, **options: Any) -> keras.Model:
    """A compiled model with an embedding."""
    keras.utils.set_random_seed(5)
    ids = keras.Input((3,), dtype="int32", name="ids")
    numbers = keras.Input((4,), name="numbers")
    rows = keras.layers.Embedding(IDS, 6)(ids)
    x = keras.layers.Concatenate()([keras.layers.Flatten()(rows), numbers])
    for layer in extra:
        x = layer(x)
    model = keras.Model({"ids": ids, "numbers": numbers}, keras.layers.Dense(3)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    options = {"optimizer": "adam", "metrics": ["accuracy"]} | options
    model.compile(loss=loss, **options)
    return model


@pytest.fixture(scope="session")
def pair(strategy: Any) -> Callable[..., tuple[keras.Model, keras.Model]]:
    """Makes a model on the servers, and the same one in plain Keras."""

    def make(
        build: Callable[[], keras.Model] = classifier,
    ) -> tuple[keras.Model, keras.Model]:
        with strategy.scope():
            served = build()
        plain = build()
        plain.set_weights(served.get_weights())
        return served, plain

    return make


def standing_still() -> keras.Model:
    """A model that its training does not change: its losses do not depend on the order of steps."""
    return classifier(optimizer=keras.optimizers.SGD(0.0))


@pytest.fixture(scope="session")
def still(pair: Any) -> tuple[keras.Model, keras.Model]:
    """A model that does not change: on the servers, and in plain Keras. It is compiled once."""
    models: tuple[keras.Model, keras.Model] = pair(standing_still)
    return models
