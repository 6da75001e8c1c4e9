"""Kinds of op attributes: how a Python parameter becomes an MLIR attribute and back.

An op declares ``{"axes": INTS}``; its rules see plain Python values, its IR holds builtin
attributes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from gnomon.dialects import types
from gnomon.dialects.mlir import context, ir
from gnomon.dialects.symbolic.dimension import any_symbolic, is_symbolic_dim
from gnomon.dialects.symbolic.encoding import (
    decode_size,
    decode_sizes,
    encode_size,
    encode_sizes,
)


class Kind(NamedTuple):
    """A kind of attribute: its name in error messages and the conversions in both directions."""

    name: str
    encode: Callable[[Any], ir.Attribute]
    decode: Callable[[ir.Attribute], Any]


def _ints(value: Any) -> ir.Attribute:
    value = tuple(value)
    if any_symbolic(value):
        return encode_sizes(value)
    return ir.DenseI64ArrayAttr.get([int(v) for v in value], context())


def _decode_ints(attr: ir.Attribute) -> tuple[int, ...]:
    if isinstance(attr, ir.DictAttr):
        return decode_sizes(attr)
    return tuple(ir.DenseI64ArrayAttr(attr))


def _int(value: Any) -> ir.Attribute:
    if is_symbolic_dim(value):
        return encode_size(value)
    return ir.IntegerAttr.get(_i64(), int(value))


def _decode_int(attr: ir.Attribute) -> int:
    if isinstance(attr, ir.DictAttr):
        return decode_size(attr)
    return int(ir.IntegerAttr(attr).value)


def _decode_dtype(attr: ir.Attribute) -> np.dtype:
    return types.element_dtype(ir.TypeAttr(attr).value)


@functools.cache
def _i64() -> ir.Type:
    return ir.IntegerType.get_signless(64, context())


@functools.cache
def _f64() -> ir.Type:
    return ir.F64Type.get(context())


BOOL = Kind(
    "bool", lambda v: ir.BoolAttr.get(bool(v), context()), lambda a: bool(ir.BoolAttr(a).value)
)
INT = Kind("i64", _int, _decode_int)
INTS = Kind("array<i64>", _ints, _decode_ints)
INT_LISTS = Kind(
    "[array<i64>]",
    lambda v: ir.ArrayAttr.get([_ints(x) for x in v], context()),
    lambda a: tuple(_decode_ints(x) for x in ir.ArrayAttr(a)),
)
FLOAT = Kind(
    "f64", lambda v: ir.FloatAttr.get(_f64(), float(v)), lambda a: float(ir.FloatAttr(a).value)
)
STRING = Kind(
    "string", lambda v: ir.StringAttr.get(str(v), context()), lambda a: ir.StringAttr(a).value
)
STRINGS = Kind(
    "[string]",
    lambda v: ir.ArrayAttr.get([ir.StringAttr.get(str(x), context()) for x in v], context()),
    lambda a: tuple(ir.StringAttr(x).value for x in ir.ArrayAttr(a)),
)
STRING_LISTS = Kind(
    "[[string]]",
    lambda v: ir.ArrayAttr.get([STRINGS.encode(x) for x in v], context()),
    lambda a: tuple(STRINGS.decode(x) for x in ir.ArrayAttr(a)),
)
SPECS = Kind(
    "[[[string]]]",
    lambda v: ir.ArrayAttr.get([STRING_LISTS.encode(x) for x in v], context()),
    lambda a: tuple(STRING_LISTS.decode(x) for x in ir.ArrayAttr(a)),
)
"""The mesh axes that split each of the leading dimensions of each value."""
DTYPE = Kind(
    "dtype",
    lambda v: ir.TypeAttr.get(types.element_type(v), context()),
    _decode_dtype,
)
SYMBOL = Kind(
    "symbol",
    lambda v: ir.FlatSymbolRefAttr.get(str(v), context()),
    lambda a: ir.FlatSymbolRefAttr(a).value,
)


# Kinds for which equal Python values have equal attributes. FLOAT is not one of them: 0.0 == -0.0.
HASHABLE = frozenset({BOOL, INT, INTS, INT_LISTS, STRING, STRINGS, DTYPE})


def _decode_dictionary(attr: ir.Attribute) -> Any:
    return ir.DictAttr(attr)


DICTIONARY = Kind("dictionary", lambda v: ir.DictAttr.get(dict(v), context()), _decode_dictionary)
"""The attributes of another op, by name. They stay encoded: only that op knows their kinds."""


def _encode_types(value: Any) -> ir.Attribute:
    return ir.ArrayAttr.get(
        [ir.TypeAttr.get(types.mlir_type(t), context()) for t in value], context()
    )


TYPES = Kind(
    "[type]",
    _encode_types,
    lambda a: tuple(types.tensor_type(ir.TypeAttr(x).value) for x in ir.ArrayAttr(a)),
)


_dense_values: dict[ir.Attribute, np.ndarray] = {}
# Attributes of scalars and splats, by shape, dtype and bytes.
_splats: dict[tuple[tuple[int, ...], np.dtype, bytes], ir.Attribute] = {}


def _encode_dense(value: Any) -> ir.Attribute:
    array = np.asarray(value)
    # A splat (all strides zero) is read, encoded and stored as one number, whatever its size.
    repeated = array.size > 1 and not any(array.strides)
    stored = array[(slice(0, 1),) * array.ndim] if repeated else array
    if stored.size != 1:
        return _write_dense(array, stored, repeated)
    key = array.shape, array.dtype, stored.tobytes()
    attribute = _splats.get(key)
    if attribute is None:
        attribute = _splats[key] = _write_dense(array, stored, repeated)
    return attribute


def _write_dense(array: np.ndarray, stored: np.ndarray, repeated: bool) -> ir.Attribute:
    type_ = types.mlir_type(types.TensorType(array.shape, array.dtype))
    contiguous = np.ascontiguousarray(stored).reshape(-1)
    if array.size == 0:
        text = ""
    elif array.dtype == np.bool_:
        # The hexadecimal form of i1 depends on the version of MLIR; the nested list does not.
        splat = contiguous.all() or not contiguous.any()
        nested = bool(contiguous[0]) if splat else stored.tolist()
        text = str(nested).lower()
    elif array.dtype.itemsize * 8 != _bits(array.dtype):
        text = str(int(contiguous[0]) if repeated else stored.astype(np.int64).tolist())
    else:
        bits = contiguous.view(np.uint8).reshape(contiguous.size, -1)
        splat = contiguous.size > 1 and bool((bits == bits[0]).all())
        text = f'"0x{(contiguous[:1] if splat else contiguous).tobytes().hex()}"'
    attr = ir.Attribute.parse(f"dense<{text}> : {type_}", context())
    if attr not in _dense_values:
        kept = np.broadcast_to(stored.copy(), array.shape)
        kept.flags.writeable = False
        _dense_values[attr] = kept
    return attr


def _bits(dtype: np.dtype) -> int:
    return ml_dtypes.iinfo(dtype).bits if dtype in types.SUB_BYTE else dtype.itemsize * 8


def _decode_dense(attr: ir.Attribute) -> np.ndarray:
    found = _dense_values.get(attr)
    if found is None:
        found = _parse_dense(str(attr))
        found.flags.writeable = False
        _dense_values[attr] = found
    return found


_NUMBER = re.compile(r"[-+]?(?:0x[0-9A-Fa-f]+|[0-9.]+(?:[eE][-+]?[0-9]+)?)|true|false")


def constant_elements(op: ir.Operation) -> np.ndarray:
    """The elements of a constant, an operation whose attribute ``value`` is dense elements."""
    position = list(op.attributes.keys()).index("value")
    # The bindings have no class for complex elements, and raise an error when they are read.
    if types.is_complex(types.type_of(op.results[0]).dtype):
        named = str(op.attributes[position])
        return _parse_dense(named.removeprefix("NamedAttribute(value=").removesuffix(")"))
    return _decode_dense(op.attributes["value"])


def _parse_dense(text: str) -> np.ndarray:
    """Read an attribute of hand-written IR; attributes that gnomon encoded are cached instead.

    The bindings expose a buffer for the common element types only; the text form covers all.
    """
    body, _, type_text = text.rpartition(" : ")
    type_ = types.tensor_type(ir.Type.parse(type_text, context()))
    body = body.removeprefix("dense<").removesuffix(">")
    dtype = type_.dtype
    if body.startswith('"0x'):
        raw = bytes.fromhex(body[3:-1])
        if dtype == np.bool_:
            # Older versions of MLIR pack eight elements into a byte; a single byte is a splat.
            octets = np.frombuffer(raw, np.uint8)
            is_packed = len(raw) not in (1, type_.size)
            elements = np.unpackbits(octets, bitorder="little") if is_packed else octets
            flat = elements[: type_.size].astype(np.bool_)
        else:
            flat = np.frombuffer(raw, dtype)
    else:
        part = types.real_dtype(dtype)
        flat = np.array([_number(t, part) for t in _NUMBER.findall(body)], part)
        flat = flat.view(dtype) if types.is_complex(dtype) else flat
    if flat.size == 1:
        return np.full(type_.shape, flat[0], dtype)
    return flat.reshape(type_.shape).copy()


def _number(text: str, dtype: np.dtype) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("0x") and not types.is_integer(dtype):
        return np.array(int(text, 16), f"uint{8 * dtype.itemsize}").view(dtype)[()]
    return int(text, 0) if types.is_integer(dtype) else dtype.type(float(text))


DENSE = Kind("dense elements", _encode_dense, _decode_dense)
