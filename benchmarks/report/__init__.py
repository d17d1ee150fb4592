"""Shows and stores what the benchmarks found."""
