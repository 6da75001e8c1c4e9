"""Calls of Python functions: ``gnomon.pure_callback``, ``io_callback``, ``debug_callback``.

A program refers to a callback by number, because its text cannot hold a Python object. The owner
of the program (a `functions.Program`, an executable) keeps the `Callback` alive; once the last
owner is gone, the number is no longer valid.

The three differ in what passes may do with them. A pure callback is like any other op: passes may
drop it when it is unused, merge it, or repeat it. The other two have effects.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import BOOL, INT, STRING, TYPES
from gnomon.dialects.body import Body
from gnomon.dialects.combinators import Tangents, Values, require, to_front
from gnomon.dialects.contract import EXPANDED, NOT_LINEAR, ZERO_TANGENT, Instance, MappedAxis, Op
from gnomon.dialects.emit import at_dim, broadcast_new_dim, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType, type_of
from gnomon_runtime.booleans import zero_or_one

VMAP_METHODS = (
    "sequential",
    "sequential_unrolled",
    "expand_dims",
    "broadcast_all",
    "legacy_vectorized",
)

_numbers = itertools.count()
_callbacks: weakref.WeakValueDictionary[int, Callback] = weakref.WeakValueDictionary()


class Callback:
    """A Python function that compiled programs call.

    Attributes:
      function: takes NumPy arrays, which it may keep, and returns a sequence of arrays.
      number: identifies the callback in programs, within this process.
    """

    __slots__ = ("__weakref__", "_derived", "function", "number")

    def __init__(self, function: Callable[..., Sequence[Any]]) -> None:
        self.function = function
        self.number = next(_numbers)
        self._derived: dict[Any, Callback] = {}
        _callbacks[self.number] = self

    def derived(self, key: Any, function: Callable[..., Sequence[Any]]) -> Callback:
        """A callback of another function that lives as long as this one; one for each key."""
        found = self._derived.get(key)
        if found is None:
            found = self._derived[key] = Callback(function)
        return found

    def __repr__(self) -> str:
        return f"<callback {self.number}: {self.function!r}>"


def callback_of(number: int) -> Callback:
    """The callback with a given number.

    Raises:
      LookupError: the callback belongs to another process, or its last owner is gone.
    """
    try:
        return _callbacks[number]
    except KeyError:
        raise LookupError(
            f"callback {number} does not exist in this process: a program that calls Python "
            "functions runs only where it was traced"
        ) from None


def call_back(
    number: int, given: Sequence[TensorType], arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Call the callback with a given number.

    Args:
      number: the number of the callback.
      given: the types of the results that the program expects.
      arrays: the operands; the callback gets copies, because the program owns their memory.
    Returns:
      Copies of the results, because the function may write to their memory in a later call.

    Raises:
      RuntimeError: a result does not have the declared type.
    """
    results = callback_of(number).function(*(np.array(a) for a in arrays))
    values = [zero_or_one(np.array(r)) for r in results]
    if len(values) != len(given):
        raise RuntimeError(
            f"a callback returned {len(values)} arrays where {len(given)} were promised"
        )
    for i, (value, type_) in enumerate(zip(values, given, strict=True)):
        if value.shape != type_.shape:
            raise RuntimeError(
                f"Incorrect output shape for return value #{i} of a callback: "
                f"Expected: {type_.shape}, Actual: {value.shape}. Give the shape that the function "
                "returns in result_shape_dtypes"
            )
        if value.dtype != type_.dtype:
            raise RuntimeError(
                f"Incorrect output dtype for return value #{i} of a callback: "
                f"Expected: {type_.dtype}, Actual: {value.dtype}. Give the dtype that the function "
                "returns in result_shape_dtypes, or convert what it returns"
            )
    return values


# ------------------------------------------------------------------------------------------ facets


def _infer_pure(
    *types: TensorType, callback: int, given: tuple[TensorType, ...], vmap_method: str
) -> tuple[TensorType, ...]:
    require(
        vmap_method in ("", *VMAP_METHODS),
        "pure_callback",
        f"vmap_method must be one of {', '.join(VMAP_METHODS)}, got '{vmap_method}'",
    )
    return given


def _infer_io(
    *types: TensorType, callback: int, given: tuple[TensorType, ...], ordered: bool
) -> tuple[TensorType, ...]:
    return given


def _infer_debug(*types: TensorType, callback: int, ordered: bool) -> tuple[TensorType, ...]:
    return ()


def _evaluate(
    *arrays: np.ndarray, callback: int, given: tuple[TensorType, ...] = (), **params: Any
) -> list[np.ndarray]:
    return call_back(callback, given, arrays)


def _no_jvp(what: str) -> Callable[..., Any]:
    def jvp(inst: Instance, outs: Values, tangents: Tangents) -> Any:
        raise ValueError(
            f"{what} callbacks do not support JVP. Please use `gnomon.custom_jvp` to use callbacks "
            f"while taking gradients ({ir.Location.current})"
        )

    return jvp


