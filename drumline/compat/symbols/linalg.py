"""``tf.linalg``."""

from drumline.compat.symbols.table import area, same_names

_LINALG = "drumline.compat.ops.linalg.matrices"

AREA = (
    *same_names(
        _LINALG,
        "linalg.",
        "matmul det cholesky pinv eigh eigvalsh slogdet trace diag_part inv solve adjoint "
        "matrix_transpose matvec svd qr diag band_part tensordot einsum norm cross eye "
        "l2_normalize",
        differences={"diag": "of one diagonal, k=; num_rows=, num_cols= and padding are refused"},
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
