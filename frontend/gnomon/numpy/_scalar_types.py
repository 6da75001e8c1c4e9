"""The scalar types, which name dtypes and make arrays: ``float32(1)`` is a 0-d array."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon._arrays.array import Array
from gnomon.dialects import types
from gnomon.numpy._construction import asarray


class ScalarType(type):
    """The type of the scalar types, each of which is accepted wherever a dtype is.

    Attributes:
      dtype: the dtype that it names.
    """

    dtype: np.dtype[Any]

    @property
    def __numpy_dtype__(cls) -> np.dtype[Any]:
        return cls.dtype

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: Any) -> bool:
        return cls is other or cls.dtype.type == other

    def __ne__(cls, other: Any) -> bool:
        return not cls == other

    def __call__(cls, x: Any) -> Array:
        """An array of this dtype."""
        return asarray(x, dtype=cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)


def _scalar_type(dtype: np.dtype[Any]) -> Any:
    name = "bool_" if dtype == types.BOOL else dtype.name
    document = f"The dtype {dtype.name}; a call makes an array of this dtype."
    return ScalarType(name, (), {"dtype": dtype, "__doc__": document, "__module__": "gnomon.numpy"})


_BY_NAME = {dtype.name: _scalar_type(dtype) for dtype in types.ANY}

bool_ = _BY_NAME["bool"]
int2, uint2 = _BY_NAME["int2"], _BY_NAME["uint2"]
int4, uint4 = _BY_NAME["int4"], _BY_NAME["uint4"]
int8, int16, int32, int64 = (_BY_NAME[f"int{bits}"] for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (_BY_NAME[f"uint{bits}"] for bits in (8, 16, 32, 64))
bfloat16, float16 = _BY_NAME["bfloat16"], _BY_NAME["float16"]
float32, float64 = _BY_NAME["float32"], _BY_NAME["float64"]
complex64, complex128 = _BY_NAME["complex64"], _BY_NAME["complex128"]

int_, uint, float_, complex_ = int64, uint64, float64, complex128
single, double, csingle, cdouble = float32, float64, complex64, complex128

FLOAT8 = {name: scalar for name, scalar in _BY_NAME.items() if name.startswith("float8")}
