"""Symbolic dimensions: integer expressions of variables in the place of sizes."""
