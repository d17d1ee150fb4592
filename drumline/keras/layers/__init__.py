"""Layers that Keras has with TensorFlow only."""

from drumline.keras.layers.string_lookup import StringLookup
from drumline.keras.layers_ import IntegerLookup

__all__ = ["IntegerLookup", "StringLookup"]
