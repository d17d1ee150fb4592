"""Parsing ``Example`` and ``SequenceExample`` messages."""
