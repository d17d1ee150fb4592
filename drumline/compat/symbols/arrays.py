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
    ),
    *same_names(_REDUCTIONS, "", _REDUCE),
    *same_names(
        _REDUCTIONS,
        "math.",
        f"{_REDUCE} reduce_variance reduce_std reduce_euclidean_norm count_nonzero zero_fraction "
        f"cumprod top_k in_top_k bincount confusion_matrix",
        differences={
            "confusion_matrix": "compiled functions drop classes outside of num_classes, and need "
            "it to be given",
        },
    ),
    *same_names(_REDUCTIONS, "", "sort argsort clip_by_norm clip_by_global_norm"),
    *same_names(
        "drumline.compat.ops.rearranging",
        "",
        "batch_to_space bitcast broadcast_dynamic_shape broadcast_static_shape dynamic_partition "
        "dynamic_stitch extract_volume_patches guarantee_const "
        "histogram_fixed_width histogram_fixed_width_bins inside_function is_symbolic_tensor "
        "parallel_stack required_space_to_batch_paddings reverse_sequence shape_n space_to_batch "
        "strided_slice timestamp unravel_index",
        differences=dict.fromkeys(
            ("dynamic_partition", "dynamic_stitch"),
            "its result's shape depends on values, which compiled functions do not know",
        ),
    ),
    *area(
        "drumline.compat.ops.rearranging",
        space_to_batch="nn.space_to_batch space_to_batch_nd compat.v1.manip.space_to_batch_nd",
        space_to_depth="nn.space_to_depth",
        depth_to_space="nn.depth_to_space",
        batch_to_space="compat.v1.manip.batch_to_space_nd compat.v1.batch_to_space_nd",
    ),
    *same_names(
        "drumline.compat.ops.nest", "nest.", "assert_same_structure is_nested pack_sequence_as"
    ),
    *area(
        "drumline.compat.ops.nest",
        nest_map_structure="nest.map_structure",
        nest_flatten="nest.flatten",
    ),
    *same_names("drumline.compat.composite.sets", "sets.", "difference intersection size union"),
    *same_names("drumline.compat.composite.sets", "", "edit_distance"),
    *same_names("drumline.compat.ops.math.segments", "math.", _SEGMENTS),
    *area(
        _REDUCTIONS,
        global_norm="linalg.global_norm",
        zero_fraction="nn.zero_fraction",
    ),
)
