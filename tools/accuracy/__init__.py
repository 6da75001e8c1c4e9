"""How many digits of elementwise functions are right: bounds, measurement, and the page of both.

python -m gnomon.tools.accuracy > docs/accuracy.md
"""
