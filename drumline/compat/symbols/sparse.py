"""``tf.sparse``, ``tf.SparseTensor``, ``tf.IndexedSlices``."""

from drumline.compat.symbols.table import area, same_names

AREA = (
    *area(
        "drumline.compat.composite.sparse",
        SparseTensor="SparseTensor sparse.SparseTensor",
        SparseSpec="SparseTensorSpec",
        IndexedSlices="IndexedSlices",
        differences={"SparseTensor": "compiled functions have its places in their program"},
    ),
    *same_names(
        "drumline.compat.composite.sparse_ops",
        "sparse.",
        "from_dense to_dense reorder reshape split concat expand_dims transpose retain "
        "fill_empty_rows reset_shape mask map_values add maximum minimum sparse_dense_matmul "
        "reduce_sum reduce_max softmax eye to_indicator segment_sum segment_mean segment_sqrt_n",
    ),
    *area("drumline.compat.composite.sparse_ops", slice_="sparse.slice"),
)
