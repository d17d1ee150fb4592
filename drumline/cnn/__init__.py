"""The CNN benchmark program: how fast a machine trains standard networks, and in which mode."""
