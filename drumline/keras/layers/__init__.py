"""Preprocessing layers that Keras has with TensorFlow only, and models that begin with them.

Those that Keras 3 has on JAX (`Normalization`, `Discretization`, `CategoryEncoding`, `Rescaling`,
`RandomFlip` and its like) are Keras's own, and work in `Dataset.map` and with `adapt` as these do.
"""

from drumline.keras.layers.hashing import HashedCrossing, Hashing
from drumline.keras.layers.index_lookup import UnknownTokenError
from drumline.keras.layers.integer_lookup import IntegerLookup
from drumline.keras.layers.string_lookup import StringLookup
from drumline.keras.layers.text_vectorization import TextVectorizationLayer as TextVectorization

__all__ = [
    "HashedCrossing",
    "Hashing",
    "IntegerLookup",
    "StringLookup",
    "TextVectorization",
    "UnknownTokenError",
]
