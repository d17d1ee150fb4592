"""Files of records, as ``tf.io``."""

from drumline.data.files.record_writer import TFRecordOptions, TFRecordWriter

__all__ = ["TFRecordOptions", "TFRecordWriter"]
