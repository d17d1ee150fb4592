"""Special functions give TensorFlow's values, dtypes, derivatives and errors."""

import numpy as np
import pytest

from drumline.compat import tf as ours
from tests.compat.comparing import named

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

POSITIVE = np.array([[0.1, 0.5, 1.0], [1.5, 3.25, 7.0]])
SIGNED = np.array([[-2.5, -1.0, -0.25], [0.0, 0.75, 3.0]])
OF_ONE = {
    **dict.fromkeys(["bessel_j0", "bessel_j1", "dawsn", "fresnel_cos", "fresnel_sin"], SIGNED),
    **dict.fromkeys(
        ["bessel_y0", "bessel_y1", "bessel_k0", "bessel_k1", "bessel_k0e", "bessel_k1e"], POSITIVE
    ),
    **dict.fromkeys(["expint", "spence"], POSITIVE),
}


def values(tf, function, *arguments):
    """The result of a function, that of it compiled, and the gradient of the first argument."""
    tensors = [tf.constant(each) for each in arguments]
    with tf.GradientTape() as tape:
        tape.watch(tensors[-1])
        made = function(*tensors)
    compiled = tf.function(function)(*tensors)
    return made, compiled, tape.gradient(made, tensors[-1])


def compare(mine, other, rtol=3e-5):
    assert len(mine) == len(other)
    for a, b in zip(mine, other, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert a.dtype.name == b.dtype.name and a.shape.as_list() == b.shape.as_list()
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(OF_ONE))
def test_functions_of_one(name, dtype):
    arguments = (OF_ONE[name].astype(dtype),)
    compare(
        *(values(tf, named(tf, f"math.special.{name}"), *arguments) for tf in (ours, theirs)),
        3e-5 if dtype == "float32" else 1e-6,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("erfcinv", (np.array([0.1, 0.5, 1.0, 1.75]),)),
        ("polygamma", (np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.5, 2.5]))),
        ("xdivy", (np.array([0.0, 0.0, 3.0]), np.array([0.0, 2.0, 4.0]))),
        ("cumulative_logsumexp", (SIGNED,)),
        ("betainc", (np.array([0.5, 2.0]), np.array([1.5, 3.0]), np.array([0.25, 0.75]))),
    ],
)
def test_functions_of_math(name, arguments, dtype):
    given = [each.astype(dtype) for each in arguments]
    compare(*(values(tf, named(tf, f"math.{name}"), *given) for tf in (ours, theirs)), 1e-4)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cumulative_logsumexp(axis, reverse, exclusive):
    def run(tf):
        x = tf.constant(SIGNED, tf.float32)
        return tf.math.cumulative_logsumexp(x, axis, exclusive, reverse)

    compare([run(ours)], [run(theirs)])


@pytest.mark.parametrize(("x", "y"), [([7, -7, 7, -7, 0], [2, 2, -2, -2, 3])])
def test_truncated_quotients(x, y):
    for tf_function in (lambda tf, f: f, lambda tf, f: tf.function(f)):

        def run(tf, wrap=tf_function):
            return wrap(tf, tf.truncatediv)(tf.constant(x), tf.constant(y))

        assert run(ours).numpy().tolist() == run(theirs).numpy().tolist()


@pytest.mark.parametrize("name", ["is_non_decreasing", "is_strictly_increasing"])
@pytest.mark.parametrize("x", [[1, 2, 3], [1, 1, 2], [3, 1], [[1, 2], [2, 3]], [5], []])
def test_order(name, x):
    mine, other = (named(tf.math, name)(np.array(x, np.int32)) for tf in (ours, theirs))
    assert mine.numpy() == other.numpy() and mine.dtype.name == other.dtype.name == "bool"


def test_permutations():
    for x in (np.array([2, 0, 1], np.int32), np.array([3, 1, 0, 2], np.int64)):
        compare(*([tf.math.invert_permutation(tf.constant(x))] for tf in (ours, theirs)))
    for tf in (ours, theirs):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.math.invert_permutation([0, 0, 1])


@pytest.mark.parametrize(("dim", "count", "skip"), [(1, 4, 0), (3, 8, 5), (40, 16, 1)])
def test_sobol_points(dim, count, skip):
    compare(*([tf.math.sobol_sample(dim, count, skip)] for tf in (ours, theirs)))


def test_sums_and_greatest():
    x = np.array([[1.0, 5.0, 3.0, 4.0]], np.float32)
    compare(*([tf.math.accumulate_n([x, x, x])] for tf in (ours, theirs)))
    compare(*([tf.realdiv(x, x + 1)] for tf in (ours, theirs)))
    # TensorFlow has no kernel for the least ones on CPUs.
    assert ours.math.approx_min_k(x, 2)[0].numpy().tolist() == [[1.0, 3.0]]
    for name in ("approx_max_k",):
        mine, other = (named(tf.math, name)(tf.constant(x), 2) for tf in (ours, theirs))
        assert len(mine) == len(other) == 2
        compare(mine, other)
    for tf in (ours, theirs):
        with pytest.raises(ValueError, match="[sS]hape"):
            tf.math.accumulate_n([x, x[:, :1]])
