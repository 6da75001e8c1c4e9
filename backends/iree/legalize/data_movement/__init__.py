"""Gathers, scatters, slice updates and sorts."""
