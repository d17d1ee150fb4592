"""Reductions, segments, special functions and sets."""
