"""Numbers in steps of an integer type are TensorFlow's, with their gradients and errors."""

import numpy as np
import pytest

from drumline.compat import tf as ours
from tests.compat.comparing import compare, named

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

X = np.linspace(-8, 9, 24, dtype=np.float32).reshape(4, 6)


def run(tf, name, tensors, options, compiled=False):
    given = [tf.constant(each) for each in tensors]

    def call(*given):
        return named(tf.quantization, name)(*given, **options)

    call = tf.function(call) if compiled else call
    with tf.GradientTape() as tape:
        tape.watch(given)
        made = call(*given)
        loss = tf.reduce_sum(made * np.cos(X))
    return [made, *tape.gradient(loss, given)]


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("bits", [2, 8])
@pytest.mark.parametrize(
    ("name", "limits", "options"),
    [
        ("fake_quant_with_min_max_args", [], {"min": -3.3, "max": 5.1}),
        ("fake_quant_with_min_max_vars", [-3.3, 5.1], {}),
        ("fake_quant_with_min_max_vars", [0.0, 0.0], {}),
        ("fake_quant_with_min_max_vars", [1.0, 5.0], {}),
        (
            "fake_quant_with_min_max_vars_per_channel",
            [[-3.3, -1, -2, 0, -7, -0.5], [5.1, 2, 3, 4, 0, 0.5]],
            {},
        ),
    ],
)
def test_steps(name, limits, options, bits, narrow):
    tensors = [X, *(np.asarray(each, np.float32) for each in limits)]
    options = {**options, "num_bits": bits, "narrow_range": narrow}
    expected = run(theirs, name, tensors, options)
    for compiled in (False, True):
        mine = run(ours, name, tensors, options, compiled)
        if limits == [0.0, 0.0]:
            # TensorFlow lets the gradient pass as if the limits had cut nothing off.
            mine, expected = mine[:1], expected[:1]
        for a, b in zip(mine, expected, strict=True):
            compare(a, b, 1e-5)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("mode", ["HALF_TO_EVEN", "HALF_UP"])
@pytest.mark.parametrize(
    "options", [{}, {"narrow_range": True, "num_bits": 4}, {"axis": 1, "num_bits": 5}]
)
def test_steps_of_one_scale(signed, given, mode, options):
    low, high = (np.float32(each) for each in (-3.0, 5.5))
    if given and "axis" in options:
        # TensorFlow refuses limits of places; each place has its own here.
        limits = np.full(6, low), np.array([5.5, 1, 2, 3, 4, 5], np.float32)
        made = ours.quantization.quantize_and_dequantize_v2(
            X, *limits, signed, range_given=True, round_mode=mode, **options
        )
        for place in range(6):
            alone = theirs.quantization.quantize_and_dequantize_v2(
                X[:, place], low, limits[1][place], signed, 5, True, mode
            )
            compare(ours.constant(made[:, place]), alone, 1e-5)
        return

    def call(tf):
        return tf.quantization.quantize_and_dequantize_v2(
            tf.constant(X), low, high, signed, range_given=given, round_mode=mode, **options
        )

    compare(call(ours), call(theirs), 1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda tf: tf.quantization.fake_quant_with_min_max_args(X, 2.0, 1.0),
        lambda tf: tf.quantization.fake_quant_with_min_max_args(X, num_bits=1),
        lambda tf: tf.quantization.fake_quant_with_min_max_vars(X, [1.0], [2.0]),
        lambda tf: tf.quantization.fake_quant_with_min_max_vars_per_channel(X, [1.0], [2.0]),
        lambda tf: tf.quantization.quantize_and_dequantize_v2(X, 2.0, 1.0, range_given=True),
    ],
)
def test_errors(call):
    for tf in (ours, theirs):
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
            call(tf)
