"""Functions of strings, as ``tf.strings``, on arrays of any shape and in ``Dataset.map``."""

from drumline.strings.elementwise import equal, length, lower, not_equal, strip, substr, upper
from drumline.strings.numbers import (
    StaticVocabularyTable,
    as_string,
    to_hash_bucket_fast,
    to_hash_bucket_strong,
    to_number,
)
from drumline.strings.patterns import regex_full_match, regex_replace
from drumline.strings.split_join import join, ngrams, reduce_join, split
from drumline.strings.text_vectorization import TextVectorization
from drumline.strings.unicode import (
    unicode_decode,
    unicode_decode_with_offsets,
    unicode_encode,
    unicode_split,
    unicode_transcode,
)

__all__ = [
    "StaticVocabularyTable",
    "TextVectorization",
    "as_string",
    "equal",
    "join",
    "length",
    "lower",
    "ngrams",
    "not_equal",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_hash_bucket_fast",
    "to_hash_bucket_strong",
    "to_number",
    "unicode_decode",
    "unicode_decode_with_offsets",
    "unicode_encode",
    "unicode_split",
    "unicode_transcode",
    "upper",
]
