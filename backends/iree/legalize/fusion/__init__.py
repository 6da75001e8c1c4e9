"""Borders of kernels: what must not become one kernel, or be computed again in several."""
