"""Loops, branches and calls of Python, in forms that IREE compiles."""
