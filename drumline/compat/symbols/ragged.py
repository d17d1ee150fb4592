"""``tf.ragged`` and ``tf.RaggedTensor``; dispatch to users' classes."""

from drumline.compat.symbols.table import area, same_names

_DISPATCH = (
    "dispatch_for_api dispatch_for_unary_elementwise_apis dispatch_for_binary_elementwise_apis "
    "unregister_dispatch_for"
)

AREA = (
    *area("drumline.compat.composite.ragged", RaggedTensor="RaggedTensor"),
    *same_names(
        "drumline.compat.composite.ragged_make",
        "ragged.",
        "constant boolean_mask map_flat_values stack stack_dynamic_partitions "
        "row_splits_to_segment_ids segment_ids_to_row_splits cross",
    ),
    *area(
        "drumline.compat.composite.ragged_make",
        range_="ragged.range",
    ),
    *same_names(
        "drumline.compat.composite.ragged_shapes",
        "experimental.",
        "DynamicRaggedShape RowPartition",
    ),
    *same_names("drumline.compat.composite.dispatch", "experimental.", _DISPATCH),
    *same_names(
        "drumline.compat.composite.extension",
        "experimental.",
        "ExtensionType BatchableExtensionType ExtensionTypeSpec",
    ),
    *area("drumline.compat.composite.extension", spec_of="type_spec_from_value"),
)
