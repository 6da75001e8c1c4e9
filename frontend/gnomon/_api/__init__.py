"""Functions of `gnomon` on devices, shapes and callbacks."""
