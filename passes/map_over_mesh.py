"""The expansion of ``gnomon.shard_map``: a function on shards becomes one on whole values.

Each manual axis of the mesh becomes a batch dimension, the last axis of the mesh first, so that the
batch dimensions of a value are in the order of the mesh. An operand is split into its shards along
the axes that its spec mentions. It has no batch dimensions for the other axes, and neither do
values that depend only on such operands. The batching rules of collectives replace them by
reductions and movements along the batch dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gnomon.dialects.body import Body
from gnomon.dialects.contract import MappedAxis
from gnomon.dialects.emit import reshape, slice_along
from gnomon.dialects.mlir import ir
from gnomon.dialects.shard_map import partitions
from gnomon.dialects.types import type_of
from gnomon.passes.vectorize import Vectorizer


def map_over_mesh(vectorizer: Vectorizer, body: Body, params: dict[str, Any]) -> Body:
    """A body on whole values that runs a body on shards for each member of a mesh.

    Args:
      vectorizer: the vectorizer of the program.
      body: the callee of the op; it is not changed.
      params: the parameters of the op.
    Raises:
      ValueError: the op checks varying axes, and a result differs between the members of an axis
        that its spec does not mention.
    """
    entering = partitions(params["in_specs"], params["mesh_axes"], params["mesh_sizes"])
    returned = partitions(params["out_specs"], params["mesh_axes"], params["mesh_sizes"])
    mapped = body
    for name, size in reversed(list(zip(params["mesh_axes"], params["mesh_sizes"], strict=True))):
        if name not in params["manual_axes"]:
            continue
        split = [name in p.axes for p in entering]
        returned_split = [name in p.axes for p in returned]
        axis = MappedAxis(size, name, of_devices=True)
        mapped, varying = vectorizer.batch(mapped, split, axis, force=returned_split)
        extra = [v and not k for v, k in zip(varying, returned_split, strict=True)]
        if any(extra) and params["check_vma"]:
            raise ValueError(
                f"shard_map: result {extra.index(True)} may differ between the members of axis "
                f"{name!r}, which its spec in out_specs does not mention; mention the axis, or "
                "reduce the result over it"
            )
        mapped = _first_members(mapped, extra)

    types = [p.whole(t) for p, t in zip(entering, body.argument_types, strict=True)]

    def emit(*arguments: ir.Value) -> list[ir.Value]:
        shards = [p.split(x) for p, x in zip(entering, arguments, strict=True)]
        results = mapped.inline(shards)
        return [p.join(r) for p, r in zip(returned, results, strict=True)]

    return Body.build(types, emit)


def _first_members(body: Body, mask: Sequence[bool]) -> Body:
    """A body that returns only the first member's value of each result in the mask."""
    if not any(mask):
        return body

    def first(x: ir.Value) -> ir.Value:
        return reshape(slice_along(x, 0, 0, 1), type_of(x).shape[1:])

    def emit(*arguments: ir.Value) -> list[ir.Value]:
        results = body.inline(arguments)
        return [first(r) if m else r for r, m in zip(results, mask, strict=True)]

    return Body.build(body.argument_types, emit)


__all__ = ["map_over_mesh"]
