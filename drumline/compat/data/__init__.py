"""``tf.data``: drumline's datasets, whose functions and elements are of tensors."""
