"""Windows: the dimension numbers of gather and scatter, resolved once per signature.

The two families have different names for the same five lists; `Dimensions` has one name for each.
The type rules, the evaluation and the lowerings of all six ops build on this module.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gnomon.dialects.combinators import (
    parse,
    require,
    stablehlo,
    stablehlo_constant,
    stablehlo_full,
    stablehlo_reduce,
    stablehlo_sizes,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.bounds import LARGEST
from gnomon.dialects.symbolic.dimension import exceeds
from gnomon.dialects.types import BOOL, SIGNED, TensorType, is_integer, type_of

Dims = tuple[int, ...]

INTP = np.dtype(np.intp)
UINTP = np.dtype(np.uintp)

GATHER_NAMES = (
    "offset_dims",
    "collapsed_slice_dims",
    "start_index_map",
    "operand_batching_dims",
    "start_indices_batching_dims",
)
SCATTER_NAMES = (
    "update_window_dims",
    "inserted_window_dims",
    "scatter_dims_to_operand_dims",
    "operand_batching_dims",
    "scatter_indices_batching_dims",
)


class Dimensions(NamedTuple):
    """The dimension numbers of either family.

    Attributes:
      window: the dimensions of the result (scatter: of the updates) that belong to the window.
      collapsed: operand dimensions of window size one that are left out of the result.
      start_map: the operand dimension of each component of an index row.
      operand_batching: the operand dimensions that are batched with dimensions of the indices.
      indices_batching: the dimensions of the indices with which those are batched.
    """

    window: Dims
    collapsed: Dims
    start_map: Dims
    operand_batching: Dims
    indices_batching: Dims

    @staticmethod
    def of_gather(params: Mapping[str, Any]) -> Dimensions:
        """Extract the dimension numbers from the parameters of a gather."""
        return Dimensions(*(tuple(params[name]) for name in GATHER_NAMES))

    @staticmethod
    def of_scatter(params: Mapping[str, Any]) -> Dimensions:
        """Extract the dimension numbers from the parameters of a scatter."""
        return Dimensions(*(tuple(params[name]) for name in SCATTER_NAMES))

    def as_gather(self) -> dict[str, Dims]:
        """The dimension numbers as parameters of a gather."""
        return dict(zip(GATHER_NAMES, self, strict=True))

    def as_scatter(self) -> dict[str, Dims]:
        """The dimension numbers as parameters of a scatter."""
        return dict(zip(SCATTER_NAMES, self, strict=True))

    def kept(self, operand_rank: int) -> Dims:
        """The operand dimensions that are window dimensions of the result, in order."""
        left_out = {*self.collapsed, *self.operand_batching}
        return tuple(d for d in range(operand_rank) if d not in left_out)

    def with_operand_dim(self, dim: int) -> Dimensions:
        """The same dimension numbers for an operand with one more dimension at ``dim``."""

        def shifted(dims: Dims) -> Dims:
            return tuple(d + (d >= dim) for d in dims)

        return self._replace(
            collapsed=shifted(self.collapsed),
            start_map=shifted(self.start_map),
            operand_batching=shifted(self.operand_batching),
        )

    def with_leading_batch(self, operand_dim: int | None) -> Dimensions:
        """The same dimension numbers with a new leading dimension of the indices and the result.

        ``operand_dim`` is the operand dimension that is batched with it, which the other numbers
        already count.
        """
        pairs = zip(self.operand_batching, self.indices_batching, strict=True)
        along = [(o, i + 1) for o, i in pairs]
        if operand_dim is not None:
            along.append((operand_dim, 0))
        along.sort()
        return self._replace(
            window=tuple(d + 1 for d in self.window),
            operand_batching=tuple(o for o, _ in along),
            indices_batching=tuple(i for _, i in along),
        )


# -------------------------------------------------------------------------------------- type rules


def _distinct(op: str, name: str, dims: Dims, rank: int, of: str, *, in_order: bool) -> None:
    require(
        all(0 <= d < rank for d in dims) and len(set(dims)) == len(dims),
        op,
        f"{name} must be distinct dimensions of {of}, in [0, {rank}); got {dims}",
    )
    require(not in_order or list(dims) == sorted(dims), op, f"{name} must be sorted; got {dims}")


def check_dimensions(
    op: str,
    names: Sequence[str],
    dims: Dimensions,
    operand: TensorType,
    indices: TensorType,
    batched_rank: int,
) -> None:
    """Check the conditions on dimension numbers that gather and scatter share.

    ``batched_rank`` is the rank of the result (or of the updates).
    """
    window, collapsed, start_map, operand_batching, indices_batching = names
    require(
        is_integer(indices.dtype) and indices.rank > 0,
        op,
        "indices must be integers of rank 1 or more, with index rows along the last dimension; "
        f"got {indices}",
    )
    of = f"the operand {operand}"
    _distinct(op, window, dims.window, batched_rank, "the result or the updates", in_order=True)
    _distinct(op, collapsed, dims.collapsed, operand.rank, of, in_order=True)
    _distinct(op, start_map, dims.start_map, operand.rank, of, in_order=False)
    _distinct(op, operand_batching, dims.operand_batching, operand.rank, of, in_order=True)
    _distinct(
        op,
        indices_batching,
        dims.indices_batching,
        indices.rank - 1,
        f"the indices {indices} without the last",
        in_order=False,
    )
    for name, other in ((collapsed, dims.collapsed), (start_map, dims.start_map)):
        require(
            not set(other) & set(dims.operand_batching),
            op,
            f"{name} {other} and operand_batching_dims {dims.operand_batching} must be disjoint",
        )
    require(
        len(dims.start_map) == indices.shape[-1],
        op,
        f"the last dimension of indices must have one component for each of {start_map} "
        f"{dims.start_map}; got indices {indices}",
    )
    require(
        len(dims.window) + len(dims.collapsed) + len(dims.operand_batching) == operand.rank,
        op,
        f"each dimension of {of} must be in the window, in {collapsed} or in {operand_batching}; "
        f"got {len(dims.window)} {window}, {dims.collapsed} and {dims.operand_batching}",
    )
    operand_sizes = tuple(operand.shape[d] for d in dims.operand_batching)
    indices_sizes = tuple(indices.shape[d] for d in dims.indices_batching)
    require(
        operand_sizes == indices_sizes,
        op,
        f"{operand_batching} {dims.operand_batching} of {operand} and {indices_batching} "
        f"{dims.indices_batching} of {indices} must have the same sizes; "
        f"got {operand_sizes} and {indices_sizes}",
    )


# ------------------------------------------------------------------------------------- evaluation


class Windows(NamedTuple):
    """One resolved signature: how NumPy accesses the windows of an operand.

    The windows are accessed by advanced indexing of a view of the operand. The leading dimensions
    of the view are ``positions``: the operand dimensions along which an index row or a batching
    dimension moves the window. The others form the ``block`` at one position. If every window
    narrower than the operand has size one along the positions, the view is a transpose; otherwise
    it is a strided view in which neighbouring positions overlap.

    Attributes:
      bounds: the largest start in bounds, for each component of an index row.
      movers: for each position, the component of the index row that moves it, or the counter of
        its batching dimension.
      batch_shape: the shape of the indices without the last dimension.
      block_shape: the shape of the block at one position.
      window_shape: the window's kept dimensions; ``block_shape`` except for dimensions of size
        one.
      permutation: from (batch, window) to the result's order of dimensions; ``None`` for the
        identity.
      inverse: the inverse of ``permutation``.
      view_permutation: the permutation that gives the view, or ``None`` for a strided view.
      view_dims: the operand dimensions of the view, positions first.
      view_shape: the shape of the view.
      strides: the strides of the view in a contiguous operand, in elements.
      disjoint: whether windows at different positions do not overlap.
      take_axis: the position if it is the only one and ``np.take`` applies, otherwise ``None``.
      take_permutation: from ``np.take``'s order of dimensions to the result's.
    """

    bounds: np.ndarray
    movers: tuple[int | np.ndarray, ...]
    batch_shape: Dims
    block_shape: Dims
    window_shape: Dims
    permutation: Dims | None
    inverse: Dims | None
    view_permutation: Dims | None
    view_dims: Dims
    view_shape: Dims
    strides: Dims
    disjoint: bool
    take_axis: int | None
    take_permutation: Dims | None

    def view(self, operand: np.ndarray) -> np.ndarray:
        """The view of an operand whose leading dimensions are the positions."""
        if self.view_permutation is not None:
            return operand.transpose(self.view_permutation).reshape(self.view_shape)
        strides = [operand.strides[d] for d in self.view_dims]
        if not self.positions:
            strides.insert(0, 0)
        # NumPy's array interface cannot describe one-byte floats: view their bytes.
        array = operand.view(np.uint8) if operand.itemsize == 1 else operand
        return as_strided(array, self.view_shape, strides).view(operand.dtype)

    @property
    def positions(self) -> int:
        """The number of dimensions along which the windows move."""
        return len(self.movers)

    def indices(self, starts: np.ndarray) -> tuple[np.ndarray, ...]:
        """The advanced index into the view, for starts in bounds."""
        if not self.positions:
            return (np.zeros(self.batch_shape, INTP),)
        return tuple(starts[..., m] if isinstance(m, int) else m for m in self.movers)

    def rows_in_bounds(self, starts: np.ndarray) -> np.ndarray | None:
        """The mask of the index rows in bounds; ``None`` if all are."""
        # Read as unsigned, negative numbers exceed every bound.
        components = starts.view(UINTP) <= self.bounds
        if np.count_nonzero(components) == components.size:
            return None
        return np.asarray(components.all(-1))

    def clamp(self, starts: np.ndarray) -> np.ndarray:
        """Clamp each index row to the nearest one in bounds."""
        return np.minimum(np.maximum(starts, 0), self.bounds.view(INTP))


def starts_of(indices: np.ndarray) -> np.ndarray:
    """Convert index rows to NumPy's index dtype; larger values become its maximum."""
    if indices.dtype == INTP:
        return indices
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(np.iinfo(INTP).max))
    return indices.astype(INTP)


