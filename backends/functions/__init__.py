"""Functions written as arithmetic, as accurate as their dtype allows on every target.

Each module has functions that emit ops of the gnomon dialect on values of f32 or f64. `rules` makes
rewriting rules of them, which compute 16-bit formats in f32; `series` has the rules of special
functions.
"""
