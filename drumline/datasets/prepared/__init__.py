"""Datasets in the files that TensorFlow Datasets writes: reading and writing them."""
