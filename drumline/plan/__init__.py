"""Planning for hardware that is not there: strategies whose steps are compiled, and never run."""
