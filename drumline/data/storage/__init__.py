"""What is on disk: formats of files, stored datasets, protocol buffer messages."""
