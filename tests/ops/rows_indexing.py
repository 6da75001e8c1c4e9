"""Rows of the op table: gather and the scatters; their reference is the definition, in loops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gnomon.dialects.indexing import default_fill_value
from gnomon.dialects.indexing.windows import Dimensions
from tests.ops.row import Operand, Row
from tests.ops.rows_structural import ALL

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "scatter": lambda old, new: new,
    "scatter_add": lambda old, new: old + new,
    "scatter_mul": lambda old, new: old * new,
    "scatter_min": np.minimum,
    "scatter_max": np.maximum,
}


def by_loops(
    op: str,
    params: Mapping[str, Any],
    operand: np.ndarray,
    indices: np.ndarray,
    updates: np.ndarray | None = None,
) -> np.ndarray:
    """The definition of gather and scatter, element by element."""
    gathers = op == "gather"
    dims = Dimensions.of_gather(params) if gathers else Dimensions.of_scatter(params)
    kept = dims.kept(operand.ndim)
    batch_rank = indices.ndim - 1
    batch_dims = [d for d in range(batch_rank + len(kept)) if d not in dims.window]
    if gathers:
        sizes = list(params["slice_sizes"])
    else:
        assert updates is not None
        sizes = [1] * operand.ndim
        for d, w in zip(kept, dims.window, strict=True):
            sizes[d] = updates.shape[w]
    shape = [0] * (batch_rank + len(kept))
    for d, n in zip(batch_dims, indices.shape, strict=False):
        shape[d] = n
    for d, w in zip(kept, dims.window, strict=True):
        shape[w] = sizes[d]
    out = np.zeros(shape, operand.dtype) if gathers else operand.copy()
    # Index row by index row, and within a window in order.
    for at in sorted(np.ndindex(*shape), key=lambda at: [at[d] for d in batch_dims]):
        batch = tuple(at[d] for d in batch_dims)
        start, inside = [0] * operand.ndim, True
        for component, d in enumerate(dims.start_map):
            wanted, bound = int(indices[(*batch, component)]), operand.shape[d] - sizes[d]
            inside &= 0 <= wanted <= bound
            start[d] = min(max(wanted, 0), bound)
        for d, along in zip(dims.operand_batching, dims.indices_batching, strict=True):
            start[d] = batch[along]
        for d, w in zip(kept, dims.window, strict=True):
            start[d] += at[w]
        place = tuple(start)
        if gathers:
            fills = params["mode"] == "fill" and not inside
            out[at] = params["fill_value"] if fills else operand[place]
        elif inside or params["mode"] == "clip":
            assert updates is not None
            out[place] = _COMBINE[op](out[place], updates[at])
    return out


# ---------------------------------------------------------------------------------------- the table


def _scattered(low: int, high: int) -> Any:
    """Indices of any kind: repeated, negative, beyond the operand."""
    return lambda rng, shape, dtype: rng.integers(low, high, shape).astype(dtype)


def _distinct(limit: int) -> Any:
    """Index rows of one component, all different and in bounds."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return rng.permutation(limit)[: int(np.prod(shape))].reshape(shape).astype(dtype)

    return draw


class _Use:
    """One choice of dimension numbers, for gather and for the scatters."""

    def __init__(
        self,
        label: str,
        operand: tuple[int, ...],
        indices: Operand,
        updates: tuple[int, ...],
        sizes: tuple[int, ...],
        dims: Dimensions,
        *,
        unique: bool = False,
    ) -> None:
        self.label, self.operand, self.indices = label, operand, indices
        self.updates, self.sizes, self.dims, self.unique = updates, sizes, dims, unique

    def gather(self, mode: str, dtypes: str, *, default: bool = False) -> Row:
        def fill(dtype: np.dtype) -> Any:
            return default_fill_value(dtype) if default else 2 - 1j if dtype.kind == "c" else 2

        def params(dtype: np.dtype) -> dict[str, Any]:
            return self.dims.as_gather() | {
                "slice_sizes": self.sizes,
                "mode": mode,
                "fill_value": fill(dtype),
                "unique_indices": self.unique,
                "indices_are_sorted": False,
            }

        return Row(
            "gather",
            (Operand(self.operand), self.indices),
            lambda x, i: by_loops("gather", params(x.dtype), x, i),
            params,
            dtypes=dtypes,
            # Finite differences of NaNs say nothing.
            differentiable=() if default else (0,),
            ulps=0.0,
            label=f"{self.label}-{mode}{'-default' if default else ''}",
        )

    def scatter(self, op: str, mode: str, dtypes: str) -> Row:
        params = self.dims.as_scatter() | {
            "mode": mode,
            "unique_indices": self.unique,
            "indices_are_sorted": False,
        }
        by_updates = op != "scatter_mul" or self.unique
        return Row(
            op,
            (Operand(self.operand), self.indices, Operand(self.updates)),
            functools.partial(by_loops, op, params),
            params,
            dtypes=dtypes,
            differentiable=(0, 2) if by_updates else (0,),
            # Small floats combine in f32 and round once, the loops round at each step.
            ulps=8.0,
            label=f"{self.label}-{mode}",
        )


