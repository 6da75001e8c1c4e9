"""Reads and writes at computed places, sorts, and barriers of buffers."""
