"""Data on disk: file formats, stored datasets, protocol buffer messages."""
