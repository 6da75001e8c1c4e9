"""`gnomon.scipy.spatial`: `transform`, rotations in space."""

from gnomon.scipy.spatial import transform

__all__ = ["transform"]
