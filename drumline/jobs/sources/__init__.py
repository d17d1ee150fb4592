"""Where a job's code and secrets come from."""
