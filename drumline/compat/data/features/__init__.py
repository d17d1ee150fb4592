"""``tf.lookup`` and ``tf.feature_column``: from strings and numbers to indices and columns."""
