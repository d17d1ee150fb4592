"""What the examples in docstrings take for granted: `pytest --doctest-modules drumline/data`."""

from __future__ import annotations

import os
from typing import Any

import pytest

CPU_DEVICES = 4


def pytest_configure(config: pytest.Config) -> None:
    """Import drumline as users do, on four CPU devices, before pytest imports its modules alone."""
    if config.getoption("doctestmodules", False):
        os.environ.setdefault("KERAS_BACKEND", "jax")
        import jax

        jax.config.update("jax_num_cpu_devices", CPU_DEVICES)

        import drumline  # noqa: F401


@pytest.fixture
def names_of_examples() -> dict[str, Any]:
    """The imports that examples leave out."""
    import keras
    import numpy as np

    import drumline as dl

    return {"dl": dl, "keras": keras, "np": np}


@pytest.fixture(autouse=True)
def _names_of_examples(request: pytest.FixtureRequest) -> None:
    """Give them to the examples that pytest runs itself."""
    if type(request.node).__name__ == "DoctestItem":
        found = request.getfixturevalue("names_of_examples")
        request.getfixturevalue("doctest_namespace").update(found)
