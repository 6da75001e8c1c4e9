"""Functions with batching rules of their own."""

from gnomon._custom_batching import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]
