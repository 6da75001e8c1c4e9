"""Types of values: a shape and a NumPy dtype, in bijection with MLIR tensor types.

A symbolic dimension is ``?`` in the MLIR type; the type's encoding holds the expression.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import ml_dtypes
import numpy as np

from gnomon.dialects.mlir import context, ir
from gnomon.dialects.symbolic.dimension import any_symbolic, is_symbolic_dim
from gnomon.dialects.symbolic.encoding import decode_sizes, encode_sizes

bfloat16 = np.dtype(ml_dtypes.bfloat16)

# dtype -> (MLIR element type, short name used in dumps and messages)
_ELEMENTS: dict[np.dtype, tuple[str, str]] = {
    np.dtype(np.bool_): ("i1", "bool"),
    **{np.dtype(f"int{n}"): (f"i{n}", f"i{n}") for n in (8, 16, 32, 64)},
    **{np.dtype(f"uint{n}"): (f"ui{n}", f"u{n}") for n in (8, 16, 32, 64)},
    **{np.dtype(getattr(ml_dtypes, f"int{n}")): (f"i{n}", f"i{n}") for n in (2, 4)},
    **{np.dtype(getattr(ml_dtypes, f"uint{n}")): (f"ui{n}", f"u{n}") for n in (2, 4)},
    np.dtype(np.float16): ("f16", "f16"),
    bfloat16: ("bf16", "bf16"),
    np.dtype(np.float32): ("f32", "f32"),
    np.dtype(np.float64): ("f64", "f64"),
    np.dtype(ml_dtypes.float8_e3m4): ("f8E3M4", "f8_e3m4"),
    np.dtype(ml_dtypes.float8_e4m3): ("f8E4M3", "f8_e4m3"),
    np.dtype(ml_dtypes.float8_e4m3fn): ("f8E4M3FN", "f8_e4m3fn"),
    np.dtype(ml_dtypes.float8_e5m2): ("f8E5M2", "f8_e5m2"),
    np.dtype(ml_dtypes.float8_e4m3b11fnuz): ("f8E4M3B11FNUZ", "f8_e4m3b11fnuz"),
    np.dtype(ml_dtypes.float8_e4m3fnuz): ("f8E4M3FNUZ", "f8_e4m3fnuz"),
    np.dtype(ml_dtypes.float8_e5m2fnuz): ("f8E5M2FNUZ", "f8_e5m2fnuz"),
    np.dtype(ml_dtypes.float8_e8m0fnu): ("f8E8M0FNU", "f8_e8m0fnu"),
    np.dtype(np.complex64): ("complex<f32>", "c64"),
    np.dtype(np.complex128): ("complex<f64>", "c128"),
}

BOOL = np.dtype(np.bool_)
SIGNED = tuple(d for d, (e, _) in _ELEMENTS.items() if e[0] == "i" and e != "i1")
UNSIGNED = tuple(d for d, (e, _) in _ELEMENTS.items() if e.startswith("ui"))
INTEGER = SIGNED + UNSIGNED
FLOATING = tuple(d for d, (e, _) in _ELEMENTS.items() if e[0] in "fb")
COMPLEX = tuple(d for d, (e, _) in _ELEMENTS.items() if e.startswith("complex"))
INEXACT = FLOATING + COMPLEX
NUMERIC = INTEGER + INEXACT
ANY = (BOOL, *NUMERIC)
# Dtypes narrower than a byte; NumPy stores each element in a separate byte.
SUB_BYTE = tuple(d for d in INTEGER if ml_dtypes.iinfo(d).bits < 8)
FLOAT8 = tuple(d for d in FLOATING if d.itemsize == 1)


@functools.cache
def _element_types() -> dict[np.dtype, ir.Type]:
    return {dtype: ir.Type.parse(text, context()) for dtype, (text, _) in _ELEMENTS.items()}


@functools.cache
def _dtypes() -> dict[ir.Type, np.dtype]:
    return {t: d for d, t in _element_types().items()}


_kind_sets = {
    "integer": frozenset(INTEGER),
    "floating": frozenset(FLOATING),
    "complex": frozenset(COMPLEX),
    "inexact": frozenset(INEXACT),
}


def is_integer(dtype: np.dtype) -> bool:
    """Whether a dtype is a signed or unsigned integer of any width; bool is not."""
    return dtype in _kind_sets["integer"]


def is_floating(dtype: np.dtype) -> bool:
    """Whether a dtype is real floating point; bf16 and the f8 types are."""
    return dtype in _kind_sets["floating"]


def is_complex(dtype: np.dtype) -> bool:
    """Whether a dtype is complex64 or complex128."""
    return dtype in _kind_sets["complex"]


def is_of_numpy(dtype: np.dtype) -> bool:
    """Whether a dtype is NumPy's own, and not one that a package registers, such as bf16.

    ``isbuiltin`` is 2 for the latter. It is 0 for a copy of one of NumPy's dtypes, which an
    unpickled array has, and one with metadata.
    """
    return dtype.isbuiltin != 2


def is_inexact(dtype: np.dtype) -> bool:
    """Whether a dtype has tangents: floating point and complex dtypes do."""
    return dtype in _kind_sets["inexact"]


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the real part."""
    return np.zeros((), dtype).real.dtype if is_complex(dtype) else dtype


