"""What a dataset computes, as a number that is the same in every process."""
