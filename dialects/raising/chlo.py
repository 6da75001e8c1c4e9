"""CHLO's ops that are not elementwise."""

from __future__ import annotations

from gnomon.dialects.body import Body
from gnomon.dialects.emit import move_dim, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.source import RaiseError, Source, raises
from gnomon.dialects.types import tensor_type, type_of


@raises("chlo.top_k")
def top_k(source: Source) -> list[ir.Value]:
    """The largest elements along the last dimension, as many as the results have."""
    x, k = source.operand, source.result_types[0].shape[-1]
    results: list[ir.Value] = ops.top_k(x, k=k, axis=type_of(x).rank - 1)
    return results


@raises("chlo.scan")
def _scan(source: Source) -> list[ir.Value]:
    """A function of slices and carries, along a dimension of the inputs."""
    region, dimension = source.region, source.integer("dimension")
    carries = len(region.results) - _stacked_count(source)
    inputs = source.operands[: len(source.operands) - carries]
    carry = source.operands[len(inputs) :]
    if not inputs:
        raise RaiseError("a scan without inputs has no length")
    moved = [move_dim(x, dimension, 0) for x in inputs]
    captured, inner = region.captured, region.close()
    count = len(captured)
    types = [type_of(v) for v in (*captured, *carry)]
    rows = [type_of(x).with_shape(type_of(x).shape[1:]) for x in moved]

    def step(*arguments: ir.Value) -> list[ir.Value]:
        constants, state = arguments[:count], arguments[count : count + carries]
        made = inner.inline([*constants, *arguments[count + carries :], *state])
        stacked = len(made) - carries
        return [*made[stacked:], *made[:stacked]]

    values = ops.scan(
        *captured,
        *carry,
        *moved,
        consts=count,
        carry=carries,
        length=type_of(moved[0]).shape[0],
        reverse=source.flag("is_reverse"),
        unroll=1,
        bodies=[Body.build([*types, *rows], step)],
    )
    return [*(move_dim(v, 0, dimension) for v in values[carries:]), *values[:carries]]


def _stacked_count(source: Source) -> int:
    """The number of results that are stacked: those of a higher rank than the region's."""
    pairs = zip(source.result_types, source.region.results, strict=True)
    return sum(t.rank > tensor_type(r.type).rank for t, r in pairs)
