"""Symbolic dimensions: sizes that are integer expressions of variables."""
