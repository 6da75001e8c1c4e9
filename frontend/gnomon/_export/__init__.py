"""Exported functions: programs that outlive the process that traced them."""
