"""Functions with symbolic dimensions in StableHLO: their checks of sizes, and their types.

The checks are custom calls of ``shape_assertion``, as in JAX's exported programs: a condition, and
the numbers that ``{0}``, ``{1}``, ... in the message stand for. Compilers evaluate them when sizes
are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gnomon.dialects.mlir import context, ir
from gnomon.dialects.sized_forms import SizeValues, compare
from gnomon.dialects.symbolic import polynomials as poly
from gnomon.dialects.symbolic.bounds import LARGEST
from gnomon.dialects.symbolic.dimension import Dimension
from gnomon.dialects.symbolic.encoding import is_symbolic_type, without_expressions
from gnomon.dialects.types import type_of

__all__ = ["SHAPE_ASSERTION", "drop_expressions", "emit_assertions", "has_symbolic_types"]

SHAPE_ASSERTION = "shape_assertion"
"""The target of the custom calls that check sizes."""


def has_symbolic_types(types: Sequence[ir.Type]) -> bool:
    """Whether any of the types has symbolic dimensions."""
    return any(map(is_symbolic_type, types))


def drop_expressions(function: ir.Operation) -> None:
    """Replace the types of a lowered function by types with ``?`` for symbolic dimensions."""

    def drop(value: ir.Value) -> None:
        if is_symbolic_type(value.type):
            value.set_type(without_expressions(value.type))

    def visit(op: ir.Operation) -> ir.WalkResult:
        for result in op.results:
            drop(result)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    drop(argument)
        if "function_type" in op.attributes:
            function_type = ir.TypeAttr(op.attributes["function_type"]).value
            op.attributes["function_type"] = ir.TypeAttr.get(
                without_expressions(function_type), context()
            )
        return ir.WalkResult.ADVANCE

    function.walk(visit)


def emit_assertions(sizes: SizeValues, arguments: Sequence[ir.Value]) -> None:
    """Check, at the current insertion point, that the sizes of arguments fit their types.

    Args:
      sizes: computes the sizes of the function.
      arguments: the function's arguments.
    """
    argument_shapes: list[tuple[Any, ...]] = [type_of(x).shape for x in arguments]
    dimensions = [
        (i, axis, size)
        for i, shape in enumerate(argument_shapes)
        for axis, size in enumerate(shape)
        if isinstance(size, Dimension)
    ]
    shapes = ", ".join(
        f"argument {i} has shape ({', '.join(map(str, shape))})"
        for i, shape in enumerate(argument_shapes)
        if any(i == j for j, _, _ in dimensions)
    )
    prefix = "Input shapes do not match the "
    specification, suffix = "polymorphic shapes specification. ", f". As exported, {shapes}"

    for name, step in sizes.steps.items():
        place = f"dimension {step.axis} of argument {step.argument}"
        value = sizes.variable(name, name)
        if step.factor != 1:
            scaled = ir.Operation.create(
                "stablehlo.multiply",
                results=[value.type],
                operands=[value, sizes.scalar(step.factor)],
            ).results[0]
            left = sizes.measured(step.argument, step.axis)
            if step.rest:
                left = ir.Operation.create(
                    "stablehlo.subtract",
                    results=[value.type],
                    operands=[left, sizes.polynomial(step.rest, name)],
                ).results[0]
            _assert(
                compare("EQ", scaled, left),
                [left],
                f"{prefix}{specification}{{0}} is not a multiple of {step.factor} in the value of "
                f"'{name}' from {place}, which is '{poly.text(step.dimension)}'{suffix}",
            )
        limits = [("GE", 1, ">= 1")]
        if step.rest:  # Otherwise the variable is at most the dimension, which has 32 bits.
            limits.append(("LE", LARGEST, f"<= {LARGEST}"))
        for direction, bound, text in limits:
            _assert(
                compare(direction, value, sizes.scalar(bound)),
                [value],
                f"{prefix}{specification}Expected value {text} for dimension variable '{name}', "
                f"got {{0}} from {place}{suffix}",
            )
    determining = {(step.argument, step.axis) for step in sizes.steps.values()}
    computed = sizes.of_variables()
    for i, axis, size in dimensions:
        if (i, axis) in determining:
            continue
        measured, expected = sizes.measured(i, axis), computed.polynomial(size.polynomial, size)
        _assert(
            compare("EQ", measured, expected),
            [measured, expected],
            f"{prefix}{specification}Found inconsistency between dimension {axis} of argument {i} "
            f"(= {{0}}) and the specification '{size}' (= {{1}}){suffix}",
        )
    if not dimensions:
        return
    scope = dimensions[0][2].scope
    for text, (relation, left_side, right_side) in zip(
        scope.constraints, scope.relations, strict=True
    ):
        if not (poly.variables(left_side) | poly.variables(right_side)) <= sizes.steps.keys():
            continue  # about variables in no argument
        left_value, right_value = (
            computed.polynomial(side, text) for side in (left_side, right_side)
        )
        direction = {"==": "EQ", ">=": "GE", "<=": "LE"}[relation]
        _assert(
            compare(direction, left_value, right_value),
            [left_value, right_value],
            f"{prefix}symbolic shape constraint {text}. The left side is {{0}}, the right side "
            f"{{1}}{suffix}",
        )


def _assert(condition: ir.Value, numbers: Sequence[ir.Value], message: str) -> None:
    i32 = ir.IntegerType.get_signless(32, context())
    narrow = [
        ir.Operation.create(
            "stablehlo.convert", results=[ir.RankedTensorType.get((), i32)], operands=[n]
        ).results[0]
        for n in numbers
    ]
    ir.Operation.create(
        "stablehlo.custom_call",
        operands=[condition, *narrow],
        attributes={
            "call_target_name": ir.StringAttr.get(SHAPE_ASSERTION, context()),
            "has_side_effect": ir.BoolAttr.get(True, context()),
            "api_version": ir.IntegerAttr.get(i32, 2),
            "error_message": ir.StringAttr.get(message, context()),
        },
    )
