"""`gnomon.scipy`: functions of SciPy on arrays of gnomon."""

from gnomon.scipy import special

__all__ = ["special"]
