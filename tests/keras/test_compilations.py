"""One compilation for each function and shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import pytest

STEPS = ("train_step", "partitioned_step", "replicated_step")


@pytest.fixture
def compiled(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """Counts, by name, the steps that XLA compiled since it was last asked."""

    def count() -> Counter[str]:
        names = Counter(
            name
            for record in caplog.records
            for name in STEPS
            if record.getMessage().startswith("Compiling") and f"jit({name})" in record.getMessage()
        )
        caplog.clear()
        return names

    with jax.log_compiles(True):
        yield count


def test_each_step_is_compiled_once_for_each_shape(
    compiled: Any, perceptron: Any, images: Any, train: Any
) -> None:
    def build() -> Any:
        return perceptron(metrics=["accuracy"], optimizer="adam")

    x, y = images
    model = train(build, 2, x, y, validation_data=(x, y)).model
    # training: cut and last; validation: cut and last
    assert compiled() == {"train_step": 1, "replicated_step": 2, "partitioned_step": 1}
    model.fit(x, y, batch_size=12, verbose=0, validation_data=(x, y))
    model.evaluate(x, y, batch_size=12, verbose=0)
    assert compiled() == {}
    model.predict(x, batch_size=12, verbose=0)
    assert compiled() == {"partitioned_step": 1, "replicated_step": 1}
    model.predict(x, batch_size=12, verbose=0)
    model.train_on_batch(x[:12], y[:12])
    model.test_on_batch(x[:12], y[:12])
    assert compiled() == {}


def test_a_new_size_is_one_more(compiled: Any, perceptron: Any, images: Any, train: Any) -> None:
    x, y = images
    model = train(perceptron, 2, x[:12], y[:12]).model
    compiled()
    model.fit(x[:8], y[:8], batch_size=8, verbose=0)
    assert compiled() == {"train_step": 1}


def test_variables_set_by_the_user_cost_no_compilation(
    compiled: Any, perceptron: Any, images: Any, train: Any
) -> None:
    x, y = (part[:12] for part in images)
    model = train(perceptron, 2, x, y).model
    compiled()
    model.set_weights([weight * 0.5 for weight in model.get_weights()])
    model.optimizer.learning_rate = 0.01
    model.fit(x, y, batch_size=12, verbose=0)
    assert compiled() == {}


def test_under_one_replica_the_step_is_keras_own(
    compiled: Any, perceptron: Any, images: Any, train: Any
) -> None:
    x, y = (part[:12] for part in images)
    model = train(perceptron, 1, x, y).model
    assert compiled() == {"train_step": 1}
    model.fit(x, y, batch_size=12, verbose=0)
    assert compiled() == {}
