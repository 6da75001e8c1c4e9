"""`gnomon.scipy.sparse`: linear systems that are known by their products."""

from gnomon.scipy.sparse import linalg

__all__ = ["linalg"]
