"""``tf.feature_column``, and the layers that take its columns."""

from drumline.compat.symbols.table import area, same_names

_MAKE = "drumline.compat.data.features.constructors"
_LAYERS = "drumline.compat.keras.feature_layers"
_NO_CHECKPOINTS = "TensorFlow's checkpoints are not read: ckpt_to_load_from is refused"

AREA = (
    *same_names(
        _MAKE,
        "feature_column.",
        "bucketized_column categorical_column_with_hash_bucket categorical_column_with_identity "
        "categorical_column_with_vocabulary_file categorical_column_with_vocabulary_list "
        "crossed_column embedding_column indicator_column make_parse_example_spec numeric_column "
        "sequence_categorical_column_with_hash_bucket sequence_categorical_column_with_identity "
        "sequence_categorical_column_with_vocabulary_file "
        "sequence_categorical_column_with_vocabulary_list sequence_numeric_column "
        "shared_embeddings weighted_categorical_column",
        differences={
            "categorical_column_with_identity": "embeddings of numbers that are too large are NaN, "
            "and no error",
            "categorical_column_with_vocabulary_file": "files are text, not TFRecords",
            "embedding_column": _NO_CHECKPOINTS,
            "shared_embeddings": _NO_CHECKPOINTS,
        },
    ),
    *area(
        _MAKE,
        former_vocabulary_file="compat.v1.feature_column.categorical_column_with_vocabulary_file",
        shared_embeddings="compat.v1.feature_column.shared_embedding_columns",
        make_parse_example_spec="compat.v1.feature_column.make_parse_example_spec",
    ),
    *same_names(_LAYERS, "compat.v1.feature_column.", "input_layer linear_model"),
    *area(
        _LAYERS,
        DenseFeatures="keras.layers.DenseFeatures",
        SequenceFeatures="keras.experimental.SequenceFeatures",
        differences={
            "DenseFeatures": "get_config is refused: save the model's weights, or export it",
            "SequenceFeatures": "get_config is refused: save the model's weights, or export it",
        },
    ),
)
