"""What the methods of `Dataset` share: checks of arguments, and functions that build plans."""
