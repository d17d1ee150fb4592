"""The models of ``keras.applications``, made as the benchmark takes its own: logits, no weights."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import keras

_IMAGE_SIZES = {
    "EfficientNetB1": 240,
    "EfficientNetB2": 260,
    "EfficientNetB3": 300,
    "EfficientNetB4": 380,
    "EfficientNetB5": 456,
    "EfficientNetB6": 528,
    "EfficientNetB7": 600,
    "EfficientNetV2B1": 240,
    "EfficientNetV2B2": 260,
    "EfficientNetV2B3": 300,
    "EfficientNetV2L": 480,
    "EfficientNetV2M": 480,
    "EfficientNetV2S": 384,
    "InceptionResNetV2": 299,
    "InceptionV3": 299,
    "NASNetLarge": 331,
    "Xception": 299,
}
"""Of those that Keras does not make for images of 224 x 224 by default."""


def names() -> list[str]:
    """Return the names of the models that the installed Keras has.

    A newer Keras may have more of them than an older one.

    Example:
        >>> "EfficientNetB0" in names()
        True
    """
    found = (name for name in dir(keras.applications) if name[0].isupper())
    return [name for name in found if callable(getattr(keras.applications, name))]


def image_size(name: str) -> int:
    """Return the height and width that Keras makes a model for by default.

    Example:
        >>> image_size("Xception")
        299
    """
    return _IMAGE_SIZES.get(name, 224)


def application(
    name: str, num_classes: int, size: int, data_format: str, dtype: Any
) -> Callable[[Any], Any]:
    """Make a model of Keras's, with new weights.

    Keras's own preprocessing layers are left out: the benchmark's input is scaled already.
    Dropout and stochastic depth are Keras's, and what a layer begins with.

    Args:
        name: One of `names`.
        num_classes: How many logits it has.
        size: Height and width of the images.
        data_format: "channels_last" or "channels_first".
        dtype: A dtype policy or its name.

    Returns:
        The model, from images in that format to logits. Unlike the benchmark's own models it
        takes channels first where `data_format` says so, and gives what its policy computes in.

    Raises:
        ValueError: Keras makes no such model for images so small, or with channels first.

    Source: https://keras.io/api/applications.
    """
    make = getattr(keras.applications, name)
    options: dict[str, Any] = {"weights": None, "classes": num_classes}
    if "include_preprocessing" in inspect.signature(make).parameters:
        options["include_preprocessing"] = False
    channels_last = data_format == "channels_last"
    shape = (size, size, 3) if channels_last else (3, size, size)
    with _defaults(data_format, dtype):
        return make(input_shape=shape, classifier_activation=None, **options)


@contextlib.contextmanager
def _defaults(data_format: str, dtype: Any) -> Iterator[None]:
    """Let Keras make layers of a format and a type, which its applications do not ask for."""
    before = keras.config.image_data_format(), keras.config.dtype_policy()
    try:
        keras.config.set_image_data_format(data_format)
        keras.config.set_dtype_policy(dtype)
        yield
    finally:
        keras.config.set_image_data_format(before[0])
        keras.config.set_dtype_policy(before[1])
