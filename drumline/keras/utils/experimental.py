"""As ``tf.keras.utils.experimental``."""

from drumline.keras.parameter_server import DatasetCreator

__all__ = ["DatasetCreator"]
