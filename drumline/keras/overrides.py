"""Telling a user's method from Keras's."""

from __future__ import annotations

import keras

from drumline.keras import internals


def overrides(model: keras.Model, *names: str) -> bool:
    """Whether the model's class, or the model itself, brings its own version of a method."""
    return any(_brings_its_own(model, name) for name in names)


def _brings_its_own(model: keras.Model, name: str) -> bool:
    if name in vars(model):
        return True
    return getattr(type(model), name) is not getattr(internals.JAXTrainer, name)
