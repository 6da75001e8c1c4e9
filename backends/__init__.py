"""What runs a program: the NumPy evaluator, IREE, and PJRT plugins."""
