"""`gnomon.scipy`: functions of SciPy on arrays of gnomon."""

from gnomon.scipy import linalg, special

__all__ = ["linalg", "special"]
from gnomon.scipy import fft, signal

__all__ = ["fft", "signal", "special"]
