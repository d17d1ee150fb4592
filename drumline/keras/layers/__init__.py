"""Layers that Keras has with TensorFlow only."""

from drumline.keras.layers.integer_lookup import IntegerLookup
from drumline.keras.layers.string_lookup import StringLookup

__all__ = ["IntegerLookup", "StringLookup"]
