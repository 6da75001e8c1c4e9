"""Functions of `gnomon` on devices, shapes and callbacks, and how errors are printed."""
