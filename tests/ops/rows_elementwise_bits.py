"""Rows of the op table: bits, conversions, parts of complex numbers, formats of floating point."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from gnomon.dialects.types import ANY, is_complex, is_floating, is_integer, short_name
from tests.ops.exact import (
    COMPLEX,
    EDGES,
    FLOATS,
    INTEGERS,
    bits_of,
    integer_edges,
    whole,
    wrapped,
)
from tests.ops.row import Operand, Row

ROWS: list[Row] = []
EVERY = f"bool {INTEGERS} {FLOATS} {COMPLEX}"
_DTYPES = {short_name(d): d for d in ANY}

# -------------------------------------------------------------------------------- bits and shifts


def _unsigned(x: int, bits: int) -> int:
    return x % (1 << bits)


def _signed(x: int, bits: int) -> int:
    return (x + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _shift_left(x: int, y: int, bits: int) -> int:
    amount = _unsigned(y, bits)
    return x << amount if amount < bits else 0


def _shift_right_logical(x: int, y: int, bits: int) -> int:
    return _unsigned(x, bits) >> min(_unsigned(y, bits), bits)


def _shift_right_arithmetic(x: int, y: int, bits: int) -> int:
    return _signed(x, bits) >> min(_unsigned(y, bits), bits)


def _population_count(x: int, bits: int) -> int:
    return bin(_unsigned(x, bits)).count("1")


def _clz(x: int, bits: int) -> int:
    return bits - _unsigned(x, bits).bit_length()


_BITS: tuple[tuple[str, int, Callable[..., int]], ...] = (
    ("and", 2, lambda x, y, bits: x & y),
    ("or", 2, lambda x, y, bits: x | y),
    ("xor", 2, lambda x, y, bits: x ^ y),
    ("not", 1, lambda x, bits: ~x),
    ("shift_left", 2, _shift_left),
    ("shift_right_logical", 2, _shift_right_logical),
    ("shift_right_arithmetic", 2, _shift_right_arithmetic),
    ("population_count", 1, _population_count),
    ("clz", 1, _clz),
    ("mulhi", 2, lambda x, y, bits: (x * y) >> bits),
)
for _op, _arity, _function in _BITS:
    for _label, _shape in (("", (60,)), ("rank 0", ()), ("matrix", (2, 3)), ("no elements", (0,))):
        ROWS.append(
            Row(
                _op,
                (Operand(_shape, draw=integer_edges),) * _arity,
                whole(_function, width=True),
                dtypes=INTEGERS if not _label else "i32 u8",
                label=_label,
            )
        )
for _op, _truth in (
    ("and", [[False, False], [False, True]]),
    ("or", [[False, True], [True, True]]),
    ("xor", [[False, True], [True, False]]),
):
    ROWS.append(
        Row(
            _op,
            (Operand((8,)),) * 2,
            lambda x, y, table=_truth: np.array(table)[x.astype(int), y.astype(int)],
            dtypes="bool",
            label="bool",
        )
    )
ROWS.append(Row("not", (Operand((8,)),), lambda x: x == np.False_, dtypes="bool", label="bool"))

# ------------------------------------------------------------------------------------- conversions

_FRACTIONS = (0.0, -0.0, 0.5, -0.9, 1.9, 127.5, 255.9, -128.5, 7.9, 15.5, 1e4, 65519.0, 3e9,
              -3e9, 1e19, -1e19, np.inf, -np.inf, np.nan, 460.0, 1 / 3)  # fmt: skip


def _number(value: Any, dtype: np.dtype) -> Any:
    if is_complex(dtype):
        return complex(value)
    return float(value) if is_floating(dtype) else int(value)


def _to_integer(value: Any, dtype: np.dtype) -> int:
    if isinstance(value, complex):
        value = value.real
    if isinstance(value, int):
        return value
    info = ml_dtypes.iinfo(dtype)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return int(info.max if value > 0 else info.min)
    return min(max(math.trunc(value), int(info.min)), int(info.max))


def _converted(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    values = [_number(v, x.dtype) for v in x.reshape(-1)]
    if dtype == np.bool_:
        return np.array([v != 0 for v in values], np.bool_).reshape(x.shape)
    if is_integer(dtype):
        return wrapped([_to_integer(v, dtype) for v in values], x.shape, dtype)
    if is_complex(dtype):
        return np.array([complex(v) for v in values], dtype).reshape(x.shape)
    reals = [v.real if isinstance(v, complex) else v for v in values]
    # A long double holds every integer and every real of the dialect.
    exact = np.array([np.longdouble(str(v)) if isinstance(v, int) else np.longdouble(v)
                      for v in reals], np.longdouble)  # fmt: skip
    narrow = exact.astype(np.float32 if dtype == np.float32 else np.float64)
    return narrow.astype(dtype).reshape(x.shape)


def _any_numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if is_floating(dtype):
        count = int(np.prod(shape))
        values = np.array([*_FRACTIONS, *rng.uniform(-9, 9, count)])[:count]
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(dtype).reshape(shape)
    if is_complex(dtype):
        parts = rng.choice([0.0, 1.5, -2.25, 100.0], (2, *shape))
        return (parts[0] + 1j * parts[1]).astype(dtype)
    return integer_edges(rng, shape, dtype)


for _name, _dtype in _DTYPES.items():
    ROWS.append(
        Row(
            "convert",
            (Operand((30,), draw=_any_numbers),),
            lambda x, dtype=_dtype: _converted(x, dtype),
            {"dtype": _dtype},
            dtypes=EVERY,
            ulps=1.0,
            label=f"to {_name}",
        )
    )
for _target in ("f32", "f64", "c128", "i32", "bool"):
    for _label, _shape in (("rank 0", ()), ("matrix", (2, 3)), ("no elements", (0, 2))):
        ROWS.append(
            Row(
                "convert",
                (Operand(_shape),),
                lambda x, dtype=_DTYPES[_target]: _converted(x, dtype),
                {"dtype": _DTYPES[_target]},
                dtypes="f32 f64 c128",
                differentiable=(0,) if _target in ("f64", "c128") else (),
                ulps=1.0,
                label=f"to {_target}, {_label}",
            )
        )


def _bits(x: np.ndarray) -> list[int]:
    """The bit pattern of each value, as a Python integer."""
    if is_integer(x.dtype):
        return [_unsigned(int(v), bits_of(x.dtype)) for v in x.reshape(-1)]
    return [int.from_bytes(v.tobytes(), "little") for v in x.reshape(-1)]


def _width(dtype: np.dtype) -> int:
    return bits_of(dtype) if is_integer(dtype) else 8 * dtype.itemsize


def _from_bits(values: list[int], shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if is_integer(dtype):
        return wrapped(values, shape, dtype)
    raw = b"".join(v.to_bytes(dtype.itemsize, "little") for v in values)
    return np.frombuffer(raw, dtype).reshape(shape)


def _bitcast(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    source, target = _width(x.dtype), _width(dtype)
    values = _bits(x)
    if source == target:
        return _from_bits(values, x.shape, dtype)
    if source > target:
        count = source // target
        parts = [v >> target * i & (1 << target) - 1 for v in values for i in range(count)]
        return _from_bits(parts, (*x.shape, count), dtype)
    count = target // source
    groups = [values[i : i + count] for i in range(0, len(values), count)]
    joined = [sum(v << source * i for i, v in enumerate(group)) for group in groups]
    return _from_bits(joined, x.shape[:-1], dtype)


_WIDE = ("u8", "i16", "bf16", "f16", "f32", "u32", "i32", "f64", "i64", "f8_e4m3fn", "f8_e8m0fnu")
_CASTS = ("i2", "u2", "i4", *_WIDE)
for _source in _CASTS:
    for _target in _CASTS:
        _from, _to = _DTYPES[_source], _DTYPES[_target]
        _last = (_width(_to) // _width(_from),) if _width(_to) > _width(_from) else ()
        _all_shapes = _source == "f32" and _target in ("u8", "i32", "f64")
        for _shape in ((4,), (), (2, 0, 3)) if _all_shapes else ((4,),):
            ROWS.append(
                Row(
                    "bitcast_convert",
                    (Operand((*_shape, *_last), draw=_any_numbers),),
                    lambda x, dtype=_to: _bitcast(x, dtype),
                    {"dtype": _to},
                    dtypes=_source,
                    ulps=0.0,
                    label=f"to {_target}, rank {len(_shape)}",
                )
            )
ROWS.append(
    Row(
        "bitcast_convert",
        (Operand((3,)),),
        lambda x: x,
        lambda dtype: {"dtype": dtype},
        dtypes=EVERY,
        ulps=0.0,
        label="to itself",
    )
)

# ------------------------------------------------------------------------------- complex numbers

for _label, _shape in (("", (9,)), ("rank 0", ()), ("matrix", (2, 3)), ("no elements", (0,))):
    for _op, _part in (
        ("real", lambda z: [v.real for v in z.reshape(-1).tolist()]),
        ("imag", lambda z: [v.imag for v in z.reshape(-1).tolist()]),
    ):
        ROWS.append(
            Row(
                _op,
                (Operand(_shape),),
                lambda z, f=_part: np.array(f(z), z.real.dtype).reshape(z.shape),
                dtypes=COMPLEX,
                differentiable=(0,),
                ulps=0.0,
                label=_label,
            )
        )
    ROWS.append(
        Row(
            "conj",
            (Operand(_shape),),
            lambda z: z - 2j * z.imag,
            dtypes=COMPLEX,
            differentiable=(0,),
            label=_label,
        )
    )
    ROWS.append(
        Row(
            "complex",
            (Operand(_shape, values=(1.0, 0.0, -0.0, np.inf)), Operand(_shape)),
            lambda x, y: np.array(
                [complex(a, b) for a, b in zip(x.reshape(-1), y.reshape(-1), strict=True)],
                np.complex64 if x.dtype == np.float32 else np.complex128,
            ).reshape(x.shape),
            dtypes="f32 f64",
            differentiable=(0, 1),
            ulps=0.0,
            label=_label,
        )
    )
    ROWS.append(
        Row(
            "stop_gradient",
            (Operand(_shape, values=EDGES),),
            lambda x: x,
            dtypes=EVERY if not _label else "f32",
            ulps=0.0,
            label=_label,
        )
    )

# ------------------------------------------------------------------------ formats of floating point


def _next(x: float, y: float, dtype: np.dtype) -> Any:
    """The neighbour, by stepping through the bit patterns in order of value."""
    if math.isnan(x) or math.isnan(y):
        return np.nan
    if x == y:
        return y
    kind = np.dtype(f"uint{8 * dtype.itemsize}")
    sign = 1 << 8 * dtype.itemsize - 1
    pattern = int(np.asarray(x).astype(dtype).view(kind))
    rank = -(pattern - sign) if pattern & sign else pattern
    rank += 1 if y > x else -1
    stepped = rank if rank >= 0 else sign - rank
    if rank == 0 and x < 0:
        stepped = sign
    return np.array(stepped, kind).view(dtype)[()]


def _neighbours(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    pairs = zip(x.reshape(-1), y.reshape(-1), strict=True)
    steps = [_next(float(a), float(b), x.dtype) for a, b in pairs]
    return np.array(steps).astype(x.dtype).reshape(x.shape)


def _to_format(x: np.ndarray, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    largest_exponent = 2 ** (exponent_bits - 1) - 1

    def convert(value: float) -> float:
        if value == 0 or not math.isfinite(value):
            return value
        mantissa, exponent = math.frexp(value)
        scaled = math.ldexp(mantissa, mantissa_bits + 1)
        nearest = math.ldexp(round(scaled), exponent - mantissa_bits - 1)
        result_exponent = math.frexp(nearest)[1] - 1
        if result_exponent > largest_exponent:
            return math.copysign(math.inf, value)
        if result_exponent < 1 - largest_exponent:
            return math.copysign(0.0, value)
        return nearest

    values = [convert(float(v)) for v in x.reshape(-1)]
    return np.array(values, np.float64).astype(x.dtype).reshape(x.shape)


_FORMATS = ((5, 10), (8, 7), (4, 3), (3, 2), (5, 2), (1, 0))
_SIZES = (*EDGES, 1.0625, 1.1875, 3e-5, 65519.0, 65520.0, 448.0, 480.0, 1.99, 255.5)
for _exponent_bits, _mantissa_bits in _FORMATS:
    for _shape in ((24,), (), (0, 2)):
        ROWS.append(
            Row(
                "reduce_precision",
                (Operand(_shape, -3.0, 3.0, values=_SIZES),),
                lambda x, e=_exponent_bits, m=_mantissa_bits: _to_format(x, e, m),
                {"exponent_bits": _exponent_bits, "mantissa_bits": _mantissa_bits},
                dtypes="f32 f64" if len(_shape) == 1 else "f32",
                ulps=0.0,
                label=f"e{_exponent_bits}m{_mantissa_bits} rank {len(_shape)}",
            )
        )
ROWS.append(
    Row(
        "reduce_precision",
        (Operand((8,), -3.0, 3.0),),
        lambda x: x,
        {"exponent_bits": 11, "mantissa_bits": 52},
        dtypes=FLOATS,
        differentiable=(0,),
        ulps=0.0,
        label="no reduction",
    )
)
ROWS.append(
    Row(
        "reduce_precision",
        (Operand((16,), -3.0, 3.0),),
        lambda x: _to_format(x, 3, 1),
        {"exponent_bits": 3, "mantissa_bits": 1},
        dtypes="f16 bf16 f8_e4m3fn f8_e5m2 f8_e4m3fnuz",
        ulps=0.0,
        label="narrow",
    )
)
for _label, _shape in (("", (20,)), ("rank 0", ()), ("no elements", (0,))):
    ROWS.append(
        Row(
            "is_finite",
            (Operand(_shape, values=EDGES),),
            lambda x: np.array([math.isfinite(v) for v in x.reshape(-1)], bool).reshape(x.shape),
            dtypes=FLOATS,
            label=_label,
        )
    )
    ROWS.append(
        Row(
            "nextafter",
            (
                Operand(
                    _shape, values=(0.0, -0.0, 0.0, 1.0, 1.0, -1.0, np.inf, np.nan, 2.0, -np.inf)
                ),
                Operand(_shape, values=(1.0, 1.0, -1.0, 2.0, 0.0, 0.0, 0.0, 1.0, 2.0, 0.0)),
            ),
            _neighbours,
            dtypes="f16 bf16 f32 f64",
            differentiable=(0,),
            ulps=0.0,
            label=_label,
        )
    )
