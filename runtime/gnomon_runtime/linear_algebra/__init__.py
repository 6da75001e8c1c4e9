"""Factorizations and linear systems in NumPy: programs call them where a compiler has no code.

The ops of the gnomon dialect are evaluated by these functions. Artifacts call them without the
dialect.
"""
