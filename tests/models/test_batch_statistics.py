"""Batch normalization: of each replica's share, and synchronized, as on one device."""

from __future__ import annotations

import pytest

from tests.models.batch_statistics import MODELS
from tests.models.matrix import Matrix, crossed, matrix

pytestmark = pytest.mark.usefixtures("quick_compilation")  # most of what these tests cost

TABLE = "tests.models.batch_statistics:MODELS"


@pytest.fixture(scope="module")
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """The matrix of models with batch normalization."""
    return matrix(request, tmp_path_factory.mktemp("statistics"), TABLE)


@crossed(MODELS)
def test_batch_normalization_is_as_it_says(models: Matrix, name: str, way: str) -> None:
    models.check(name, way)
