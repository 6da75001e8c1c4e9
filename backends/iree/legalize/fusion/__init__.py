"""Borders of kernels: ops that must not share a kernel, or be computed again in several."""
