"""``tf.distribute``: drumline's strategies, whose steps take and give tensors."""
