"""Layers that Keras has with TensorFlow only."""

from drumline.keras.layers.string_lookup import StringLookup

__all__ = ["StringLookup"]
