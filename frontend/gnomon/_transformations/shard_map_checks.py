"""The checks of `shard_map`: that specs fit the mesh, the arguments and the results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from gnomon import tree_util
from gnomon._arrays.array import Array
from gnomon._sharding.axis_type import AxisType
from gnomon._sharding.mesh import AbstractMesh, Mesh
from gnomon._sharding.partition_spec import PartitionSpec, axes_of
from gnomon._tracing.function import Traced, name_of, positional_names

__all__ = ["check_arguments", "check_results", "check_specs", "check_sums"]


def check_specs(what: str, specs: Any, manual: frozenset[Any]) -> None:
    """Raise an error if specs are not `P`, or name axes that are not mapped over.

    Args:
      what: ``"in_specs"`` or ``"out_specs"``.
      specs: a pytree of specs.
      manual: the axes that are mapped over.
    Raises:
      TypeError: a spec is not a `P`.
      ValueError: a spec names another axis.
    """
    if what == "in_specs" and specs is None:
        return  # all arguments are passed to the function unchanged
    paths = tree_util.tree_flatten_with_path(specs)[0]
    wrong = [
        f"  {what}{tree_util.keystr(path)} is {spec!r} of type {type(spec).__name__}"
        for path, spec in paths
        if not isinstance(spec, PartitionSpec)
    ]
    if wrong:
        raise TypeError(
            f"shard_map {what} must be a pytree of gnomon.sharding.PartitionSpec, but\n"
            + "\n".join(wrong)
        )
    unknown = [
        f"  {what}{tree_util.keystr(path)} names {name!r}"
        for path, spec in paths
        for entry in (*spec.partitions, tuple(spec.unreduced), tuple(spec.reduced))
        for name in axes_of(entry)
        if name not in manual
    ]
    if unknown:
        raise ValueError(
            f"shard_map {what} must name axes that are mapped over, {sorted(map(str, manual))}, "
            "but\n" + "\n".join(unknown)
        )


def check_sums(
    what: str, specs: Sequence[PartitionSpec], mesh: Mesh | AbstractMesh, *, check_vma: bool
) -> None:
    """Raise ``ValueError`` if specs with unreduced or reduced axes are not possible."""
    kinds = set(mesh.axis_types)
    for spec in specs:
        if not (spec.unreduced or spec.reduced):
            continue
        if not check_vma:
            raise ValueError(
                f"shard_map {what}: {spec} has unreduced or reduced axes, which are tracked with "
                "check_vma=True only"
            )
        if not kinds <= {AxisType.Explicit, AxisType.Manual}:
            raise ValueError(
                f"shard_map {what}: {spec} has unreduced or reduced axes, so all axes of the mesh "
                f"must be of type Explicit, got {mesh}"
            )


def _parameter(fun: Callable[..., Any], position: int) -> str:
    """The parameter of a function that a positional argument is bound to, for messages."""
    names = positional_names(fun)
    return f", the argument {names[position]!r} of {name_of(fun)}," if position < len(names) else ""


def check_arguments(
    fun: Callable[..., Any],
    mesh: Mesh | AbstractMesh,
    tree: Any,
    dynamic: Sequence[int],
    operands: Sequence[Array],
    specs: Sequence[PartitionSpec],
) -> None:
    """Raise ``ValueError`` if specs do not fit the arguments.

    Args:
      fun, mesh: the function, and the mesh.
      tree: the structure of its arguments.
      dynamic: the positions of the leaves that have a spec.
      operands, specs: these leaves, and their specs.
    """
    paths = tree_util.tree_flatten_with_path(
        tree_util.tree_unflatten(tree, list(range(tree.num_leaves)))
    )[0]
    wrong = []
    for i, operand, spec in zip(dynamic, operands, specs, strict=True):
        path = paths[i][0]
        where = f"  args{tree_util.keystr(path)}{_parameter(fun, path[0].idx)} is {operand.aval}"
        if len(spec) > operand.ndim:
            wrong.append(
                f"{where}, of rank {operand.ndim}, and its spec {spec} has {len(spec)} entries"
                + ("; give P() for a scalar" if operand.ndim == 0 else "")
            )
            continue
        if (operand.aval.unreduced, operand.aval.reduced) != (spec.unreduced, spec.reduced):
            wrong.append(
                f"{where}, and its spec is {spec}; both must have the same unreduced and reduced "
                "axes. Change the argument with gnomon.sharding.reshard"
            )
        for d, entry in enumerate(spec.partitions):
            parts = math.prod(mesh.shape[name] for name in axes_of(entry))
            if operand.shape[d] % parts:
                wrong.append(
                    f"{where}, and its spec {spec} splits dimension {d}, of size "
                    f"{operand.shape[d]}, into {parts} parts, which does not evenly divide it"
                )
    if wrong:
        raise ValueError(
            f"shard_map of {name_of(fun)} over the mesh {dict(mesh.shape)}: in_specs do not fit "
            "the arguments:\n" + "\n".join(wrong)
        )


def check_results(
    what: str,
    fun: Callable[..., Any],
    traced: Traced,
    specs: Sequence[PartitionSpec],
    manual: Sequence[str],
) -> None:
    """Raise ``ValueError`` if specs do not fit the results.

    Args:
      what, fun: the transformation, and the function.
      traced: the function on shards.
      specs: the specs of its results.
      manual: the axes that are mapped over.
    """
    example = tree_util.tree_unflatten(traced.tree, list(range(len(traced.avals))))
    paths = tree_util.tree_flatten_with_path(example)[0]
    wrong = []
    for (path, _), aval, spec in zip(paths, traced.avals, specs, strict=True):
        where = f"  the result{tree_util.keystr(path)} is {aval}"
        if len(spec) > aval.ndim:
            wrong.append(
                f"{where}, of rank {aval.ndim}, and its spec {spec} has {len(spec)} entries"
                + (
                    "; a scalar that differs between devices needs a dimension, to be concatenated "
                    "along"
                    if aval.ndim == 0
                    else ""
                )
            )
            continue
        mentioned = {str(name) for entry in spec.partitions for name in axes_of(entry)}
        varying = [name for name in manual if name in aval.vma and name not in mentioned]
        if (aval.unreduced, aval.reduced) != (spec.unreduced, spec.reduced):
            wrong.append(f"{where}, and its spec {spec} has other unreduced or reduced axes")
        elif varying:
            wrong.append(
                f"{where}, which may vary over {varying}, and its spec {spec} says that it is the "
                "same along them"
            )
    if wrong:
        raise ValueError(
            f"{what} of {name_of(fun)}: out_specs do not fit the results:\n"
            + "\n".join(wrong)
            + "\nMention each axis along which a result differs in its spec, or reduce the result "
            "over it (gnomon.lax.psum). If a result is the same though its type does not say so, "
            "give check_vma=False."
        )
