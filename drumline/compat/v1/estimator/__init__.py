"""``tf.estimator``: models as functions of features, labels and a mode, with checkpoints."""
