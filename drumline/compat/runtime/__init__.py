"""The process's devices and settings, and what tests use: ``tf.config``, ``tf.test``."""
