"""Functions of CHLO that an exporter has expanded, found again in a program of StableHLO.

JAX's portable artifacts have no CHLO: ``erfc``, ``lgamma``, ``digamma`` and ``erf_inv`` are written
as about a hundred operations, selections among approximations that overflow where they are not
selected. Their derivatives are therefore nan. The expansion comes from a pass of upstream, so the
pass is run here as well, and its result is compared with the program.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from gnomon.dialects.mlir import context, ir, passmanager

__all__ = ["Expansions", "known_function"]

_NAMES = ("erfc", "lgamma", "digamma", "erf_inv", "erf", "bessel_i1e", "asinh", "atanh", "acosh")
_TYPES = ("f32", "f64")
# Functions of JAX 0.12 and later, the op of the gnomon dialect that each computes, and a function
# that it calls. They take numbers apart by their bits, so their derivatives would be 0.
_FUNCTIONS = {"lgamma_impl": ("lgamma", "_lgamma_pos_small")}
_NUMBER = re.compile(r"_\d+$")
_PASS = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
# Attributes that printers and versions of StableHLO add or leave out.
_IGNORED = frozenset({"compare_type", "result_accuracy"})


class _Expansion(NamedTuple):
    """An expanded function.

    Attributes:
      name: the name of the function.
      argument: its argument.
      root: the operation that computes its result.
      module: keeps the operations alive.
    """

    name: str
    argument: ir.Value
    root: ir.Operation
    module: ir.Module


@functools.lru_cache(maxsize=1024)
def _expanded(name: str, type_: str) -> _Expansion:
    text = (
        f"func.func @main(%x: {type_}) -> {type_} {{ %0 = chlo.{name} %x : {type_} -> {type_}\n"
        f"return %0 : {type_} }}"
    )
    module = ir.Module.parse(text, context())
    passmanager.PassManager.parse(_PASS, context()).run(module.operation)
    block = module.body.operations[0].operation.regions[0].blocks[0]
    (result,) = block.operations[len(block.operations) - 1].operation.operands
    return _Expansion(name, block.arguments[0], result.owner.operation, module)


def _constants(module: ir.Module) -> frozenset[str]:
    """The values of all splat constants, as text."""
    found: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "stablehlo.constant":
            type_ = ir.RankedTensorType(op.results[0].type).element_type
            if isinstance(type_, (ir.F32Type, ir.F64Type)):
                elements = ir.DenseElementsAttr(op.attributes["value"])
                if elements.is_splat:
                    found.add(f"{elements.get_splat_value()}")
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return frozenset(found)


@functools.cache
def _constants_of(name: str, element: str) -> frozenset[str]:
    return _constants(_expanded(name, f"tensor<{element}>").module)


def known_function(name: str, block: ir.Block) -> str | None:
    """The op that a function of the source computes, if JAX wrote it.

    Args:
      name: the name of the function; JAX adds a number to names that occur twice.
      block: its body.
    """
    op, callee = _FUNCTIONS.get(_NUMBER.sub("", name), ("", ""))
    called = (
        _NUMBER.sub("", str(ir.FlatSymbolRefAttr(view.operation.attributes["callee"]).value))
        for view in block.operations
        if view.operation.name == "func.call"
    )
    return op if op and len(block.arguments) == 1 and callee in called else None


class Expansions:
    """Finds expanded functions in a module.

    Args:
      module: the module.
    """

    def __init__(self, module: ir.Module) -> None:
        given = _constants(module)
        # The functions whose constants are all there.
        self._candidates = {
            element: [n for n in _NAMES if _constants_of(n, element) <= given] for element in _TYPES
        }

    def match(self, op: ir.Operation) -> tuple[str, ir.Value] | None:
        """The name of the function that an operation computes, and its argument."""
        if len(op.results) != 1 or not any(self._candidates.values()):
            return None
        type_ = op.results[0].type
        if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
            return None
        for name in self._candidates.get(str(type_.element_type), ()):
            if _expanded(name, f"tensor<{type_.element_type}>").root.name != op.name:
                continue
            argument = _Comparison(_expanded(name, str(type_))).argument_of(op)
            if argument is not None:
                return name, argument
        return None


class _Comparison:
    """A comparison of an expansion with operations of a program."""

    def __init__(self, expansion: _Expansion) -> None:
        self._expansion = expansion
        self._argument: ir.Value | None = None
        self._same: set[tuple[ir.Value, ir.Value]] = set()

    def argument_of(self, op: ir.Operation) -> ir.Value | None:
        """The argument of the function whose result an operation computes."""
        pending: list[tuple[ir.Value, ir.Value]] = [
            (self._expansion.root.results[0], op.results[0])
        ]
        while pending:
            pair = pending.pop()
            if pair in self._same:
                continue
            self._same.add(pair)
            operands = self._step(*pair)
            if operands is None:
                return None
            pending += operands
        return self._argument

    def _step(
        self, expected: ir.Value, given: ir.Value
    ) -> Sequence[tuple[ir.Value, ir.Value]] | None:
        """The pairs of operands that must agree too; None if the values differ."""
        if expected == self._expansion.argument:
            if self._argument not in (None, given):
                return None
            self._argument = given
            return []
        if isinstance(given.owner, ir.Block) or expected.type != given.type:
            return None
        first, second = expected.owner.operation, given.owner.operation
        if first.name != second.name or len(first.operands) != len(second.operands):
            return None
        if _attributes(first) != _attributes(second) or len(first.regions):
            return None
        return list(zip(first.operands, second.operands, strict=True))


def _attributes(op: ir.Operation) -> dict[str, ir.Attribute]:
    return {name: op.attributes[name] for name in op.attributes if name not in _IGNORED}
