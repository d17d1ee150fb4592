"""``tf.data``."""

from drumline.compat.symbols.table import area, same_names

AREA = (
    *area(
        "drumline.compat.data.dataset",
        TensorDataset="data.Dataset",
        TensorIterator="data.Iterator data.NumpyIterator",
        OptionalValue="data.experimental.Optional experimental.Optional",
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
