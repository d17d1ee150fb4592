"""Models of many kinds give one device's curves, weights and predictions, however they run."""

from __future__ import annotations

import pytest

from tests.models.exceptions import EXCEPTIONS
from tests.models.matrix import Matrix, crossed, matrix
from tests.models.sequences import SEQUENCES
from tests.models.trainings import TRAININGS
from tests.models.vision import VISION

pytestmark = pytest.mark.usefixtures("quick_compilation")  # most of what these tests cost

MODELS = {**VISION, **SEQUENCES, **TRAININGS}


@pytest.fixture(scope="module")
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """The matrix of models."""
    return matrix(request, tmp_path_factory.mktemp("models"), f"{__name__}:MODELS")


@crossed(MODELS)
def test_a_model_is_one_devices(models: Matrix, name: str, way: str) -> None:
    models.check(name, way)


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
def test_another_row_would_be_seen(models: Matrix, name: str) -> None:
    models.check_sight(name)


def test_there_are_at_most_ten_exceptions() -> None:
    assert len(EXCEPTIONS) <= 10
