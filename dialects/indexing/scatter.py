"""The scatter family: write updates to windows of an operand, or combine them with the windows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import BOOL as FLAG
from gnomon.dialects.attributes import INTS, STRING
from gnomon.dialects.combinators import (
    Values,
    parse,
    require,
    require_dtype,
    stablehlo,
    stablehlo_region,
    stablehlo_sizes,
    to_front,
)
from gnomon.dialects.contract import NOT_LINEAR, Facet, Instance, MappedAxis, Op
from gnomon.dialects.emit import move_dim, ops
from gnomon.dialects.indexing.scatter_derivatives import (
    jvp_add,
    jvp_extremal,
    jvp_mul,
    jvp_set,
    transpose_add,
    transpose_mul,
    transpose_set,
)
from gnomon.dialects.indexing.updates import sizes_of, window_sizes, writes_nothing
from gnomon.dialects.indexing.windows import (
    SCATTER_NAMES,
    Dimensions,
    Dims,
    Windows,
    broadcast,
    check_dimensions,
    clamped,
    mask_in_bounds,
    resolve,
    signed_indices,
    starts_of,
)
from gnomon.dialects.indexing.writes import Write, assign, combine, extremum, native, unchanged
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form, Linearity, linear, multilinear
from gnomon.dialects.types import (
    ANY,
    TensorType,
    mlir_type,
    type_of,
)
from gnomon.dialects.work_rules import Types, Work

# The treatment of writes out of bounds; a window that is partly out of bounds counts as out of
# bounds. "promise_in_bounds" leaves it undefined; the implementation drops the write, as XLA does.
MODES = ("clip", "drop", "promise_in_bounds")


# --------------------------------------------------------------------------------------- type rule


def _infer(
    name: str,
    operand: TensorType,
    indices: TensorType,
    updates: TensorType,
    **params: Any,
) -> TensorType:
    require_dtype(name, operand, ANY)
    require(
        operand.dtype == updates.dtype,
        name,
        f"operand and updates must have one dtype, got {operand} and {updates}",
    )
    mode = params["mode"]
    require(mode in MODES, name, f"mode must be one of {', '.join(MODES)}; got '{mode}'")
    dims = Dimensions.of_scatter(params)
    check_dimensions(name, SCATTER_NAMES, dims, operand, indices, updates.rank)
    require(
        updates.rank == indices.rank - 1 + len(dims.window),
        name,
        f"the rank of updates must be that of indices {indices} less one, plus the "
        f"{len(dims.window)} update_window_dims; got {updates}",
    )
    batch_shape = tuple(n for d, n in enumerate(updates.shape) if d not in dims.window)
    require(
        batch_shape == indices.shape[:-1],
        name,
        f"the dimensions of updates {updates} outside update_window_dims {dims.window} must be "
        f"those of indices {indices} without the last; got {batch_shape}",
    )
    kept = dims.kept(operand.rank)
    sizes = tuple(updates.shape[d] for d in dims.window)
    limits = tuple(operand.shape[d] for d in kept)
    require(
        all(s <= n for s, n in zip(sizes, limits, strict=True)),
        name,
        f"the window {sizes} of updates {updates} must not exceed the dimensions {kept} of the "
        f"operand {operand}",
    )
    return operand


# -------------------------------------------------------------------------------------- evaluation


@functools.lru_cache(maxsize=4096)
def _windows(operand: Dims, indices: Dims, updates: Dims, *numbers: Dims) -> Windows:
    dims = Dimensions(*numbers)
    return resolve(operand, indices, dims, window_sizes(dims, len(operand), updates))


def _evaluate(
    write: Write,
    working_dtype: Callable[[np.dtype], np.dtype],
    operand: np.ndarray,
    indices: np.ndarray,
    updates: np.ndarray,
    *,
    update_window_dims: Dims,
    inserted_window_dims: Dims,
    scatter_dims_to_operand_dims: Dims,
    operand_batching_dims: Dims,
    scatter_indices_batching_dims: Dims,
    mode: str,
    unique_indices: bool,
    indices_are_sorted: bool,
) -> np.ndarray:
    if operand.size == 0 or updates.size == 0:
        return operand
    windows = _windows(
        operand.shape,
        indices.shape,
        updates.shape,
        update_window_dims,
        inserted_window_dims,
        scatter_dims_to_operand_dims,
        operand_batching_dims,
        scatter_indices_batching_dims,
    )
    work = working_dtype(operand.dtype)
    out = np.array(operand, work, order="C")
    if windows.inverse is not None:
        updates = updates.transpose(windows.inverse)
    updates = updates.reshape(windows.batch_shape + windows.block_shape).astype(work, copy=False)
    starts = starts_of(indices)
    if mode == "clip":
        starts = windows.clamp(starts)
        rows = windows.indices(starts)
    else:
        in_bounds = windows.rows_in_bounds(starts)
        rows = windows.indices(starts)
        if in_bounds is not None:
            rows = tuple(row[in_bounds] for row in rows)
            updates = updates[in_bounds]
    write(out, windows, rows, updates, unique_indices)
    return out.astype(operand.dtype, copy=False)


# ---------------------------------------------------------------------------------------- batching


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    operand, indices, updates = operands
    operand_dim, indices_dim, updates_dim = dims
    operand, updates = to_front([operand, updates], [operand_dim, updates_dim], axis)
    numbers = Dimensions.of_scatter(inst.params).with_operand_dim(0)
    if indices_dim is None:
        # Every window spans the whole batch dimension.
        numbers = numbers._replace(window=(0, *(d + 1 for d in numbers.window)))
    else:
        indices = move_dim(indices, indices_dim, 0)
        numbers = numbers.with_leading_batch(0)
    return inst.op.build([operand, indices, updates], inst.params | numbers.as_scatter()), [0]


# --------------------------------------------------------------------------------------- lowering


@functools.cache
def _dimension_numbers(dims: Dimensions, index_vector_dim: int) -> ir.Attribute:
    return parse(
        f"#stablehlo.scatter<update_window_dims = {list(dims.window)}, "
        f"inserted_window_dims = {list(dims.collapsed)}, "
        f"input_batching_dims = {list(dims.operand_batching)}, "
        f"scatter_indices_batching_dims = {list(dims.indices_batching)}, "
        f"scatter_dims_to_operand_dims = {list(dims.start_map)}, "
        f"index_vector_dim = {index_vector_dim}>"
    )


def _explicit_starts(inst: Instance, dims: Dimensions) -> ir.Value:
    """Adapt the indices so that StableHLO's elementwise dropping implements the mode."""
    operand_type, _, _ = inst.operand_types
    starts = signed_indices(inst.operands[1], operand_type.shape)
    sizes = sizes_of(inst)
    bounds = [operand_type.shape[d] - sizes[d] for d in dims.start_map]
    if inst.params["mode"] == "clip":
        return clamped(starts, bounds)
    if all(sizes[d] == 1 for d in dims.start_map):
        return starts
    # Move windows that are partly out of bounds entirely out, so that none of them is written.
    starts_type = type_of(starts)
    rows = mask_in_bounds(starts, bounds)
    mask = broadcast(rows, starts_type.shape, range(starts_type.rank - 1))
    outside = [operand_type.shape[d] for d in dims.start_map]
    literal = stablehlo_sizes(outside, starts_type.dtype)
    outside_rows = broadcast(literal, starts_type.shape, [starts_type.rank - 1])
    return stablehlo("select", [mask, starts, outside_rows], [starts_type])[0]


