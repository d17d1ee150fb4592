"""Utilities under the names that ``tf.keras.utils`` gives them."""

from drumline.keras.utils import experimental

__all__ = ["experimental"]
