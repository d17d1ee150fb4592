"""``tf.linalg``."""

from drumline.compat.symbols.table import area, same_names

_LINALG = "drumline.compat.ops.linalg.matrices"

AREA = (
    *same_names(
        _LINALG,
        "linalg.",
        "matmul det cholesky pinv eigh eigvalsh slogdet trace inv solve adjoint "
        "matrix_transpose matvec svd qr band_part tensordot einsum norm cross eye "
        "l2_normalize",
    ),
    *same_names(
        "drumline.compat.ops.linalg.bands",
        "linalg.",
        "diag diag_part set_diag tensor_diag tensor_diag_part",
    ),
    *same_names(
        "drumline.compat.ops.linalg.factorizations",
        "linalg.",
        "triangular_solve banded_triangular_solve cholesky_solve lstsq lu lu_matrix_inverse "
        "lu_reconstruct lu_solve logdet expm logm sqrtm matrix_rank normalize eig eigvals "
        "eigh_tridiagonal tridiagonal_solve tridiagonal_matmul",
        differences={
            "eigh_tridiagonal": "from whole matrices, in memory of n x n; select='v' takes one",
            "tridiagonal_solve": "with partial_pivoting, from whole matrices, in memory of n x n; "
            "perturb_singular= is refused",
            "logm": "computed on the host, without gradients",
            "sqrtm": "computed on the host",
            "eig": "computed on the host, without gradients",
            "eigvals": "computed on the host, without gradients",
        },
    ),
    *area(
        _LINALG,
        matmul="matmul",
        tensordot="tensordot",
        einsum="einsum",
        norm="norm",
        eye="eye",
        l2_normalize="math.l2_normalize nn.l2_normalize",
    ),
)
