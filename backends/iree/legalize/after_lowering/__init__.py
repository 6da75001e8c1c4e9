"""Legalizations of StableHLO, after a program was lowered to it."""
