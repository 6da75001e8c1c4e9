"""Sums, products of matrices, convolutions, transforms and windows."""
