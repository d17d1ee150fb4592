"""Benchmarks: each workload written for drumline and, beside it, for every other contender."""
