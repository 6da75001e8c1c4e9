"""Loops, branches and calls of Python, in the forms that IREE takes."""
