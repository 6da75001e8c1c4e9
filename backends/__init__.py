"""Backends that run programs: the NumPy evaluator, IREE, and PJRT plugins."""
