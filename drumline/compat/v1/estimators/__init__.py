"""``tf.estimator``."""