def _identity_or(permutation: Sequence[int]) -> Dims | None:
    return None if list(permutation) == sorted(permutation) else tuple(permutation)


@functools.lru_cache(maxsize=4096)
def resolve(operand: Dims, indices: Dims, dims: Dimensions, sizes: Dims) -> Windows:
    """Resolve dimension numbers that passed the type rule; ``sizes`` are the slice sizes."""
    rank = len(operand)
    batch_shape = indices[:-1]
    kept = dims.kept(rank)
    component = {d: k for k, d in enumerate(dims.start_map)}
    along = dict(zip(dims.operand_batching, dims.indices_batching, strict=True))

    # A window as large as the operand cannot move, so that dimension is not a position.
    moving = [d for d in component if sizes[d] < operand[d]]
    positions = sorted(moving + list(along))
    narrow = all(sizes[d] == 1 for d in moving)
    fixed = [d for d in kept if d not in moving]
    dropped = [d for d in range(rank) if d not in positions and d not in kept]
    whole = narrow and all(sizes[d] == operand[d] for d in (*fixed, *dropped))
    window_shape = tuple(sizes[d] for d in kept)
    if whole:
        # The dropped dimensions have size one here and disappear when the view is reshaped.
        view_dims = (*positions, *dropped, *fixed)
        block_shape = tuple(sizes[d] for d in fixed)
        lead = tuple(operand[d] for d in positions)
    else:
        view_dims = (*positions, *kept)
        block_shape = window_shape
        lead = tuple(operand[d] - sizes[d] + 1 if d in component else operand[d] for d in positions)
    view_shape = (*(lead or (1,)), *block_shape)

    window_set = set(dims.window)
    result_rank = len(batch_shape) + len(dims.window)
    batch_dims = [d for d in range(result_rank) if d not in window_set]
    inverse = [*batch_dims, *dims.window]
    permutation = [inverse.index(d) for d in range(result_rank)]

    take_axis = take_permutation = None
    if whole and len(positions) == 1 and positions[0] in component and not along:
        take_axis = positions[0]
        if kept == tuple(d for d in range(rank) if d != take_axis):
            # np.take puts the batch dimensions in place of the axis.
            order = [*range(take_axis), *range(take_axis + len(batch_shape), result_rank)]
            batch_in_take = range(take_axis, take_axis + len(batch_shape))
            source = [*batch_in_take, *order]
            take_permutation = tuple(source[i] for i in permutation)
        else:
            take_axis = None
    return Windows(
        bounds=np.array([operand[d] - sizes[d] for d in dims.start_map], INTP).view(UINTP),
        movers=tuple(
            _counter(batch_shape, along[d]) if d in along else component[d] for d in positions
        ),
        batch_shape=batch_shape,
        block_shape=block_shape,
        window_shape=window_shape,
        permutation=_identity_or(permutation),
        inverse=_identity_or(inverse),
        view_permutation=view_dims if whole else None,
        view_dims=view_dims,
        view_shape=view_shape,
        strides=_strides(operand, [d for d in view_dims if not whole or d not in dropped]),
        disjoint=narrow,
        take_axis=take_axis,
        take_permutation=take_permutation and _identity_or(take_permutation),
    )


