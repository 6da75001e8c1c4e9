"""Factorizations and linear systems in NumPy: programs call them where a compiler has no code.

The ops of the gnomon dialect evaluate by these functions, and so do artifacts without the dialect.
"""
