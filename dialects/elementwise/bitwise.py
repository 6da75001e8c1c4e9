"""Logical and bitwise ops."""

from __future__ import annotations

import numpy as np

from gnomon.dialects.combinators import binary, unary
from gnomon.dialects.contract import ZERO_TANGENT
from gnomon.dialects.types import BOOL, INTEGER

LOGICAL = (BOOL, *INTEGER)

and_ = binary(
    "and",
    doc="bitwise and; logical on bool",
    dtypes=LOGICAL,
    evaluate=np.bitwise_and,
    jvp=ZERO_TANGENT,
    lower="and",
    example='%r = "gnomon.and"(%x, %y) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>',
)
or_ = binary(
    "or",
    doc="bitwise or; logical on bool",
    dtypes=LOGICAL,
    evaluate=np.bitwise_or,
    jvp=ZERO_TANGENT,
    lower="or",
    example='%r = "gnomon.or"(%x, %y) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>',
)
xor = binary(
    "xor",
    doc="bitwise exclusive or; logical on bool",
    dtypes=LOGICAL,
    evaluate=np.bitwise_xor,
    jvp=ZERO_TANGENT,
    lower="xor",
    example='%r = "gnomon.xor"(%x, %y) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>',
)
not_ = unary(
    "not",
    doc="bitwise complement; logical on bool",
    dtypes=LOGICAL,
    evaluate=np.invert,
    jvp=ZERO_TANGENT,
    lower="not",
    example='%r = "gnomon.not"(%x) : (tensor<4xi32>) -> tensor<4xi32>',
)
