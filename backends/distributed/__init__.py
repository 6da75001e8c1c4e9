"""XLA's CPU client, from jaxlib, as a backend for one process or several.

The processes of a program are connected by `link`, which also detects the death of a process. They
exchange addresses through XLA's coordination service, run programs on the devices of all processes,
and communicate through Gloo. Only this package imports jaxlib.
"""
