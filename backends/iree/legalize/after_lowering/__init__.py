"""Legalizations of the StableHLO that a program was lowered to."""
