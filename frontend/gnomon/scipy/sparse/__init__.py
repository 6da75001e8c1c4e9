"""`gnomon.scipy.sparse`: linear systems whose matrix is given by its products with vectors."""

from gnomon.scipy.sparse import linalg

__all__ = ["linalg"]
