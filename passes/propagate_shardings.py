"""Propagation of shardings from the arguments of a program to its values.

The sharding of a value is a tuple with the names of the mesh axes that split each dimension. The
rule of an op relates dimensions of its results to dimensions of its operands, and a dimension of a
result is split like the related dimensions of the operands. A dimension is not split if no operand
dimension is related to it, or if the operands disagree. Explicit axes are stricter: the
``sharding`` facets of ops raise errors in these cases (see `gnomon.dialects.sharding_rules`).

An `Inspected` is reported for each value whose sharding the program asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gnomon.dialects.body import Body, operands_of, results_of
from gnomon.dialects.contract import bodies_of, lookup, params_of
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

__all__ = [
    "Inspected",
    "Split",
    "constraint_split",
    "joined",
    "propagate",
    "propagate_op",
]

Split = tuple[tuple[str, ...], ...]
Shape = tuple[int, ...]
# One label for each dimension of a value; equal labels are split over the same axes.
Labels = Sequence[Any]


@dataclass(frozen=True)
class Inspected:
    """A value whose sharding a program asks for (``gnomon.inspect_sharding``).

    Attributes:
      callback: the number of the callback that receives the sharding.
      split: the sharding of the value.
    """

    callback: int
    split: Split


@dataclass
class Use:
    """One operation, as the propagation rules see it.

    Attributes:
      name: the name of the op without ``gnomon.``.
      params: its parameters.
      operands, results: their shapes.
      splits: the shardings of the operands.
      sizes: the size of each axis of the mesh.
      findings: a list to which rules append.
    """

    name: str
    params: Mapping[str, Any]
    operands: Sequence[Shape]
    results: Sequence[Shape]
    splits: Sequence[Split]
    sizes: Mapping[str, int]
    findings: list[Inspected] = field(default_factory=list)

    def count(self, axes: Sequence[str]) -> int:
        """The number of parts into which axes split a dimension."""
        return math.prod(self.sizes.get(axis, 1) for axis in axes)


def unsplit(shape: Shape) -> Split:
    """The sharding of a value that no axis splits."""
    return ((),) * len(shape)


def _merge(use: Use, operands: Sequence[Labels], result: Labels, shape: Shape) -> Split:
    """The sharding of a result, each dimension split like operand dimensions of the same label.

    If operands split a dimension over different axes, the dimension is not split, unless the axes
    of one operand begin with those of the other: then the longer list is taken.
    """
    axes_of: dict[Any, tuple[str, ...]] = {}
    for labels, split in zip(operands, use.splits, strict=True):
        for label, axes in zip(labels, split, strict=True):
            if label is None or not axes or label not in result:
                continue
            before = axes_of.setdefault(label, axes)
            if before == axes:
                continue
            shorter, longer = sorted((before, axes), key=len)
            axes_of[label] = longer if longer[: len(shorter)] == shorter else ()
    merged = [() if label is None else axes_of.get(label, ()) for label in result]
    return _valid_axes(use, merged, shape)


def _valid_axes(use: Use, split: Sequence[tuple[str, ...]], shape: Shape) -> Split:
    """A sharding without axes that are used twice or do not divide a dimension."""
    used: set[str] = set()
    valid: list[tuple[str, ...]] = []
    for axes, size in zip(split, shape, strict=True):
        fits = used.isdisjoint(axes) and size % use.count(axes) == 0 and size > 0
        valid.append(tuple(axes) if fits else ())
        used.update(valid[-1])
    return tuple(valid)


# -------------------------------------------------------------------------------------------- rules


def _same_dimensions(use: Use) -> list[Split]:
    """Split each result like the operands of its shape; ignore the other operands."""
    results = []
    for shape in use.results:
        labels = range(len(shape))
        of_operands = [labels if s == shape else (None,) * len(s) for s in use.operands]
        results.append(_merge(use, of_operands, labels, shape))
    return results


def _broadcast_in_dim(use: Use) -> list[Split]:
    (shape,), (result,) = use.operands, use.results
    dims = use.params["dims"]
    labels = [d if n == result[d] else None for n, d in zip(shape, dims, strict=True)]
    return [_merge(use, [labels], range(len(result)), result)]


def _transpose(use: Use) -> list[Split]:
    (shape,) = use.operands
    return [_merge(use, [range(len(shape))], use.params["permutation"], use.results[0])]


def _reduce(use: Use) -> list[Split]:
    (shape,) = use.operands
    axes = use.params["axes"] if "axes" in use.params else (use.params["axis"],)
    kept_dims = [d for d in range(len(shape)) if d not in axes]
    return [_merge(use, [range(len(shape))], kept_dims, use.results[0])]


def _dot_general(use: Use) -> list[Split]:
    p = use.params
    lhs: list[Any] = [("l", d) for d in range(len(use.operands[0]))]
    rhs: list[Any] = [("r", d) for d in range(len(use.operands[1]))]
    for i, (a, b) in enumerate(zip(p["lhs_batch"], p["rhs_batch"], strict=True)):
        lhs[a] = rhs[b] = ("b", i)
    for i, (a, b) in enumerate(zip(p["lhs_contracting"], p["rhs_contracting"], strict=True)):
        lhs[a] = rhs[b] = ("c", i)
    batch = [("b", i) for i in range(len(p["lhs_batch"]))]
    free = [label for label in (*lhs, *rhs) if label[0] in "lr"]
    return [_merge(use, [lhs, rhs], [*batch, *free], use.results[0])]


def _conv_general_dilated(use: Use) -> list[Split]:
    p = use.params
    lhs: list[Any] = [None] * len(use.operands[0])
    rhs: list[Any] = [None] * len(use.operands[1])
    out: list[Any] = [None] * len(use.results[0])
    if p["batch_group_count"] == 1:
        lhs[p["lhs_spec"][0]] = out[p["out_spec"][0]] = "batch"
    if p["feature_group_count"] == 1:
        rhs[p["rhs_spec"][0]] = out[p["out_spec"][1]] = "feature"
    return [_merge(use, [lhs, rhs], out, use.results[0])]


def _reshape(use: Use) -> list[Split]:
    (shape,), (result,) = use.operands, use.results
    split: list[tuple[str, ...]] = [()] * len(result)
    for dims, result_dims in _groups(shape, result):
        # Only the axes of the outermost dimension carry over: a shard of an inner dimension is
        # not one contiguous range of the reshaped dimension.
        wide = [d for d in dims if shape[d] > 1]
        targets = [d for d in result_dims if result[d] > 1]
        if wide and targets:
            axes = use.splits[0][wide[0]]
            fits = result[targets[0]] % use.count(axes) == 0
            split[targets[0]] = axes if fits else ()
    return [_valid_axes(use, split, result)]


def _groups(shape: Shape, result: Shape) -> list[tuple[list[int], list[int]]]:
    """Consecutive dimensions of two shapes of one size that hold the same elements."""
    if 0 in shape:
        return []
    groups = []
    i = j = 0
    while i < len(shape) and j < len(result):
        dims, result_dims = [i], [j]
        left, right = shape[i], result[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left *= shape[i]
                dims.append(i)
                i += 1
            else:
                right *= result[j]
                result_dims.append(j)
                j += 1
        groups.append((dims, result_dims))
    return groups


def _resized(use: Use) -> list[Split]:
    """Split each result like the operands of its rank, even if the sizes differ."""
    result = use.results[0]
    of_operands = [
        range(len(shape)) if len(shape) == len(result) else (None,) * len(shape)
        for shape in use.operands
    ]
    return [_merge(use, of_operands, range(len(shape)), shape) for shape in use.results]


def _top_k(use: Use) -> list[Split]:
    axis = use.params["axis"] % len(use.operands[0])
    labels = [None if d == axis else d for d in range(len(use.operands[0]))]
    return [_merge(use, [labels], labels, shape) for shape in use.results]


def _dynamic_slice(use: Use) -> list[Split]:
    """Split the dimensions that are taken whole; the start indices of the others are unknown."""
    shape, result = use.operands[0], use.results[0]
    labels = [d if n == m else None for d, (n, m) in enumerate(zip(shape, result, strict=True))]
    of_operands = [labels, *((None,) * len(s) for s in use.operands[1:])]
    return [_merge(use, of_operands, range(len(result)), result)]


def _first_operand(use: Use) -> list[Split]:
    """Split the results like the first operand, of which they are updated copies."""
    return [_valid_axes(use, use.splits[0], shape) for shape in use.results]


def _gather(use: Use) -> list[Split]:
    p = use.params
    operand, indices = use.operands
    (result,) = use.results
    labels: list[Any] = [None] * len(operand)
    out: list[Any] = [None] * len(result)
    dropped = {*p["collapsed_slice_dims"], *p["operand_batching_dims"]}
    window = [d for d in range(len(operand)) if d not in dropped]
    for d, place in zip(window, p["offset_dims"], strict=True):
        if p["slice_sizes"][d] == operand[d]:
            labels[d] = out[place] = ("o", d)
    batch = [d for d in range(len(result)) if d not in p["offset_dims"]]
    of_indices: list[Any] = [None] * len(indices)
    for d, place in enumerate(batch):
        of_indices[d] = out[place] = ("i", d)
    pairs = zip(p["operand_batching_dims"], p["start_indices_batching_dims"], strict=True)
    for d, i in pairs:
        if i < len(of_indices) and of_indices[i] is not None:
            labels[d] = of_indices[i]
    return [_merge(use, [labels, of_indices], out, result)]


def _batch_dimensions(use: Use) -> list[Split]:
    """Split the batch dimensions of an op on matrices, but not the matrices."""
    rank = min((len(s) for s in use.operands if s), default=0)
    batch = range(max(rank - 2, 0))
    of_operands = [[d if d in batch else None for d in range(len(s))] for s in use.operands]
    return [
        _merge(use, of_operands, [d if d in batch else None for d in range(len(s))], s)
        for s in use.results
    ]


def _creation(use: Use) -> list[Split]:
    return [unsplit(shape) for shape in use.results]


def constraint_split(params: Mapping[str, Any], split: Split) -> Split:
    """The sharding after a constraint of a value whose sharding before it is ``split``."""
    requested = [None if entry == "?" else _axes(entry) for entry in params["spec"]]
    fixed = {axis for axes in requested if axes for axis in axes}
    return tuple(
        tuple(a for a in old if a not in fixed) if axes is None else axes
        for axes, old in zip(requested, split, strict=True)
    )


def _axes(entry: str) -> tuple[str, ...]:
    return tuple(entry.split(",")) if entry else ()


def _inspect_sharding(use: Use) -> list[Split]:
    use.findings.append(Inspected(use.params["callback"], use.splits[0]))
    return []


def _sharding_constraint(use: Use) -> list[Split]:
    if dict(zip(use.params["names"], use.params["sizes"], strict=True)) != dict(use.sizes):
        return [unsplit(shape) for shape in use.results]  # The constraint is on another mesh.
    return [_valid_axes(use, constraint_split(use.params, use.splits[0]), use.results[0])]


_MATRICES = (
    "cholesky eigh eigvalsh eig lu lu_pivots_to_permutation pinv geqrf householder_product qr "
    "schur solve slogdet det cofactors svd triangular_solve tridiagonal_solve hessenberg "
    "tridiagonal"
)
_RESIZED = (
    "slice pad concatenate reduce_window_sum reduce_window_max reduce_window_min "
    "window_argmax window_argmin fft"
)
_REDUCTIONS = (
    "reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or reduce_xor argmax argmin"
)
_RULES: dict[str, Callable[[Use], list[Split]]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "transpose": _transpose,
    "dot_general": _dot_general,
    "conv_general_dilated": _conv_general_dilated,
    "reshape": _reshape,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _first_operand,
    "gather": _gather,
    "top_k": _top_k,
    "rng_bit_generator": _creation,
    "inspect_sharding": _inspect_sharding,
    "sharding_constraint": _sharding_constraint,
    **dict.fromkeys(_REDUCTIONS.split(), _reduce),
    **dict.fromkeys(_RESIZED.split(), _resized),
    **dict.fromkeys(_MATRICES.split(), _batch_dimensions),
    **dict.fromkeys(
        ("scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max"), _first_operand
    ),
}


def propagate_op(use: Use) -> list[Split]:
    """The shardings of the results of an op without bodies."""
    return _RULES.get(use.name, _same_dimensions)(use)


# ----------------------------------------------------------------------------------------- programs


def propagate(
    body: Body,
    splits: Sequence[Split],
    sizes: Mapping[str, int],
    findings: list[Inspected] | None = None,
) -> list[Split]:
    """The shardings of the results of a body without calls, given those of its arguments."""
    split_of: dict[ir.Value, Split] = dict(zip(body.arguments, splits, strict=True))
    reported: list[Inspected] = [] if findings is None else findings
    for op in body.operations:
        operands = operands_of(op)
        incoming = [split_of[v] for v in operands]
        results = results_of(op)
        outgoing = _of_operation(op, operands, results, incoming, sizes, reported)
        split_of.update(zip(results, outgoing, strict=True))
    return [split_of[v] for v in body.results]


def _of_operation(
    op: ir.Operation,
    operands: Sequence[ir.Value],
    results: Sequence[ir.Value],
    incoming: Sequence[Split],
    sizes: Mapping[str, int],
    findings: list[Inspected],
) -> list[Split]:
    definition = lookup(op)
    name = op.name.removeprefix("gnomon.")
    params = params_of(op, definition)
    shapes = [type_of(v).shape for v in results]
    if name in _STRUCTURED:
        return _STRUCTURED[name](params, bodies_of(op), incoming, shapes, sizes, findings)
    if definition.is_control_flow:
        (first, *_) = bodies_of(op)
        if len(first.arguments) == len(incoming):
            return propagate(first, incoming, sizes, findings)
        return [unsplit(shape) for shape in shapes]
    of_operands = [type_of(v).shape for v in operands]
    use = Use(name, params, of_operands, shapes, incoming, sizes, findings)
    return propagate_op(use)


def joined(first: Split, second: Split) -> Split:
    """The first of two shardings; the second splits the dimensions that the first leaves whole."""
    used = {axis for axes in first for axis in axes}
    united = []
    for first_axes, second_axes in zip(first, second, strict=True):
        axes = first_axes or (second_axes if used.isdisjoint(second_axes) else ())
        united.append(axes)
        used.update(axes)
    return tuple(united)


def _stable(
    step: Callable[[list[Split]], list[Split]], carry: list[Split]
) -> tuple[list[Split], list[Split]]:
    """The fixed point of the shardings of a loop's carries, and the results of the last step."""
    while True:
        results = step(carry)
        grown = [joined(old, leaving) for old, leaving in zip(carry, results, strict=False)]
        if grown == carry:
            return carry, results
        carry = grown


