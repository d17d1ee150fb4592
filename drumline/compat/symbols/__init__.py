"""The table of what the look-alike of TensorFlow has, and what it answers for what it has not."""
