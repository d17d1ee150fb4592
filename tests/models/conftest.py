"""Small models are compiled quickly: that is most of what the matrix costs."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(scope="package", autouse=True)
def quick_compilation() -> Iterator[None]:
    """Spend no time on making programs fast that run a few milliseconds."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
