"""Passes over the gnomon dialect: expand transformations, simplify, lower to StableHLO."""
