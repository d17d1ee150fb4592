"""What `Strategy.run` does: tracing, compiling and running a step on all replicas."""
