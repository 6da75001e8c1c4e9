"""Custom calls of JAX and of gnomon. A call is raised by its target's name.

The functions of libraries for linear algebra are in `library_calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.emit import constant_value, ops
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.library_calls import library_routine
from gnomon.dialects.raising.linear_algebra import rng_bit_generator
from gnomon.dialects.raising.sized import literal
from gnomon.dialects.raising.source import RaiseError, Region, Source, raises
from gnomon.dialects.raising.windowed import reduce_window
from gnomon.dialects.sorting import take_along
from gnomon.dialects.types import type_of

Rule: TypeAlias = "Callable[[Source], Sequence[ir.Value]]"

_TARGETS: dict[str, Rule] = {}

# Annotations for a compiler: the value is the operand.
_IDENTITIES = (
    "Sharding",
    "annotate_device_placement",
    "LayoutConstraint",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.ShardingGroup",
)
_ELEMENTWISE = {
    "mhlo.acos": "acos",
    "mhlo.acosh": "acosh",
    "mhlo.asin": "asin",
    "mhlo.asinh": "asinh",
    "mhlo.atan": "atan",
    "mhlo.atanh": "atanh",
    "mhlo.cosh": "cosh",
    "mhlo.erf": "erf",
    "mhlo.sinh": "sinh",
    "mhlo.tan": "tan",
}


def _target(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        _TARGETS.update(dict.fromkeys(names, rule))
        return rule

    return register


@raises("custom_call")
def _custom_call(source: Source) -> Sequence[ir.Value]:
    name = source.word("call_target_name")
    if name in _IDENTITIES:
        return source.operands
    if name in _ELEMENTWISE:
        results: list[ir.Value] = getattr(ops, _ELEMENTWISE[name]).build(source.operands, {})
        return results
    own = REGISTRY.get(name)
    if own is not None and own.lower is on_host:
        return own.build(source.operands, own.decode(source.attribute("backend_config")))
    rule = _TARGETS.get(name) or library_routine(name)
    if rule is None:
        raise RaiseError(f"the call of {name!r} has no counterpart in the gnomon dialect")
    return rule(source)


@_target("shape_assertion")
def _shape_assertion(source: Source) -> list[ir.Value]:
    """A condition on sizes, which are known."""
    holds = constant_value(source.operands[0])
    if holds is None:
        raise RaiseError("an assertion of sizes depends on values that are not known")
    if not holds.all():
        sizes = [constant_value(x) for x in source.operands[1:]]
        message = source.word("error_message", "an assertion of sizes does not hold")
        for number, size in enumerate(sizes):
            message = message.replace(f"{{{number}}}", "?" if size is None else str(int(size)))
        raise RaiseError(message)
    return []


@_target("mhlo.topk", "TopK", "stablehlo.dynamic_top_k")
def _top_k(source: Source) -> list[ir.Value]:
    options = source.options
    if "largest" in options and not ir.BoolAttr(options["largest"]).value:
        raise RaiseError("the smallest elements are not selected; negate the operand")
    (x,) = source.operands[:1]
    rank = type_of(x).rank
    results: list[ir.Value] = ops.top_k(x, k=source.result_types[0].shape[-1], axis=rank - 1)
    return results


@_target("ApproxTopK", "stablehlo.dynamic_approx_top_k")
def _approximate_top_k(source: Source) -> list[ir.Value]:
    """The exact elements: the recall that is asked for is a lower bound."""
    options = source.options
    axis = int(ir.IntegerAttr(options["reduction_dim"]).value)
    if "top_k" in options:
        k = int(ir.IntegerAttr(options["top_k"]).value)
    else:
        (k,) = literal(source.operands[4], "number of elements")
    x, labels = source.operands[:2]
    if source.result_types[0].shape[axis] != k:
        raise RaiseError("its results are not aggregated to k elements")
    direction = _direction(_computation(source))
    if direction is None:
        raise RaiseError("its comparator is not one comparison (GT or LT) of its first arguments")
    if direction == "GT":
        values, positions = ops.top_k(x, k=k, axis=axis)
    else:
        values, positions = ops.top_k(ops.neg(x), k=k, axis=axis)
        values = ops.neg(values)
    return [values, take_along(labels, positions, axis, unique=True)]


def _computation(source: Source) -> Region:
    """The only function that a call names."""
    (name,) = source.attribute("called_computations")
    return source.engine.function(str(ir.FlatSymbolRefAttr(name).value))


def _direction(comparator: Region) -> str | None:
    operations = comparator.operations
    if len(operations) != 1 or operations[0].name != "stablehlo.compare":
        return None
    (operation,) = operations
    if list(operation.operands) != list(comparator.block.arguments)[:2]:
        return None
    direction = str(operation.attributes["comparison_direction"]).rpartition(" ")[2].rstrip(">")
    return direction if direction in ("GT", "LT") else None


@_target("cu_threefry2x32", "cu_threefry2x32_ffi", "cuda_threefry2x32", "hip_threefry2x32_ffi")
def _threefry(source: Source) -> list[ir.Value]:
    k0, k1, x0, x1 = source.operands[:4]
    words: list[ir.Value] = ops.threefry2x32(k0, k1, x0, x1)
    return words


@_target("cu_lu_pivots_to_permutation", "hip_lu_pivots_to_permutation")
def _pivots_to_permutation(source: Source) -> list[ir.Value]:
    size = source.type.shape[-1]
    return [ops.lu_pivots_to_permutation(source.operand, size=size)]


_target("stablehlo.dynamic_rng_bit_generator")(rng_bit_generator)


@_target("stablehlo.dynamic_reduce_window")
def _dynamic_reduce_window(source: Source) -> list[ir.Value]:
    sizes, strides, base, dilation, padding = (literal(v, "windows") for v in source.operands[-5:])
    window = {
        "window_dimensions": sizes,
        "window_strides": strides,
        "base_dilation": base,
        "window_dilation": dilation,
        "padding_low": padding[::2],
        "padding_high": padding[1::2],
    }
    return reduce_window(source, _computation(source), window)
