"""Loops over small arrays, each as one kernel of vector code."""
