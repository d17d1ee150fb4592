"""Jobs on a Ray cluster, by its job submission."""
