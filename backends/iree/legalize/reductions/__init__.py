"""Sums, products of matrices, convolutions, Fourier transforms and windows."""
