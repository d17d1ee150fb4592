"""``tf.data``."""

from drumline.compat.symbols.table import area, same_names

AREA = (
    *area(
        "drumline.compat.data.dataset",
        TensorDataset="data.Dataset",
        TensorIterator="data.Iterator data.NumpyIterator",
        OptionalValue="data.experimental.Optional experimental.Optional",
        differences={
            "TensorDataset": "random operations draw other bits than TensorFlow's; "
            "docs/differences.md has the rest"
        },
    ),
    *area(
        "drumline.compat.data.readers",
        LinesOfFiles="data.TextLineDataset",
        RecordsOfFiles="data.TFRecordDataset",
        FixedLengthRecordsOfFiles="data.FixedLengthRecordDataset",
    ),
    *same_names(
        "drumline.data",
        "data.",
        "Options ThreadingOptions AUTOTUNE INFINITE_CARDINALITY UNKNOWN_CARDINALITY",
    ),
    *same_names(
        "drumline.data.experimental",
        "data.experimental.",
        "AutoShardPolicy",
    ),
)
