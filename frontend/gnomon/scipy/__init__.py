"""`gnomon.scipy`: functions of SciPy on arrays of gnomon."""

from gnomon.scipy import fft, linalg, signal, special, stats

__all__ = ["fft", "linalg", "signal", "special", "stats"]
