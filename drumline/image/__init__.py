"""Images: decoding, resizing, cropping, augmenting, as ``tf.image`` and ``tf.io``."""

from drumline.image.jpeg import decode_and_crop_jpeg, decode_jpeg, extract_jpeg_shape
from drumline.image.limits import Limits, get_limits, set_limits
from drumline.image.resizing import ResizeMethod, resize

__all__ = [
    "Limits",
    "ResizeMethod",
    "decode_and_crop_jpeg",
    "decode_jpeg",
    "extract_jpeg_shape",
    "get_limits",
    "resize",
    "set_limits",
]
