"""`gnomon.scipy`: functions of SciPy on arrays of gnomon."""

from gnomon.scipy import linalg, special

__all__ = ["linalg", "special"]
