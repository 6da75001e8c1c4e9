"""Errors, the user's lines, and checks of what the user's calls return."""