def short_name(dtype: np.dtype) -> str:
    """The dtype's name in dumps and messages: ``f32``, ``bf16``, ``u8``, ``c64``, ``bool``."""
    return _ELEMENTS[dtype][1] if dtype in _ELEMENTS else str(dtype)


class TensorType(NamedTuple):
    """The type of a value: a shape and a dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for dim in self.shape:
            size *= dim
        return size

    @property
    def nbytes(self) -> int:
        """The size in bytes, as NumPy counts."""
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: tuple[int, ...]) -> TensorType:
        """The same dtype, another shape."""
        return TensorType(tuple(shape), self.dtype)

    def with_dtype(self, dtype: np.dtype) -> TensorType:
        """The same shape, another dtype."""
        return TensorType(self.shape, np.dtype(dtype))

    def __str__(self) -> str:
        return f"{short_name(self.dtype)}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        return str(self)


_to_mlir: dict[TensorType, ir.Type] = {}
_from_mlir: dict[ir.Type, TensorType] = {}


def element_type(dtype: np.dtype) -> ir.Type:
    """The MLIR element type of a dtype; raises ``TypeError`` if there is none."""
    try:
        return _element_types()[np.dtype(dtype)]
    except KeyError:
        raise TypeError(f"dtype {dtype} has no counterpart in the gnomon dialect") from None


def element_dtype(element: ir.Type) -> np.dtype:
    """The dtype of an MLIR element type."""
    try:
        return _dtypes()[element]
    except KeyError:
        raise TypeError(f"element type {element} is not one of the gnomon dialect") from None


def symbolic_type(shape: tuple[int, ...], element: ir.Type) -> ir.Type:
    """The MLIR tensor type of a shape with symbolic dimensions; needs a current location."""
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [dynamic if is_symbolic_dim(n) else n for n in shape]
    return ir.RankedTensorType.get(sizes, element, encoding=encode_sizes(shape))


def mlir_type(type_: TensorType) -> ir.Type:
    """The MLIR tensor type of ``type_``."""
    found = _to_mlir.get(type_)
    if found is None:
        with ir.Location.unknown(context()):
            element = element_type(type_.dtype)
            if any_symbolic(type_.shape):
                found = symbolic_type(type_.shape, element)
            else:
                found = ir.RankedTensorType.get(type_.shape, element)
        _to_mlir[type_] = found
        _from_mlir[found] = type_
    return found


def tensor_type(type_: ir.Type) -> TensorType:
    """The ``TensorType`` of an MLIR tensor type; raises ``TypeError`` for anything else."""
    found = _from_mlir.get(type_)
    if found is None:
        if not isinstance(type_, ir.RankedTensorType):
            raise TypeError(f"expected a tensor of static shape, got {type_}")
        if type_.has_static_shape:
            shape = tuple(type_.shape)
        elif type_.encoding is not None:
            shape = decode_sizes(type_.encoding)
        else:
            raise TypeError(f"expected a tensor of static or symbolic shape, got {type_}")
        found = TensorType(shape, element_dtype(type_.element_type))
        _to_mlir[found] = type_
        _from_mlir[type_] = found
    return found


def type_of(value: ir.Value) -> TensorType:
    """The type of an SSA value."""
    return tensor_type(value.type)
