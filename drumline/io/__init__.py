"""Files of records, and what is in them, as ``tf.io``."""

from drumline.data.storage.files.records import TFRecordOptions, TFRecordWriter
from drumline.io.decoding import (
    decode_csv,
    decode_json_example,
    decode_raw,
    parse_tensor,
    serialize_tensor,
)
from drumline.io.features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    VarLenFeature,
)
from drumline.io.parsing import (
    parse_example,
    parse_sequence_example,
    parse_single_example,
    parse_single_sequence_example,
)
from drumline.io.whole_files import read_file

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "RaggedFeature",
    "TFRecordOptions",
    "TFRecordWriter",
    "VarLenFeature",
    "decode_csv",
    "decode_json_example",
    "decode_raw",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
    "parse_tensor",
    "read_file",
    "serialize_tensor",
]
