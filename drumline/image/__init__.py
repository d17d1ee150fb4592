"""Images: decoding, resizing, cropping, augmenting, as ``tf.image`` and ``tf.io``."""

from drumline.image.converting import (
    convert_image_dtype,
    grayscale_to_rgb,
    hsv_to_rgb,
    per_image_standardization,
    rgb_to_grayscale,
    rgb_to_hsv,
)
from drumline.image.encoding import encode_jpeg, encode_png
from drumline.image.files import decode_bmp, decode_gif, decode_image, decode_png
from drumline.image.flipping import (
    flip_left_right,
    flip_up_down,
    random_flip_left_right,
    random_flip_up_down,
    rot90,
    transpose,
)
from drumline.image.fused import decode_jpeg_resized
from drumline.image.geometry import (
    central_crop,
    crop_to_bounding_box,
    pad_to_bounding_box,
    random_crop,
    resize_with_crop_or_pad,
)
from drumline.image.jpeg import decode_and_crop_jpeg, decode_jpeg, extract_jpeg_shape
from drumline.image.limits import Limits, get_limits, set_limits
from drumline.image.padded import resize_with_pad
from drumline.image.pixels import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_jpeg_quality,
    adjust_saturation,
    random_brightness,
    random_contrast,
    random_hue,
    random_jpeg_quality,
    random_saturation,
)
from drumline.image.random_windows import DistortedBoundingBox, sample_distorted_bounding_box
from drumline.image.resizing import ResizeMethod, resize

__all__ = [
    "DistortedBoundingBox",
    "Limits",
    "ResizeMethod",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_jpeg_quality",
    "adjust_saturation",
    "central_crop",
    "convert_image_dtype",
    "crop_to_bounding_box",
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_jpeg_resized",
    "decode_png",
    "encode_jpeg",
    "encode_png",
    "extract_jpeg_shape",
    "flip_left_right",
    "flip_up_down",
    "get_limits",
    "grayscale_to_rgb",
    "hsv_to_rgb",
    "pad_to_bounding_box",
    "per_image_standardization",
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_flip_left_right",
    "random_flip_up_down",
    "random_hue",
    "random_jpeg_quality",
    "random_saturation",
    "resize",
    "resize_with_crop_or_pad",
    "resize_with_pad",
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "rot90",
    "sample_distorted_bounding_box",
    "set_limits",
    "transpose",
]
