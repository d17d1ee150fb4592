"""What the look-alike's functions take and return: dtypes, shapes, tensors, composites, specs."""
