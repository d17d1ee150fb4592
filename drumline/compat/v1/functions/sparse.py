"""``tf.compat.v1.sparse``."""

from __future__ import annotations

from drumline.compat.v1.functions.former import former

add = former("add", "sparse.add", "a b threshold thresh", {"thresh": "threshold"})
concat = former(
    "concat",
    "sparse.concat",
    "axis sp_inputs name expand_nonconcat_dim concat_dim expand_nonconcat_dims",
    {"concat_dim": "axis", "expand_nonconcat_dim": "expand_nonconcat_dims"},
)
reduce_max, reduce_sum = (
    former(
        kind,
        f"sparse.{kind}",
        "sp_input axis keepdims reduction_axes keep_dims",
        {"reduction_axes": "axis", "keep_dims": "keepdims"},
    )
    for kind in ("reduce_max", "reduce_sum")
)
segment_mean, segment_sqrt_n, segment_sum = (
    former(
        kind,
        f"sparse.{kind}",
        "data indices segment_ids name num_segments sparse_gradient",
        {},
    )
    for kind in ("segment_mean", "segment_sqrt_n", "segment_sum")
)
split = former(
    "split",
    "sparse.split",
    "keyword_required sp_input num_split axis name split_dim",
    {"split_dim": "axis"},
    "keyword_required name",
)
