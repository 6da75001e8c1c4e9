"""Convolution: one op covers every convolution, its derivatives and batches of convolutions."""

from gnomon.dialects.convolution.geometry import Geometry
from gnomon.dialects.convolution.op import conv_general_dilated

__all__ = ["Geometry", "conv_general_dilated"]
