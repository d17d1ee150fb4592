"""Solutions, factors and bands of matrices are TensorFlow's, with their gradients and errors."""

import numpy as np
import pytest

from drumline.compat import tf as ours
from tests.compat.comparing import compare, named

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

RANDOM = np.random.default_rng(3)
SQUARE = RANDOM.normal(size=(2, 3, 3)) + 3 * np.eye(3)
WIDE = RANDOM.normal(size=(2, 3, 4))
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2)
FACTOR = np.linalg.cholesky(POSITIVE)
RIGHT = RANDOM.normal(size=(2, 3, 2))
COMPLEX = SQUARE + 0.25j * RANDOM.normal(size=(2, 3, 3))
BANDS = RANDOM.normal(size=(2, 3, 4)) + [[0], [4], [0]]
ORDER = np.array([[2, 0, 1], [0, 2, 1]], np.int32)
CASES = {
    "triangular_solve": lambda f, a, b: f(a, b),
    "triangular_solve upper adjoint": lambda f, a, b: f(a, b, lower=False, adjoint=True),
    "triangular_solve complex": lambda f, a, b: f(a, b, adjoint=True),
    "cholesky_solve": lambda f, a, b: f(a, b),
    "lstsq": lambda f, a, b: f(a, b, l2_regularizer=0.5),
    "lstsq tall": lambda f, a, b: f(a, b),
    "lstsq slow": lambda f, a, b: f(a, b, fast=False),
    "lu_solve": lambda f, a, b: f(a, ORDER, b),
    "lu_reconstruct": lambda f, a: f(a, ORDER),
    "lu_matrix_inverse": lambda f, a: f(a, ORDER),
    "logdet": lambda f, a: f(a),
    "expm": lambda f, a: f(a),
    "sqrtm": lambda f, a: f(a),
    "logm": lambda f, a: f(a),
    "normalize": lambda f, a: f(a, axis=-1)[0],
    "tridiagonal_solve": lambda f, a, b: f(a, b),
    "tridiagonal_solve transposed": lambda f, a, b: f(a, b, transpose_rhs=True, conjugate_rhs=True),
    "tridiagonal_solve plain": lambda f, a, b: f(a, b, partial_pivoting=False),
    "tridiagonal_matmul": lambda f, a, b: f(a, b),
    "banded_triangular_solve": lambda f, a, b: f(a, b),
    "banded_triangular_solve upper": lambda f, a, b: f(a, b, lower=False),
    "diag": lambda f, a: f(a),
    "diag_part": lambda f, a: f(a),
    "set_diag": lambda f, a, b: f(a, b),
    "tensor_diag": lambda f, a: f(a),
    "tensor_diag_part": lambda f, a: f(a),
}
ARGUMENTS = {
    "triangular_solve complex": (COMPLEX, COMPLEX[:, :, :2]),
    "cholesky_solve": (FACTOR, RIGHT),
    "lstsq": (WIDE, RIGHT),
    "lstsq tall": (WIDE.swapaxes(-1, -2), RANDOM.normal(size=(2, 4, 1))),
    "lstsq slow": (WIDE, RIGHT),
    "logdet": (POSITIVE,),
    "expm": (SQUARE / 3,),
    "sqrtm": (POSITIVE,),
    "logm": (COMPLEX @ COMPLEX.conj().swapaxes(-1, -2),),
    "tridiagonal_solve": (BANDS, RANDOM.normal(size=(2, 4))),
    "tridiagonal_solve transposed": (BANDS, RANDOM.normal(size=(2, 2, 4))),
    "tridiagonal_solve plain": (BANDS, RANDOM.normal(size=(2, 4, 2))),
    "tridiagonal_matmul": (BANDS, RANDOM.normal(size=(2, 4, 2))),
    "banded_triangular_solve": (np.flip(BANDS[:, :2], 1), RANDOM.normal(size=(2, 4, 2))),
    "banded_triangular_solve upper": (BANDS[:, :2], RANDOM.normal(size=(2, 4, 2))),
    "set_diag": (SQUARE, RIGHT[..., 0]),
    "tensor_diag": (WIDE[0],),
    "tensor_diag_part": (RANDOM.normal(size=(2, 3, 2, 3)),),
    "diag": (WIDE,),
    "diag_part": (WIDE,),
}
NO_GRADIENT = {"logm", "lstsq slow", "banded_triangular_solve", "banded_triangular_solve upper"}


def run(tf, case, dtype, compiled):
    """The value, and the gradient of the weighted sum for each argument."""
    function = named(tf.linalg, case.partition(" ")[0])
    defaults = (SQUARE, RIGHT) if CASES[case].__code__.co_argcount == 3 else (SQUARE,)
    kinds = {"c": "complex64" if dtype == "float32" else "complex128", "f": dtype}
    given = [tf.constant(e.astype(kinds[e.dtype.kind])) for e in ARGUMENTS.get(case, defaults)]

    def call(*tensors):
        return CASES[case](function, *tensors)

    call = tf.function(call) if compiled else call
    if case in NO_GRADIENT:
        return [call(*given)]
    with tf.GradientTape() as tape:
        tape.watch(given)
        made = call(*given)
        weights = np.cos(np.arange(made.shape.num_elements())).reshape(made.shape)
        loss = tf.reduce_sum(tf.math.real(made) * tf.constant(weights.astype(dtype)))
    return [made, *tape.gradient(loss, given)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case, dtype):
    expected = run(theirs, case, dtype, False)
    for compiled in (False, True) if dtype == "float32" else (False,):
        mine = run(ours, case, dtype, compiled)
        assert len(mine) == len(expected)
        for a, b in zip(mine, expected, strict=True):
            compare(a, b, 2e-3 if dtype == "float32" else 1e-6)


