"""Datasets of the files in a folder, as ``keras.utils`` makes them."""
