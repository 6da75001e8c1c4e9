"""``lower-to-stablehlo``: replace every op by its StableHLO form, the facet ``lower``."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.dialects.body import Body, results_of
from gnomon.dialects.contract import ENGINE, Verdict, instance_of, lookup
from gnomon.dialects.functions import Program, callee, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import mlir_type


class LoweringError(TypeError):
    """An op has no StableHLO form; the message names the op and the line."""


class Lowering:
    """Lowers bodies; the ``engine`` of the ``lower`` rules."""

    def fill(self, region: ir.Region, body: Body, captured: Sequence[ir.Value] = ()) -> ir.Block:
        """Lower a body into an empty region.

        Args:
          region: an empty region, which receives one block.
          body: the body to lower.
          captured: values for the first arguments; the others become block arguments.
        """
        types = [mlir_type(t) for t in body.argument_types[len(captured) :]]
        block = region.blocks.append(*types)
        with ir.InsertionPoint(block):
            results = self.emit(body, [*captured, *block.arguments])
            ir.Operation.create("stablehlo.return", operands=results)
        return block

    def emit(self, body: Body, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Lower a body at the current insertion point; return its results."""
        from_gnomon = dict(zip(body.arguments, operands, strict=True))
        for op in body.operations:
            definition = lookup(op)
            inst = instance_of(op, None, self)
            inst.operands = [from_gnomon[v] for v in inst.operands]
            with op.location:
                if definition.lower is ENGINE:
                    results = self._call(op, inst.operands)
                elif isinstance(definition.lower, Verdict):
                    reason = definition.lower.value
                    raise LoweringError(f"{op.name} cannot be lowered: {reason} ({op.location})")
                else:
                    results = definition.lower(inst)
            if isinstance(results, ir.Value):
                results = [results]
            from_gnomon.update(zip(results_of(op), results, strict=True))
        return [from_gnomon[r] for r in body.results]

    def _call(self, op: ir.Operation, operands: Sequence[ir.Value]) -> list[ir.Value]:
        created = ir.Operation.create(
            "func.call",
            results=[r.type for r in op.results],
            operands=list(operands),
            attributes={"callee": ir.FlatSymbolRefAttr.get(callee(op))},
        )
        return list(created.results)


def lower_to_stablehlo(program: Program) -> None:
    """Lower every function of a program in place."""
    lowering = Lowering()
    for function in program.functions:
        body = program.body(symbol_name(function))
        with function.location:
            holder = ir.Operation.create("gnomon.branch", regions=1, ip=False)
            types = [mlir_type(t) for t in body.argument_types]
            block = holder.regions[0].blocks.append(*types)
            with ir.InsertionPoint(block):
                results = lowering.emit(body, list(block.arguments))
                ir.Operation.create("func.return", operands=results)
        replacement = ir.Operation.create(
            "func.func",
            attributes={name: function.attributes[name] for name in function.attributes},
            regions=1,
            loc=function.location,
            ip=ir.InsertionPoint(function),
        )
        block.append_to(replacement.regions[0])
        function.erase()


__all__ = ["Lowering", "LoweringError", "lower_to_stablehlo"]
