"""``drumline demo``: one Keras script on several devices and on one, with the same numbers."""