def _index(shape: tuple[int, ...], draw: Any, dtype: Any = np.int32) -> Operand:
    return Operand(shape, dtype=dtype, draw=draw)


_NONE: tuple[int, ...] = ()

# x[i]: rows of a matrix, with indices of any kind.
_ROWS_OF = _Use(
    "rows",
    (5, 9),
    _index((6, 1), _scattered(-2, 8)),
    (6, 9),
    (1, 9),
    Dimensions((1,), (0,), (0,), _NONE, _NONE),
)
_USES = (
    _ROWS_OF,
    # x[i] of a vector by indices that do not repeat.
    _Use(
        "distinct",
        (6,),
        _index((4, 1), _distinct(6), np.int64),
        (4,),
        (1,),
        Dimensions(_NONE, (0,), (0,), _NONE, _NONE),
        unique=True,
    ),
    # x[i, :, j] with the window first.
    _Use(
        "points",
        (4, 3, 5),
        _index((2, 3, 2), _scattered(-1, 6), np.int8),
        (3, 2, 3),
        (1, 3, 1),
        Dimensions((0,), (0, 2), (2, 0), _NONE, _NONE),
    ),
    # Windows that overlap and stick out.
    _Use(
        "windows",
        (6, 4),
        _index((5, 2), _scattered(-1, 6), np.uint32),
        (3, 5, 2),
        (3, 2),
        Dimensions((0, 2), _NONE, (0, 1), _NONE, _NONE),
    ),
    # take_along_axis: a batching dimension of the operand runs along with one of the indices.
    _Use(
        "batched",
        (5, 3, 2),
        _index((4, 3, 1), _scattered(-1, 6), np.uint8),
        (4, 3, 2),
        (1, 1, 2),
        Dimensions((2,), (0,), (0,), (1,), (1,)),
    ),
    # One index row without a batch dimension.
    _Use(
        "single",
        (4, 3),
        _index((2,), _scattered(0, 3)),
        (),
        (1, 1),
        Dimensions(_NONE, (0, 1), (0, 1), _NONE, _NONE),
    ),
    # No index components: every row means the operand's start.
    _Use(
        "fixed",
        (3, 2),
        _index((4, 0), _scattered(0, 1)),
        (2, 4),
        (2, 1),
        Dimensions((0,), (1,), _NONE, _NONE, _NONE),
    ),
    _Use(
        "no-rows",
        (3, 2),
        _index((0, 1), _scattered(0, 3)),
        (0, 2),
        (1, 2),
        Dimensions((1,), (0,), (0,), _NONE, _NONE),
    ),
    _Use(
        "no-columns",
        (3, 0),
        _index((4, 1), _scattered(0, 5)),
        (4, 0),
        (1, 0),
        Dimensions((1,), (0,), (0,), _NONE, _NONE),
    ),
)
_SCATTERS = ("scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max")
_FEW = "f64 c128"


def _rows() -> list[Row]:
    rows = [_ROWS_OF.gather("fill", ALL, default=True)]
    for use in _USES:
        dtypes = ALL if use is _ROWS_OF else _FEW
        rows += [use.gather("fill", _FEW), use.gather("clip", dtypes)]
        for op in _SCATTERS:
            rows += [use.scatter(op, "drop", dtypes), use.scatter(op, "clip", _FEW)]
        if use.unique:
            rows.append(use.gather("promise_in_bounds", _FEW))
            rows += [use.scatter(op, "promise_in_bounds", _FEW) for op in _SCATTERS]
    return rows


ROWS = _rows()
