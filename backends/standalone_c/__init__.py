"""Programs as one C function over plain pointers, without a runtime: StableHLO to C."""

from __future__ import annotations

from gnomon.backends.standalone_c.archive import find_compiler, static_library
from gnomon.backends.standalone_c.source import CBackend, CSource, c_source

__all__ = ["CBackend", "CSource", "c_source", "find_compiler", "static_library"]