def _strides(operand: Dims, dims: Sequence[int]) -> Dims:
    return tuple(math.prod(operand[d + 1 :]) for d in dims)


def _counter(shape: Dims, dim: int) -> np.ndarray:
    """``arange`` along one dimension, broadcast to ``shape``."""
    counter = np.arange(shape[dim], dtype=INTP)
    return np.broadcast_to(
        counter.reshape([-1 if d == dim else 1 for d in range(len(shape))]), shape
    )


# --------------------------------------------------------------------------------------- lowering


@functools.cache
def _direction(name: str) -> ir.Attribute:
    return parse(f"#stablehlo<comparison_direction {name}>")


@functools.cache
def _signed() -> ir.Attribute:
    return parse("#stablehlo<comparison_type SIGNED>")


def _compare(direction: str, x: ir.Value, y: ir.Value) -> ir.Value:
    return stablehlo(
        "compare",
        [x, y],
        [type_of(x).with_dtype(BOOL)],
        comparison_direction=_direction(direction),
        compare_type=_signed(),
    )[0]


def broadcast(x: ir.Value, shape: Dims, dims: Sequence[int]) -> ir.Value:
    """``stablehlo.broadcast_in_dim``."""
    return stablehlo(
        "broadcast_in_dim",
        [x],
        [type_of(x).with_shape(shape)],
        broadcast_dimensions=ir.DenseI64ArrayAttr.get(list(dims)),
    )[0]


