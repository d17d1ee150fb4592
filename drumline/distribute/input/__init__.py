"""Distributed input: datasets whose iterators give every replica its share of each batch."""
