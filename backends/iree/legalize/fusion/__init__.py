"""Limits of fusion: ops that must not share a kernel, or must not be repeated in several."""
