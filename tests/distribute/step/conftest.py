"""Fixtures for loops written by hand."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drumline import config
from drumline.distribute import OneDeviceStrategy
from tests.distribute.step.loops import Loop, train


@pytest.fixture(scope="session")
def one_device() -> Callable[..., Loop]:
    @functools.cache
    def run(**options: Any) -> Loop:
        return train(OneDeviceStrategy("cpu:0"), **options)

    return run


@pytest.fixture
def eagerly() -> Iterator[None]:
    config.run_functions_eagerly(True)
    yield
    config.run_functions_eagerly(False)
