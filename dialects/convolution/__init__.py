"""Convolution: one op for every convolution, its derivatives and stacks of them."""

from gnomon.dialects.convolution.geometry import Geometry
from gnomon.dialects.convolution.op import conv_general_dilated

__all__ = ["Geometry", "conv_general_dilated"]
