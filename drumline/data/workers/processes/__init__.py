"""Python functions in worker processes."""
