"""``drumline cnn``: how fast a machine trains standard networks of images."""
