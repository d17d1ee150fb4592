"""How variables are updated: the modes, what a step is in them, and specified all-reduces."""
