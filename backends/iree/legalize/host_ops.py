"""Ops that compiled programs leave to Python, and why: `backends.iree.host` calls them.

A call costs some microseconds and a wait for the operands; it pays where the compiler has no code
for the op, or where LAPACK's is much the better.
"""

from __future__ import annotations

from gnomon.backends.iree.legalize.rewriting import Rule
from gnomon.dialects.host_call import call_on_host

__all__ = ["HOST_OPS", "host_rules"]

# The op's full name, and the reason.
HOST_OPS: dict[str, str] = {
    "gnomon.pure_callback": "it is a Python function",
    "gnomon.io_callback": "likewise",
    "gnomon.debug_callback": "likewise",
}


def host_rules() -> dict[str, Rule]:
    """The rewriting rules of the table."""
    return dict.fromkeys(HOST_OPS, call_on_host)
