"""Programs of StableHLO with sizes that are not known: refined for given arguments.

The type ``tensor<?x32xf32>`` leaves a size open. Once the types of the arguments are known, passes
of upstream infer all other types, and evaluate what the program computes from sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from gnomon.dialects.attributes import DENSE, constant_elements
from gnomon.dialects.mlir import context, ir, passmanager
from gnomon.dialects.raising import RaiseError
from gnomon.dialects.types import TensorType, mlir_type, tensor_type
from gnomon.dialects.window_folds import window_shape

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
    _run(module, (f"stablehlo-refine-arguments{{types={','.join(map(str, types))}}}", *_PASSES))
    while _refine_calls(module):
        for function in module.body.operations:
            if function.operation.name == "func.func":
                _set_function_type(function.operation)
        _run(module, _PASSES)


def _run(module: ir.Module, steps: Sequence[str]) -> None:
    for step in steps:
        try:
            manager = passmanager.PassManager.parse(f"builtin.module({step})", context())
            manager.run(module.operation)
        except ir.MLIRError as error:
            reason = str(error).split("error: ", 1)[-1].split("\n")[0]
            raise RaiseError(
                f"the program does not take arguments of these types: {reason}"
            ) from error


def _set_function_type(function: ir.Operation) -> None:
    """Declare the types that a function takes and returns."""
    block = function.regions[0].blocks[0]
    returned = block.operations[len(block.operations) - 1].operation.operands
    type_ = ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in returned])
    function.attributes["function_type"] = ir.TypeAttr.get(type_)


def _refine_calls(module: ir.Module) -> bool:
    """Set the result types of JAX's calls of dynamic ops; upstream's passes do not know them.

    Returns:
      Whether a type changed.
    """
    changed = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal changed
        if op.name == "stablehlo.custom_call":
            shapes = _SHAPES.get(ir.StringAttr(op.attributes["call_target_name"]).value)
            dynamic = [r for r in op.results if not ir.RankedTensorType(r.type).has_static_shape]
            if shapes is not None and dynamic:
                for result, shape in zip(op.results, shapes(op) or (), strict=False):
                    element = ir.RankedTensorType(result.type).element_type
                    result.set_type(ir.RankedTensorType.get(shape, element, loc=op.location))
                    changed = changed or result in dynamic
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return changed


def _literal_numbers(value: ir.Value) -> tuple[int, ...] | None:
    """The numbers of a literal of the source; None for another value."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.constant":
        return None
    return tuple(int(n) for n in constant_elements(owner.operation).reshape(-1))


def _shape_of(value: ir.Value) -> tuple[int, ...] | None:
    type_ = ir.RankedTensorType(value.type)
    return tuple(type_.shape) if type_.has_static_shape else None


_Shapes: TypeAlias = "Sequence[tuple[int, ...]] | None"


def _top_k_shapes(op: ir.Operation) -> _Shapes:
    x, k = op.operands
    shape, count = _shape_of(x), _literal_numbers(k)
    return None if shape is None or count is None else [(*shape[:-1], *count)] * 2


def _generator_shapes(op: ir.Operation) -> _Shapes:
    state, sizes = op.operands
    key, shape = _shape_of(state), _literal_numbers(sizes)
    return None if key is None or shape is None else [key, shape]


def _window_shapes(op: ir.Operation) -> _Shapes:
    *operands, sizes, strides, base, window, padding = op.operands
    shape = _shape_of(operands[0])
    numbers = [_literal_numbers(v) for v in (sizes, strides, base, window, padding)]
    known = [n for n in numbers if n is not None]
    if shape is None or len(known) < len(numbers):
        return None
    *dims, pads = known
    names = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")
    low, high = pads[::2], pads[1::2]
    made = window_shape(
        shape, **dict(zip(names, dims, strict=True)), padding_low=low, padding_high=high
    )
    return [made] * len(op.results)


# By the targets of custom calls.
_SHAPES: dict[str, Callable[[ir.Operation], _Shapes]] = {
    "stablehlo.dynamic_reduce_window": _window_shapes,
    "stablehlo.dynamic_rng_bit_generator": _generator_shapes,
    "stablehlo.dynamic_top_k": _top_k_shapes,
}


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
