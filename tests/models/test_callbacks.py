"""Every callback is told, does and writes what it does on one device, however it runs."""

from __future__ import annotations

import keras
import pytest

from tests.models.callbacks import CALLBACKS
from tests.models.matrix import Matrix, crossed, matrix

pytestmark = pytest.mark.usefixtures("quick_compilation")  # most of what these tests cost


@pytest.fixture(scope="module")
def callbacks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    """The matrix of callbacks."""
    folder = tmp_path_factory.mktemp("callbacks")
    return matrix(request, folder, "tests.models.callbacks:CALLBACKS", same_compile=True)


@crossed(CALLBACKS)
def test_a_callback_is_as_on_one_device(callbacks: Matrix, name: str, way: str) -> None:
    callbacks.check(name, way)


def test_no_callback_of_keras_is_missing() -> None:
    public = {name for name in dir(keras.callbacks) if name[0].isupper()}
    assert public <= CALLBACKS.keys()
