"""Programs that run in several processes, on one machine or many.

Each process runs the same Python program and calls `initialize` at its start. From then on,
`gnomon.devices` are the devices of all processes, and functions that are jitted for a mesh of these
devices run on all of them. ``python -m gnomon.distributed.launch -n 4 script.py`` starts four
processes on this machine.
"""

from gnomon.distributed._processes import initialize, is_initialized, shutdown

__all__ = ["initialize", "is_initialized", "shutdown"]
