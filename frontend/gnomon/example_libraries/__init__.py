"""Small libraries to learn from: networks as pairs of functions, and optimizers as triples."""

from gnomon.example_libraries import optimizers, stax

__all__ = ["optimizers", "stax"]
