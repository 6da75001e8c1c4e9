"""CHLO's ops that are not elementwise."""

from __future__ import annotations

from gnomon.dialects.emit import ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.source import Source, raises
from gnomon.dialects.types import type_of


@raises("chlo.top_k")
def _top_k(source: Source) -> list[ir.Value]:
    x = source.operand
    results: list[ir.Value] = ops.top_k(x, k=source.integer("k"), axis=type_of(x).rank - 1)
    return results
