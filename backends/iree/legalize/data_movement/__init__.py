"""Reads and writes at computed places, and sorts."""
