"""Rows of the op table: creation and structural ops; their references place single elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon.dialects.types import ANY, short_name
from tests.ops.row import Operand, Row

REAL = (
    "bool i2 i4 i8 i16 i32 i64 u2 u4 u8 u16 u32 u64 f16 bf16 f32 f64 "
    "f8_e3m4 f8_e4m3 f8_e4m3fn f8_e5m2 f8_e4m3b11fnuz f8_e4m3fnuz f8_e5m2fnuz f8_e8m0fnu"
)
ALL = f"{REAL} c64 c128"
FEW = "f32 f64 c64 c128 i8 bool"


def placed(shape: tuple[int, ...], dtype: np.dtype, element: Callable[..., Any]) -> np.ndarray:
    """The array whose element at each index is ``element(*index)``."""
    result = np.zeros(shape, dtype)
    for index in np.ndindex(*shape):
        result[index] = element(*index)
    return result


# ---------------------------------------------------------------------------------------- creation

_DTYPES = {short_name(d): d for d in ANY}


def _constant_rows() -> list[Row]:
    rows = []
    for name, dtype in _DTYPES.items():
        if np.dtype(dtype).kind == "c":
            value = np.array([[1.5 - 2j, complex(-0.0, np.inf)], [0.25j, complex(np.nan, -1)]])
        else:
            value = np.array([[0, 1, 1], [1, 0, 1]])
        array = value.astype(dtype)
        part = array.real.dtype if array.dtype.kind == "c" else array.dtype
        for label, literal in {
            "matrix": array,
            "scalar": array[0, 1],
            "splat": np.broadcast_to(array[0, 1], (2, 3)),
            "empty": array[:0],
        }.items():
            literal = np.asarray(literal)
            stored = np.stack([literal.real, literal.imag], -1) if part != array.dtype else literal
            rows.append(
                Row(
                    "constant",
                    (),
                    lambda literal=literal: literal,
                    {"value": stored, "dtype": array.dtype},
                    dtypes=name,
                    label=f"{name}-{label}",
                )
            )
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32)
    rows.append(
        Row(
            "constant",
            (),
            lambda: special,
            {"value": special, "dtype": special.dtype},
            label="special",
        )
    )
    return rows


def _iota_rows() -> list[Row]:
    rows = []
    for name in ALL.split()[1:]:
        dtype = np.dtype(_DTYPES[name])
        rows.append(
            Row(
                "iota",
                (),
                lambda dtype=dtype: placed((7,), dtype, lambda i: i),
                {"dtype": dtype, "shape": (7,), "dimension": 0},
                dtypes=name,
                label=name,
            )
        )
    for shape, dimension in (((2, 3), 1), ((2, 3), 0), ((2, 3, 4), 1), ((0, 3), 1), ((3, 0), 1)):
        rows.append(
            Row(
                "iota",
                (),
                lambda shape=shape, dimension=dimension: placed(
                    shape, np.dtype(np.int32), lambda *index: index[dimension]
                ),
                {"dtype": np.dtype(np.int32), "shape": shape, "dimension": dimension},
                dtypes="i32",
                label=f"{shape}-{dimension}",
            )
        )
    # Above 2^8 a bf16 ramp has equal neighbours: each element is the rounded index.
    bf16 = _DTYPES["bf16"]
    rows.append(
        Row(
            "iota",
            (),
            lambda: placed((1000,), bf16, lambda i: i),
            {"dtype": bf16, "shape": (1000,), "dimension": 0},
            dtypes="bf16",
            ulps=0,
            label="rounded",
        )
    )
    return rows


def _dimension_rows() -> list[Row]:
    return [
        Row(
            "dimension",
            (),
            lambda name=name: np.asarray(7, _DTYPES[name]),
            {"dtype": np.dtype(_DTYPES[name]), "size": 7},
            dtypes=name,
            label=name,
        )
        for name in ("i32", "i64", "u8")
    ]


# ------------------------------------------------------------------------ broadcast_in_dim, reshape


def _broadcast(shape: tuple[int, ...], target: tuple[int, ...], dims: tuple[int, ...]) -> Row:
    def reference(x: np.ndarray) -> np.ndarray:
        return placed(
            target,
            x.dtype,
            lambda *index: x[
                tuple(index[d] if n > 1 else 0 for d, n in zip(dims, x.shape, strict=True))
            ],
        )

    return Row(
        "broadcast_in_dim",
        (Operand(shape),),
        reference,
        {"shape": target, "dims": dims},
        dtypes=ALL if (shape, target) == ((3,), (2, 3)) else "f32 f64",
        differentiable=(0,),
        label=f"{shape}-{target}-{dims}",
    )


def _reshape(shape: tuple[int, ...], target: tuple[int, ...]) -> Row:
    def reference(x: np.ndarray) -> np.ndarray:
        elements = [x[index] for index in np.ndindex(*x.shape)]
        places = list(np.ndindex(*target))
        return placed(target, x.dtype, lambda *index: elements[places.index(index)])

    return Row(
        "reshape",
        (Operand(shape),),
        reference,
        {"shape": target},
        dtypes=ALL if shape == (6,) else "f32 f64",
        differentiable=(0,),
        label=f"{shape}-{target}",
    )


# ---------------------------------------------------------------------------- transpose, rev, slice


def _transpose(shape: tuple[int, ...], permutation: tuple[int, ...]) -> Row:
    def reference(x: np.ndarray) -> np.ndarray:
        return placed(
            tuple(x.shape[d] for d in permutation),
            x.dtype,
            lambda *index: x[tuple(index[permutation.index(d)] for d in range(x.ndim))],
        )

    return Row(
        "transpose",
        (Operand(shape),),
        reference,
        {"permutation": permutation},
        dtypes=ALL if permutation == (1, 0) else "f32 f64",
        differentiable=(0,),
        label=f"{shape}-{permutation}",
    )


def _rev(shape: tuple[int, ...], dims: tuple[int, ...]) -> Row:
    def reference(x: np.ndarray) -> np.ndarray:
        return placed(
            x.shape,
            x.dtype,
            lambda *index: x[
                tuple(x.shape[d] - 1 - i if d in dims else i for d, i in enumerate(index))
            ],
        )

    return Row(
        "rev",
        (Operand(shape),),
        reference,
        {"dims": dims},
        dtypes=ALL if dims == (0,) else "f32 f64",
        differentiable=(0,),
        label=f"{shape}-{dims}",
    )


def _slice(
    shape: tuple[int, ...],
    start: tuple[int, ...],
    limit: tuple[int, ...],
    strides: tuple[int, ...],
) -> Row:
    def reference(x: np.ndarray) -> np.ndarray:
        lines = [list(range(*line)) for line in zip(start, limit, strides, strict=True)]
        return placed(
            tuple(map(len, lines)),
            x.dtype,
            lambda *index: x[tuple(line[i] for line, i in zip(lines, index, strict=True))],
        )

    return Row(
        "slice",
        (Operand(shape),),
        reference,
        {"start": start, "limit": limit, "strides": strides},
        dtypes=ALL if shape == (7,) else "f32 f64",
        differentiable=(0,),
        label=f"{shape}-{start}-{limit}-{strides}",
    )


# --------------------------------------------------------------------------------- concatenate, pad


def _concatenate(shapes: tuple[tuple[int, ...], ...], dimension: int) -> Row:
    def reference(*parts: np.ndarray) -> np.ndarray:
        owners = [(p, i) for p, part in enumerate(parts) for i in range(part.shape[dimension])]
        shape = list(parts[0].shape)
        shape[dimension] = len(owners)

        def element(*index: int) -> Any:
            part, i = owners[index[dimension]]
            return parts[part][(*index[:dimension], i, *index[dimension + 1 :])]

        return placed(tuple(shape), parts[0].dtype, element)

    return Row(
        "concatenate",
        tuple(Operand(shape) for shape in shapes),
        reference,
        {"dimension": dimension},
        dtypes=ALL if shapes == ((3,), (2,)) else "f32 f64",
        differentiable=tuple(range(len(shapes))),
        label=f"{shapes}-{dimension}",
    )


def _pad(
    shape: tuple[int, ...],
    low: tuple[int, ...],
    high: tuple[int, ...],
    interior: tuple[int, ...],
    dtypes: str = "f32 f64",
) -> Row:
    def reference(x: np.ndarray, value: np.ndarray) -> np.ndarray:
        spread = [
            max(n + (n - 1) * i, 0) if n else 0 for n, i in zip(x.shape, interior, strict=True)
        ]
        target = tuple(a + n + b for a, n, b in zip(low, spread, high, strict=True))

        def element(*index: int) -> Any:
            source = []
            for i, a, gap, n in zip(index, low, interior, x.shape, strict=True):
                place, rest = divmod(i - a, gap + 1)
                if rest or not 0 <= place < n:
                    return value[()]
                source.append(place)
            return x[tuple(source)]

        return placed(target, x.dtype, element)

    return Row(
        "pad",
        (Operand(shape), Operand(())),
        reference,
        {"low": low, "high": high, "interior": interior},
        dtypes=dtypes,
        differentiable=(0, 1),
        label=f"{shape}-{low}-{high}-{interior}",
    )


ROWS: list[Row] = [
    *_constant_rows(),
    *_dimension_rows(),
    *_iota_rows(),
    *itertools.starmap(
        _broadcast,
        (
            ((3,), (2, 3), (1,)),
            ((), (2, 3), ()),
            ((), (), ()),
            ((3,), (3, 2), (0,)),
            ((2, 1), (2, 4, 3), (0, 2)),
            ((1, 1), (1, 4), (0, 1)),
            ((2, 3), (2, 3), (0, 1)),
            ((2, 1, 3), (2, 2, 5, 2, 3), (0, 2, 4)),
            ((1,), (0, 3), (1,)),
            ((0,), (2, 0), (1,)),
            ((5,), (70, 5, 50), (1,)),
        ),
    ),
    *itertools.starmap(
        _reshape,
        (
            ((6,), (2, 3)),
            ((2, 3), (3, 2)),
            ((), (1, 1)),
            ((1, 1, 1), ()),
            ((0, 3), (5, 0, 2)),
            ((2, 1, 3, 1, 2), (4, 3)),
        ),
    ),
    *itertools.starmap(
        _transpose,
        (
            ((2, 3), (1, 0)),
            ((2, 3), (0, 1)),
            ((), ()),
            ((0, 3), (1, 0)),
            ((2, 3, 4), (2, 0, 1)),
            ((2, 1, 3, 2, 2), (4, 2, 0, 3, 1)),
        ),
    ),
    *itertools.starmap(
        _rev,
        (((5,), (0,)), ((2, 3), (0, 1)), ((2, 3, 2), (1,)), ((3,), ()), ((), ()), ((0, 2), (0, 1))),
    ),
    *itertools.starmap(
        _slice,
        (
            ((7,), (1,), (6,), (2,)),
            ((), (), (), ()),
            ((4, 5), (0, 0), (4, 5), (1, 1)),
            ((4, 5), (1, 2), (3, 3), (1, 1)),
            ((4, 5, 6), (0, 1, 2), (4, 4, 6), (3, 2, 4)),
            ((6,), (3,), (3,), (2,)),
            ((0, 3), (0, 1), (0, 3), (1, 5)),
            ((9,), (2,), (9,), (3,)),
        ),
    ),
    *itertools.starmap(
        _concatenate,
        (
            (((3,), (2,)), 0),
            (((3,),), 0),
            (((2, 3), (2, 1), (2, 2)), 1),
            (((1, 3), (2, 3)), 0),
            (((2, 0), (2, 3)), 1),
            (((0, 2), (0, 2)), 0),
            (((2, 1, 2), (2, 3, 2), (2, 1, 2)), 1),
        ),
    ),
    *itertools.starmap(
        _pad,
        (
            ((3,), (1,), (2,), (0,), ALL),
            ((4,), (-1,), (2,), (1,), FEW),
            ((5,), (1,), (-2,), (0,)),
            ((5,), (-3,), (-4,), (1,)),
            ((), (), (), ()),
            ((0,), (2,), (1,), (3,)),
            ((3,), (-3,), (0,), (0,)),
            ((3, 4), (0, 2), (1, -1), (2, 0)),
            ((2, 3, 2), (-1, 0, 1), (0, -2, 0), (0, 1, 2)),
            ((2,), (-5,), (4,), (3,)),
        ),
    ),
]
