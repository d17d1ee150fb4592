"""The datasets that come with drumline: one module each, of the dataset's name."""