def _lower(update: str | None, inst: Instance) -> list[ir.Value]:
    if writes_nothing(inst):
        return [inst.operands[0]]
    dims = Dimensions.of_scatter(inst.params)
    operand, _, updates = inst.operands
    starts = _explicit_starts(inst, dims)
    created = ir.Operation.create(
        "stablehlo.scatter",
        results=[mlir_type(inst.type)],
        operands=[operand, starts, updates],
        attributes={
            "scatter_dimension_numbers": _dimension_numbers(dims, inst.operand_types[1].rank - 1),
            "indices_are_sorted": ir.BoolAttr.get(inst.params["indices_are_sorted"]),
            "unique_indices": ir.BoolAttr.get(inst.params["unique_indices"]),
        },
        regions=1,
    )
    scalar = inst.type.with_shape(())

    def emit(old: ir.Value, new: ir.Value) -> Sequence[ir.Value]:
        if update is None:
            return [new]
        op: Op = getattr(ops, update)
        return op.lower(Instance(op, [old, new], [scalar, scalar], [scalar], {}))  # type: ignore[operator]

    stablehlo_region(created.regions[0], [scalar, scalar], emit)
    return list(created.results)


def _work(operands: Types, results: Types, **params: Any) -> Work:
    return Work(flops=operands[2].size)


