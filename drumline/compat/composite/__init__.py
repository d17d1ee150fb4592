"""Tensors made of several: ragged and sparse ones, and the dispatch of functions to them."""