def _scan(
    params: Mapping[str, Any],
    bodies: Sequence[Body],
    incoming: Sequence[Split],
    shapes: Sequence[Shape],
    sizes: Mapping[str, int],
    findings: list[Inspected],
) -> list[Split]:
    consts, count = params["consts"], params["carry"]
    fixed, slices = list(incoming[:consts]), [split[1:] for split in incoming[consts + count :]]

    def step(carry: list[Split]) -> list[Split]:
        return propagate(bodies[0], [*fixed, *carry, *slices], sizes)

    carry, results = _stable(step, list(incoming[consts : consts + count]))
    propagate(bodies[0], [*fixed, *carry, *slices], sizes, findings)
    return [*carry, *(((), *split) for split in results[count:])]


def _while(
    params: Mapping[str, Any],
    bodies: Sequence[Body],
    incoming: Sequence[Split],
    shapes: Sequence[Shape],
    sizes: Mapping[str, int],
    findings: list[Inspected],
) -> list[Split]:
    start = params["cond_consts"]
    first = start + params["body_consts"]
    fixed = list(incoming[start:first])

    def step(carry: list[Split]) -> list[Split]:
        return propagate(bodies[1], [*fixed, *carry], sizes)

    carry, _ = _stable(step, list(incoming[first:]))
    propagate(bodies[1], [*fixed, *carry], sizes, findings)
    return carry


def _switch(
    params: Mapping[str, Any],
    bodies: Sequence[Body],
    incoming: Sequence[Split],
    shapes: Sequence[Shape],
    sizes: Mapping[str, int],
    findings: list[Inspected],
) -> list[Split]:
    united = None
    for body in bodies:
        results = propagate(body, incoming[1:], sizes, findings)
        united = results if united is None else list(map(joined, united, results))
    return united or []


_STRUCTURED: dict[str, Callable[..., list[Split]]] = {
    "scan": _scan,
    "while": _while,
    "switch": _switch,
}