def signed_indices(indices: ir.Value, operand: Dims) -> ir.Value:
    """Convert indices to i32 so that none wraps into bounds; to i64 for large operands.

    Indices of i64 stay as they are.
    """
    type_ = type_of(indices)
    target: np.dtype = np.dtype(np.int64 if any(exceeds(n, LARGEST) for n in operand) else np.int32)
    if type_.dtype in SIGNED and type_.dtype.itemsize > target.itemsize:
        target = type_.dtype
    if type_.dtype == target:
        return indices
    if type_.dtype not in SIGNED and type_.dtype.itemsize >= target.itemsize:
        largest = np.array(np.iinfo(target).max, type_.dtype)
        limit = stablehlo_full(type_, largest)
        (indices,) = stablehlo("minimum", [indices, limit], [type_])
    return stablehlo("convert", [indices], [type_.with_dtype(target)])[0]


def _bounds(starts: ir.Value, bounds: Sequence[int]) -> ir.Value:
    type_ = type_of(starts)
    literal = stablehlo_sizes(bounds, type_.dtype)
    return broadcast(literal, type_.shape, [type_.rank - 1])


def _zero(type_: TensorType) -> ir.Value:
    return stablehlo_full(type_, 0)


def clamped(starts: ir.Value, bounds: Sequence[int]) -> ir.Value:
    """Clamp signed starts to ``[0, bound]``."""
    type_ = type_of(starts)
    (low,) = stablehlo("maximum", [starts, _zero(type_)], [type_])
    return stablehlo("minimum", [low, _bounds(starts, bounds)], [type_])[0]


def mask_in_bounds(starts: ir.Value, bounds: Sequence[int]) -> ir.Value:
    """The mask of the index rows whose whole window is in bounds."""
    type_ = type_of(starts)
    mask_type = type_.with_dtype(BOOL)
    sides = [
        _compare("GE", starts, _zero(type_)),
        _compare("LE", starts, _bounds(starts, bounds)),
    ]
    (mask,) = stablehlo("and", sides, [mask_type])
    row_type = mask_type.with_shape(type_.shape[:-1])
    if type_.shape[-1] == 1:
        return stablehlo("reshape", [mask], [row_type])[0]
    true = stablehlo_constant(np.array(True))
    scalar = [mask_type.with_shape(())]
    return stablehlo_reduce(
        [mask], [true], [type_.rank - 1], lambda x, y: stablehlo("and", [x, y], scalar)
    )[0]


def element_count(shape: Sequence[int]) -> int:
    """The number of elements of a shape."""
    return math.prod(shape)