def _sequentially(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    """Apply the op to the elements of the batch one after the other, in a scan."""
    unrolled = inst.params.get("vmap_method") == "sequential_unrolled"
    mapped = [d is not None for d in dims]
    front = to_front(operands, dims, axis, only_batched=True)
    consts = [v for v, m in zip(front, mapped, strict=True) if not m]
    xs = [v for v, m in zip(front, mapped, strict=True) if m]

    def emit(*arguments: ir.Value) -> list[ir.Value]:
        fixed, slices = iter(arguments[: len(consts)]), iter(arguments[len(consts) :])
        return inst.op.build([next(slices if m else fixed) for m in mapped], inst.params)

    types = [
        *map(type_of, consts),
        *(type_of(x).with_shape(type_of(x).shape[1:]) for x in xs),
    ]
    results = ops.scan.build(
        [*consts, *xs],
        {
            "consts": len(consts),
            "carry": 0,
            "length": axis.size,
            "reverse": False,
            "unroll": max(1, axis.size) if unrolled else 1,
        },
        [Body.build(types, emit)],
    )
    return results, [0] * len(results)


def _batch_pure(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    method = inst.params["vmap_method"]
    if axis.of_devices:
        return _sequentially(inst, operands, dims, axis)  # Each device calls the function.
    if not method:
        raise NotImplementedError(
            "vmap is only supported for the pure_callback primitive when vmap_method is one of "
            f"{', '.join(map(repr, VMAP_METHODS))}. Got vmap_method=None ({ir.Location.current})"
        )
    if method.startswith("sequential"):
        return _sequentially(inst, operands, dims, axis)

    def placed(x: ir.Value, dim: int | None) -> ir.Value:
        if dim is not None or method == "broadcast_all":
            return at_dim(x, dim, axis.size)
        return broadcast_new_dim(x, 1) if method == "expand_dims" else x

    given = tuple(t.with_shape((axis.size, *t.shape)) for t in inst.result_types)
    values = [placed(x, dim) for x, dim in zip(operands, dims, strict=True)]
    results = inst.op.build(values, {**inst.params, "given": given})
    return results, [0] * len(results)


def _batch_io(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    if inst.params["ordered"]:
        raise ValueError(
            "Cannot `vmap` ordered IO callback: the elements of a batch have no order among the "
            f"other effects of a program. Use ordered=False ({ir.Location.current})"
        )
    return _sequentially(inst, operands, dims, axis)


pure_callback = Op(
    name="pure_callback",
    doc="the results of a Python function without effects",
    example='%r = "gnomon.pure_callback"(%x) {callback = 0 : i64, given = [tensor<4xf32>], '
    'vmap_method = ""} : (tensor<4xf32>) -> tensor<4xf32>',
    attributes={"callback": INT, "given": TYPES, "vmap_method": STRING},
    results=None,
    form=Form.CALLBACK,
    work=work_rules.nothing,
    infer=_infer_pure,
    evaluate=_evaluate,
    jvp=_no_jvp("Pure"),
    transpose=NOT_LINEAR,
    batch=_batch_pure,
    sharding=sharding_rules.undetermined,
    lower=EXPANDED,
)

io_callback = Op(
    name="io_callback",
    doc="the results of a Python function with effects",
    example='%r = "gnomon.io_callback"(%x) {callback = 0 : i64, given = [tensor<4xf32>], '
    "ordered = false} : (tensor<4xf32>) -> tensor<4xf32>",
    attributes={"callback": INT, "given": TYPES, "ordered": BOOL},
    results=None,
    effects=True,
    form=Form.CALLBACK,
    work=work_rules.nothing,
    infer=_infer_io,
    evaluate=_evaluate,
    jvp=_no_jvp("IO"),
    transpose=NOT_LINEAR,
    batch=_batch_io,
    sharding=sharding_rules.undetermined,
    lower=EXPANDED,
)

debug_callback = Op(
    name="debug_callback",
    doc="call a Python function for its effects only; values and derivatives are unaffected",
    example='"gnomon.debug_callback"(%x) {callback = 0 : i64, ordered = false} : '
    "(tensor<4xf32>) -> ()",
    attributes={"callback": INT, "ordered": BOOL},
    results=0,
    effects=True,
    form=Form.CALLBACK,
    work=work_rules.nothing,
    infer=_infer_debug,
    evaluate=_evaluate,
    jvp=ZERO_TANGENT,
    transpose=NOT_LINEAR,
    batch=_sequentially,
    sharding=sharding_rules.undetermined,
    lower=EXPANDED,
)

__all__ = [
    "VMAP_METHODS",
    "Callback",
    "call_back",
    "callback_of",
    "debug_callback",
    "io_callback",
    "pure_callback",
]
