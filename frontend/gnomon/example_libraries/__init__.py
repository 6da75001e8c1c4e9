"""Small libraries as examples: networks as pairs of functions, optimizers as triples of them."""

from gnomon.example_libraries import optimizers, stax

__all__ = ["optimizers", "stax"]
