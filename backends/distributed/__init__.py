"""XLA's CPU client of jaxlib as a backend, for one process or several.

The processes of a program are connected by `link`, which also learns of the death of one of them.
They exchange their addresses by XLA's coordination service (`coordination`), run programs for all
their devices, and communicate by Gloo. Only this package imports jaxlib.
"""
