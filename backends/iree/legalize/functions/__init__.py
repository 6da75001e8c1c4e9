"""Elementwise functions and conversions: with the digits that the dtype holds, on every target."""
