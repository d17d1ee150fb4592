"""Making and rearranging tensors, reductions, ``tf.nest``."""

from drumline.compat.symbols.table import area, same_names

_ARRAYS = "drumline.compat.ops.arrays"
_REDUCTIONS = "drumline.compat.ops.math.reductions"
_REDUCE = (
    "reduce_sum reduce_mean reduce_prod reduce_max reduce_min reduce_all reduce_any "
    "reduce_logsumexp argmax argmin cumsum"
)
_SEGMENTS = (
    "segment_sum segment_mean segment_max segment_min segment_prod unsorted_segment_sum "
    "unsorted_segment_mean unsorted_segment_max unsorted_segment_min unsorted_segment_prod "
    "unsorted_segment_sqrt_n"
)

AREA = (
    *same_names(
        _ARRAYS,
        "",
        "constant convert_to_tensor identity stop_gradient is_tensor get_static_value zeros "
        "ones zeros_like ones_like fill linspace shape size rank reshape ensure_shape "
        "expand_dims squeeze transpose concat stack unstack split tile repeat broadcast_to "
        "pad reverse roll gather gather_nd scatter_nd tensor_scatter_nd_update "
        "tensor_scatter_nd_add tensor_scatter_nd_max tensor_scatter_nd_min "
        "tensor_scatter_nd_sub where boolean_mask one_hot sequence_mask unique "
        "unique_with_counts meshgrid searchsorted group no_op",
    ),
    *area(
        _ARRAYS,
        range_="range",
        slice_="slice",
        nest_map_structure="nest.map_structure",
        nest_flatten="nest.flatten",
    ),
    *same_names(_REDUCTIONS, "", _REDUCE),
    *same_names(
        _REDUCTIONS,
        "math.",
        f"{_REDUCE} reduce_variance reduce_std reduce_euclidean_norm count_nonzero zero_fraction "
        f"cumprod top_k in_top_k bincount confusion_matrix",
        differences={
            "bincount": "axis= and binary_output= are refused",
            "confusion_matrix": "compiled functions drop classes outside of num_classes, and need "
            "it to be given",
        },
    ),
    *same_names(_REDUCTIONS, "", "sort argsort clip_by_norm clip_by_global_norm"),
    *same_names("drumline.compat.ops.math.segments", "math.", _SEGMENTS),
    *area(
        _REDUCTIONS,
        global_norm="linalg.global_norm",
        zero_fraction="nn.zero_fraction",
    ),
)
