"""Arguments of the input pipeline's functions, beside TensorFlow's, where that is installed."""

import inspect

import numpy as np
import pytest

import drumline as dl

tf = pytest.importorskip("tensorflow", reason="compares with TensorFlow, which the bench extra has")

PLACES = {
    "Dataset": (dl.data.Dataset, tf.data.Dataset),
    "io": (dl.io, tf.io),
    "image": (dl.image, tf.image),
    "strings": (dl.strings, tf.strings),
}
OTHERS = {
    "Dataset.range": "any arguments and keywords in TensorFlow",
    "Dataset.group_by_window": "output_signature, where keys decide about dimensions",
    "Dataset.load": "TensorFlow's has no name",
    "image.ResizeMethod": "a class of names",
    "image.sample_distorted_bounding_box": "boxes may be left out, a seed of 0 is one",
    "io.TFRecordOptions": "fewer",
    "io.TFRecordWriter": "a class",
    "io.parse_tensor": "shape is known where it is traced",
}


def arguments(function):
    """Names and defaults; types as numpy's."""
    return [
        (argument.name, plain(argument.default))
        for argument in inspect.signature(function).parameters.values()
        if argument.name not in ("self", "cls")
    ]


def plain(default):
    if isinstance(default, tf.DType | type):
        return np.dtype(getattr(default, "as_numpy_dtype", default))
    return default


NAMES = [
    (place, name)
    for place, (ours, theirs) in PLACES.items()
    for name in sorted(vars(theirs) if place != "Dataset" else dir(theirs))
    if not name.startswith("_") and callable(getattr(ours, name, None))
]


@pytest.mark.parametrize(("place", "name"), NAMES)
def test_arguments_are_tensorflows(place, name):
    if f"{place}.{name}" in OTHERS:
        pytest.skip(OTHERS[f"{place}.{name}"])
    ours, theirs = (getattr(where, name) for where in PLACES[place])
    assert arguments(ours) == arguments(theirs)
