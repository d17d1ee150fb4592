"""Elements in files, to be read again at any position."""