# ------------------------------------------------------------------------------------------ the ops


def _scatter(
    name: str,
    doc: str,
    *,
    write: Write,
    working_dtype: Callable[[np.dtype], np.dtype],
    update: str | None,
    jvp: Facet,
    transpose: Facet,
    linear: Linearity | None = None,
) -> Op:
    return Op(
        name=name,
        doc=doc,
        example=(
            f'%r = "gnomon.{name}"(%x, %i, %u) {{update_window_dims = array<i64: 1>, '
            "inserted_window_dims = array<i64: 0>, scatter_dims_to_operand_dims = array<i64: 0>, "
            "operand_batching_dims = array<i64>, scatter_indices_batching_dims = array<i64>, "
            'mode = "drop", unique_indices = false, indices_are_sorted = false} : '
            "(tensor<8x3xf32>, tensor<5x1xi32>, tensor<5x3xf32>) -> tensor<8x3xf32>"
        ),
        attributes={
            **dict.fromkeys(SCATTER_NAMES, INTS),
            "mode": STRING,
            "unique_indices": FLAG,
            "indices_are_sorted": FLAG,
        },
        operands=("operand", "indices", "updates"),
        form=Form.SCATTER,
        stablehlo=("scatter",),
        work=work_rules.nothing if update is None else _work,
        infer=functools.partial(_infer, name),
        evaluate=functools.partial(_evaluate, write, working_dtype),
        jvp=jvp,
        linear=linear,
        transpose=transpose,
        batch=_batch,
        sharding=sharding_rules.scattered,
        lower=functools.partial(_lower, update),
    )


scatter = _scatter(
    "scatter",
    "the operand with windows replaced by the updates",
    write=assign,
    working_dtype=unchanged,
    update=None,
    jvp=jvp_set,
    linear=linear(0, 2),
    transpose=transpose_set,
)
scatter_add = _scatter(
    "scatter_add",
    "the operand with the updates added to windows",
    write=combine(np.add),
    working_dtype=native,
    update="add",
    jvp=jvp_add,
    linear=linear(0, 2),
    transpose=transpose_add,
)
scatter_mul = _scatter(
    "scatter_mul",
    "the operand with windows multiplied by the updates",
    write=combine(np.multiply),
    working_dtype=native,
    update="mul",
    jvp=jvp_mul,
    linear=multilinear(0),
    transpose=transpose_mul,
)
scatter_min = _scatter(
    "scatter_min",
    "the operand with windows replaced by the minimum of the windows and the updates",
    write=extremum(np.minimum),
    working_dtype=native,
    update="min",
    jvp=jvp_extremal,
    transpose=NOT_LINEAR,
)
scatter_max = _scatter(
    "scatter_max",
    "the operand with windows replaced by the maximum of the windows and the updates",
    write=extremum(np.maximum),
    working_dtype=native,
    update="max",
    jvp=jvp_extremal,
    transpose=NOT_LINEAR,
)
