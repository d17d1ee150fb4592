"""Every kind of input gives one device's curves, weights and predictions, however it runs."""

from __future__ import annotations

import pytest

from tests.models.inputs import INPUTS
from tests.models.matrix import Matrix, crossed, matrix

pytestmark = pytest.mark.usefixtures("quick_compilation")  # most of what these tests cost


@pytest.fixture(scope="module")
def inputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """The matrix of inputs."""
    folder = tmp_path_factory.mktemp("inputs")
    return matrix(request, folder, "tests.models.inputs:INPUTS", same_compile=True)


@crossed(INPUTS)
def test_an_input_is_used_as_on_one_device(inputs: Matrix, name: str, way: str) -> None:
    inputs.check(name, way)