@pytest.mark.parametrize("align", ["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"])
@pytest.mark.parametrize("k", [0, 2, -1, (-1, 2), (1, 2), (-2, -1), (0, 0), (-2, 3)])
def test_bands(k, align):
    for matrix in (WIDE, WIDE.swapaxes(-1, -2)):
        limits = k if isinstance(k, tuple) else (k, k)
        if not all(-matrix.shape[-2] < each < matrix.shape[-1] for each in limits):
            continue
        part = [
            tf.linalg.diag_part(matrix, k=k, padding_value=7, align=align) for tf in (ours, theirs)
        ]
        compare(*part)
        sizes = {"num_rows": matrix.shape[-2], "num_cols": matrix.shape[-1]}
        given = part[1].numpy()
        options = dict(k=k, padding_value=5, align=align, **sizes)
        compare(*(tf.linalg.diag(given, **options) for tf in (ours, theirs)))
        replaced = -2 * part[1].numpy()
        compare(*(tf.linalg.set_diag(matrix, replaced, k=k, align=align) for tf in (ours, theirs)))


@pytest.mark.parametrize("sizes", [(4, 4), (4, -1), (-1, 7), (-1, -1)])
def test_sizes_of_matrices(sizes):
    def make(tf):
        return tf.linalg.diag(WIDE[0], k=(-1, 1), num_rows=sizes[0], num_cols=sizes[1])

    compare(make(ours), make(theirs))


def test_factors_and_values():
    for tf in (ours, theirs):
        found = tf.linalg.lu(SQUARE)
        np.testing.assert_allclose(tf.linalg.lu_reconstruct(*found).numpy(), SQUARE, rtol=1e-9)
    for a, b in zip(ours.linalg.lu(SQUARE), theirs.linalg.lu(SQUARE), strict=True):
        compare(a, b)
    deficient = np.diag([1.0, 2.0, 0.0])
    compare(ours.linalg.matrix_rank(deficient), theirs.linalg.matrix_rank(deficient))
    compare(ours.linalg.matrix_rank(WIDE, 1.5), theirs.linalg.matrix_rank(WIDE, 1.5))
    for given in (SQUARE, SQUARE.astype("float32")):
        mine, other = (np.sort_complex(tf.linalg.eigvals(given).numpy()) for tf in (ours, theirs))
        assert mine.dtype == other.dtype
        np.testing.assert_allclose(mine, other, rtol=1e-4)
        values, vectors = (each.numpy() for each in ours.linalg.eig(given))
        np.testing.assert_allclose(given @ vectors, vectors * values[:, None], rtol=1e-3, atol=1e-4)
    alpha, beta = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, -1.0, 0.25])
    for options in (
        {},
        {"select": "i", "select_range": (1, 2)},
        {"select": "v", "select_range": (1.5, 4.0)},
    ):
        compare(
            *(tf.linalg.eigh_tridiagonal(alpha, beta, **options) for tf in (ours, theirs)), 1e-5
        )


def test_formats_of_tridiagonal_matrices():
    right = RANDOM.normal(size=(4, 2))
    matrix = np.triu(np.tril(RANDOM.normal(size=(4, 4)) + 4 * np.eye(4), 1), -1)
    padded = np.pad(np.diagonal(matrix, 1), (0, 1)), np.diagonal(matrix)
    padded = (*padded, np.pad(np.diagonal(matrix, -1), (1, 0)))
    for name in ("tridiagonal_solve", "tridiagonal_matmul"):
        for form in ("matrix", "sequence"):

            def run(tf, name=name, form=form):
                given = tf.constant(matrix) if form == "matrix" else list(map(tf.constant, padded))
                return named(tf.linalg, name)(given, tf.constant(right), form)

            compare(run(ours), run(theirs))


@pytest.mark.parametrize(
    "call",
    [
        lambda tf: tf.linalg.triangular_solve(np.ones((2, 3)), np.ones((2, 1))),
        lambda tf: tf.linalg.triangular_solve(np.eye(2), np.ones((3, 1))),
        lambda tf: tf.linalg.lu(np.ones((2, 3))),
        lambda tf: tf.linalg.logm(np.eye(2)),
        lambda tf: tf.linalg.diag_part(np.eye(2), k=3),
        lambda tf: tf.linalg.diag_part(np.eye(2), k=(1, 0)),
        lambda tf: tf.linalg.set_diag(np.eye(2), [1.0, 2.0, 3.0]),
        lambda tf: tf.linalg.diag([1.0, 2.0], num_rows=1),
        lambda tf: tf.linalg.tensor_diag_part(np.ones((2, 3))),
    ],
)
def test_errors(call):
    for tf in (ours, theirs):
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
            call(tf)
    with pytest.raises(NotImplementedError, match="add a small multiple"):
        ours.linalg.tridiagonal_solve(BANDS, BANDS[:, 0], perturb_singular=True)
