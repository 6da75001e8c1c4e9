"""Programs of StableHLO with sizes that are not known: refined for given arguments.

The type ``tensor<?x32xf32>`` leaves a size open. Once the types of the arguments are known, passes
of upstream infer all other types, and evaluate what the program computes from sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gnomon.dialects.attributes import DENSE
from gnomon.dialects.mlir import context, ir, passmanager
from gnomon.dialects.raising import RaiseError
from gnomon.dialects.types import TensorType, mlir_type, tensor_type

__all__ = ["Argument", "is_sized", "parse_argument", "refine"]

_PASSES = ("inline", "stablehlo-refine-shapes", "func.func(stablehlo-canonicalize-dynamism)")


class Argument(NamedTuple):
    """What is known of an argument.

    Attributes:
      type: its type; None if it is the type that the program declares.
      value: the number, for an integer on which sizes may depend.
    """

    type: TensorType | None
    value: int | None = None

    def __str__(self) -> str:
        type_ = "" if self.type is None else str(mlir_type(self.type))
        return type_ if self.value is None else f"{type_}={self.value}"


def parse_argument(text: str) -> Argument:
    """Read the text of an `Argument`."""
    type_, equals, value = text.partition("=")
    known = tensor_type(ir.Type.parse(type_, context())) if type_ else None
    return Argument(known, int(value) if equals else None)


def is_sized(function: ir.Operation) -> bool:
    """Whether the types of a function's arguments have all sizes."""
    inputs = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs
    return all(t.has_static_shape for t in inputs if isinstance(t, ir.RankedTensorType))


def refine(module: ir.Module, main: ir.Operation, arguments: Sequence[Argument]) -> None:
    """Give the arguments of the public function their types, and infer the other types.

    Raises:
      RaiseError: the arguments do not fit, or the sizes contradict each other.
    """
    block = main.regions[0].blocks[0]
    types = _checked(list(block.arguments), arguments)
    with ir.InsertionPoint.at_block_begin(block), main.location:
        for parameter, argument in zip(block.arguments, arguments, strict=True):
            if argument.value is not None:
                literal = np.array(argument.value, tensor_type(parameter.type).dtype)
                known = ir.Operation.create(
                    "stablehlo.constant",
                    results=[parameter.type],
                    attributes={"value": DENSE.encode(literal)},
                )
                parameter.replace_all_uses_with(known.results[0])
    for step in (f"stablehlo-refine-arguments{{types={','.join(map(str, types))}}}", *_PASSES):
        try:
            manager = passmanager.PassManager.parse(f"builtin.module({step})", context())
            manager.run(module.operation)
        except ir.MLIRError as error:
            reason = str(error).split("error: ", 1)[-1].split("\n")[0]
            raise RaiseError(
                f"the program does not take arguments of these types: {reason}"
            ) from error


def _checked(parameters: Sequence[ir.Value], arguments: Sequence[Argument]) -> list[ir.Type]:
    """The types of the arguments, which must fit those that the program declares."""
    types = [None if a.type is None else mlir_type(a.type) for a in arguments]
    if len(types) == len(parameters):
        types = [p.type if t is None else t for p, t in zip(parameters, types, strict=True)]
        if all(_fits(p.type, t) for p, t in zip(parameters, types, strict=True)):
            return types
    given = ", ".join("a number" if t is None else str(t) for t in types) or "none"
    expected = ", ".join(str(p.type) for p in parameters) or "none"
    raise RaiseError(f"the program takes the arguments {expected}; given are {given}")


def _fits(declared: ir.Type, given: ir.Type) -> bool:
    if not (isinstance(declared, ir.RankedTensorType) and isinstance(given, ir.RankedTensorType)):
        return False
    if declared.rank != given.rank or declared.element_type != given.element_type:
        return False
    return given.has_static_shape and all(
        declared.is_dynamic_dim(d) or declared.get_dim_size(d) == n
        for d, n in enumerate(given.shape)
    )
