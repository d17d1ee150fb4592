"""What scripts of TensorFlow 1 use of ``tf.compat.v1``, without its graphs; and the platform."""
