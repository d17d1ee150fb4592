"""Functions of ``tf.compat.v1``."""
