"""``drumline cnn sweep``: models, devices and modes in one run, and a page of what was found."""
