"""Control flow: ops that hold closed bodies and decide which of them runs, and how often."""

from __future__ import annotations

from gnomon.dialects.control_flow import structure

__all__ = ["structure"]
