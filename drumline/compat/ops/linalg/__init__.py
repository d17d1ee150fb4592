"""Matrices: products, factorizations, linear operators."""
