"""The accuracy of elementwise functions: bounds, measurement, and the generated page.

python -m gnomon.tools.accuracy > docs/accuracy.md
"""
