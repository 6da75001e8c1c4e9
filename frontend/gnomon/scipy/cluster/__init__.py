"""`gnomon.scipy.cluster`: clusters of vectors."""

from gnomon.scipy.cluster import vq

__all__ = ["vq"]
