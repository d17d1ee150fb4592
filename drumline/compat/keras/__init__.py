"""``tf.keras``: Keras 3's own modules, taught to take and give tensors of the look-alike."""
