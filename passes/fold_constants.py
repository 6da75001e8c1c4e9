"""``fold-constants``: compute at once what is computed of small literals alone.

Derivatives are full of it: the cotangent 1, divided by the number of elements of a mean. A compiler
makes a kernel of such an expression, which costs as much time to compile as any other.
"""

from __future__ import annotations

import numpy as np

from gnomon.dialects.body import PLAIN, Body, erase, operands_of, results_of
from gnomon.dialects.combinators import batch_elementwise
from gnomon.dialects.contract import REGISTRY, bodies_of, params_of
from gnomon.dialects.emit import constant
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import type_of

# Literals up to this many elements are small.
_SMALL = 4
_ALSO = ("gnomon.reshape", "gnomon.broadcast_in_dim")


def fold_constants(program: Program) -> None:
    """Fold the small constants of a program in place."""
    for function in program.functions:
        _fold(program.body(symbol_name(function)))


def _fold(body: Body) -> None:
    known: dict[ir.Value, np.ndarray] = {}
    for op in body.operations:
        name = op.name
        definition = REGISTRY.get(name)
        if definition is None:
            continue
        if name not in PLAIN:
            for inner in bodies_of(op) if definition.is_control_flow else ():
                _fold(inner)
            continue
        if name == "gnomon.constant":
            (result,) = op.results
            if type_of(result).size <= _SMALL:
                known[result] = definition.evaluate(**params_of(op, definition))  # type: ignore[operator]
            continue
        operands = operands_of(op)
        if not operands or any(x not in known for x in operands):
            continue
        if definition.batch is not batch_elementwise and name not in _ALSO:
            continue
        results = results_of(op)
        if len(results) != 1 or type_of(results[0]).size > _SMALL:
            continue
        with np.errstate(all="ignore"):
            value = definition.evaluate(  # type: ignore[operator]
                *(known[x] for x in operands), **params_of(op, definition)
            )
        with ir.InsertionPoint(op), op.location:
            folded = constant(np.asarray(value, type_of(results[0]).dtype))
        known[folded] = value
        results[0].replace_all_uses_with(folded)
        erase(op)


__all__ = ["fold_constants"]
