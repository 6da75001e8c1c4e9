"""Control flow: ops that run their closed bodies conditionally or repeatedly."""

from __future__ import annotations

from gnomon.dialects.control_flow.scan import scan
from gnomon.dialects.control_flow.structure import branch, yield_
from gnomon.dialects.control_flow.switch import switch
from gnomon.dialects.control_flow.while_loop import ReverseModeWhileError, while_

__all__ = ["ReverseModeWhileError", "branch", "scan", "switch", "while_", "yield_"]
