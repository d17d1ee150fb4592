"""``tf.data``."""

from drumline.compat.symbols.table import area, same_names

AREA = (
    *area(
        "drumline.compat.data.dataset",
        TensorDataset="data.Dataset",
        TensorIterator="data.Iterator data.NumpyIterator",
        OptionalValue="data.experimental.Optional experimental.Optional",
        DatasetStructure="data.DatasetSpec",
        differences={
            "TensorDataset": "random operations draw other bits than TensorFlow's; "
            "docs/tensorflow/differences.md has the rest"
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
    *area(
        "drumline.compat.data.experimental",
        RowsOfCsvFiles="data.experimental.CsvDataset",
        RecordWriter="data.experimental.TFRecordWriter",
        counter="data.experimental.Counter",
        random_dataset="data.experimental.RandomDataset",
        differences={
            "counter": "a function, not a class",
            "random_dataset": "a function, not a class",
        },
    ),
    *same_names(
        "drumline.compat.data.experimental",
        "data.experimental.",
        "choose_from_datasets sample_from_datasets make_csv_dataset cardinality from_list "
        "get_single_element get_next_as_optional "
        "get_structure save assert_cardinality bucket_by_sequence_length dense_to_ragged_batch "
        "enumerate_dataset group_by_window ignore_errors rejection_resample scan snapshot "
        "take_while unbatch unique map_and_batch parallel_interleave shuffle_and_repeat "
        "copy_to_device prefetch_to_device",
        differences={
            "map_and_batch": "``num_parallel_batches`` is a hint, and ignored",
            "parallel_interleave": "how much is buffered is drumline's choice",
            "copy_to_device": "elements are copied by the step that takes them",
            "prefetch_to_device": "elements are copied to the device by the step that takes them",
        },
    ),
    *area(
        "drumline.compat.data.dataset",
        {
            "TensorDataset.load": "data.experimental.load",
        },
    ),
    *same_names(
        "drumline.data",
        "data.experimental.",
        "AUTOTUNE INFINITE_CARDINALITY UNKNOWN_CARDINALITY",
    ),
    *same_names(
        "drumline.data.experimental",
        "data.experimental.",
        "AutoShardPolicy AutotuneOptions DistributeOptions OptimizationOptions",
    ),
)
