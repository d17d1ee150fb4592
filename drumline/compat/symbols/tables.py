"""``tf.lookup``."""

from drumline.compat.symbols.table import area, same_names

_TABLES = "drumline.compat.data.features.tables"

AREA = (
    *same_names(
        _TABLES,
        "lookup.",
        "KeyValueTensorInitializer StaticHashTable TextFileIndex TextFileInitializer",
    ),
    *same_names(
        _TABLES,
        "lookup.experimental.",
        "DenseHashTable MutableHashTable",
        differences={
            "DenseHashTable": "export has no empty buckets: it gives the keys and values alone",
        },
    ),
    *area(
        _TABLES,
        {
            "StaticHashTable": "compat.v1.lookup.StaticHashTable",
            "VocabularyTable": (
                "lookup.StaticVocabularyTable compat.v1.lookup.StaticVocabularyTable"
            ),
        },
    ),
)
