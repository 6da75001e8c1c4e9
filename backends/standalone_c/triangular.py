"""Cholesky factors and triangular systems."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.standalone_c.movements import copied
from gnomon.backends.standalone_c.types import of_type
from gnomon.backends.standalone_c.values import Stored, Value
from gnomon.dialects.types import TensorType, is_complex

if TYPE_CHECKING:
    from gnomon.backends.standalone_c.emitter import Emitter, Operation

__all__ = ["TRIANGULAR"]


def _flag(attribute: Any) -> bool:
    return attribute is not None and str(attribute) == "true"


def _stored(type_: TensorType) -> str:
    """The C type of a matrix's elements."""
    kind = of_type(type_)
    if kind.half or kind.unsigned or kind.computed == "bool":
        raise UnsupportedOnTarget(f"there is no C code for it in {type_.dtype}")
    return kind.stored


def _cholesky(emitter: Emitter, operation: Operation) -> list[Value]:
    (a,), type_ = operation.operands, operation.type
    kind, n = _stored(type_), type_.shape[-1]
    name = f"gnomon_cholesky_{kind}"
    if not is_complex(type_.dtype):
        emitter.helpers.add(name)
    into = emitter.result(operation)
    lower = int(_flag(operation.attribute("lower")))
    batches = math.prod(type_.shape[:-2])
    with emitter.in_memory(a) as x, emitter.loops([batches], parallel=False) as (batch,):
        offset = f"{batch} * {n * n}"
        pointers = f"{x.buffer.pointer} + {offset}, {into.pointer} + {offset}"
        emitter.line(f"{name}({n}, {pointers}, {lower});")
    return [Stored(into, type_)]


def _triangular_solve(emitter: Emitter, operation: Operation) -> list[Value]:
    type_ = operation.type
    kind, n = _stored(type_), operation.operands[0].type.shape[-1]
    into = copied(emitter, operation, 1)
    name, form = f"gnomon_solve_{kind}", str(operation.attribute("transpose_a"))
    sign = ""
    if is_complex(type_.dtype):
        sign = "-1, " if "ADJOINT" in form else "1, "
    else:
        emitter.helpers.add(name)
    left, lower, unit = (
        _flag(operation.attribute(a)) for a in ("left_side", "lower", "unit_diagonal")
    )
    transposed = "NO_TRANSPOSE" not in form
    rows, columns = type_.shape[-2:]
    # x a = b is solved as the system of the transposes, in which the transpose of a is on the left.
    steps = f"{n}, 1"
    if transposed == left:
        lower, steps = not lower, f"1, {n}"
    if left:
        count, along = columns, f"{columns}, 1"
    else:
        count, along = rows, f"1, {columns}"
    batches = math.prod(type_.shape[:-2])
    with (
        emitter.in_memory(operation.operands[0]) as a,
        emitter.loops([batches], parallel=False) as (batch,),
    ):
        emitter.line(
            f"{name}({n}, {count}, {a.buffer.pointer} + {batch} * {n * n}, {steps}, "
            f"{int(lower)}, {int(unit)}, {sign}"
            f"{into.pointer} + {batch} * {rows * columns}, {along});"
        )
    return [Stored(into, type_)]


TRIANGULAR: dict[str, Callable[[Emitter, Operation], Sequence[Value]]] = {
    "stablehlo.cholesky": _cholesky,
    "stablehlo.triangular_solve": _triangular_solve,
}
