"""Elementwise functions and conversions, as accurate as their dtype allows on every target."""
