"""Tracing: how a Python function that runs on tracers becomes a program."""
