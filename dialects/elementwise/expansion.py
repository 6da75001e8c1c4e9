"""The lowering of ops that StableHLO lacks to ops that it has.

An expansion is a function of SSA values written with `lowered`. Its operands are f32, f64, or the
real and imaginary parts of a complex number, never a narrower type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gnomon.dialects import emit
from gnomon.dialects.body import Body
from gnomon.dialects.combinators import (
    lowered,
    stablehlo,
    stablehlo_constant,
    stablehlo_reduce,
    stablehlo_region,
)
from gnomon.dialects.contract import Instance, Rule
from gnomon.dialects.emit import ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_complex, mlir_type, type_of

Expansion: TypeAlias = "Callable[..., ir.Value]"
Parts: TypeAlias = "tuple[ir.Value, ir.Value]"


def expand(real: Expansion, complex_: Callable[[ir.Value, ir.Value], Parts] | None = None) -> Rule:
    """A lowering rule: ``real`` on floating operands, ``complex_`` on the parts of a complex one.

    Operands narrower than f32 are widened, and the result is rounded once.
    """

    def lower(inst: Instance) -> list[ir.Value]:
        dtype = inst.operand_types[0].dtype
        if is_complex(dtype):
            assert complex_ is not None
            (z,) = inst.operands
            return [lowered.complex(*complex_(lowered.real(z), lowered.imag(z)))]
        if dtype.itemsize >= 4:
            return [real(*inst.operands)]
        wide = [widened(x) for x in inst.operands]
        return stablehlo("convert", [real(*wide)], inst.result_types)

    return lower


def widen_bytes(rule: Rule) -> Rule:
    """Wrap a lowering rule to widen 8-bit floats to f32 and to round the result.

    The range of these formats is too small for intermediate values.
    """

    def lower(inst: Instance) -> list[ir.Value]:
        if inst.type.dtype.itemsize > 1:
            return rule(inst)
        f32 = np.dtype(np.float32)
        wide = Instance(
            inst.op,
            [widened(x) for x in inst.operands],
            [t.with_dtype(f32) for t in inst.operand_types],
            [t.with_dtype(f32) for t in inst.result_types],
            inst.params,
        )
        return stablehlo("convert", rule(wide), inst.result_types)

    return lower


def widened(x: ir.Value) -> ir.Value:
    """Widen a narrow floating value to f32."""
    return stablehlo("convert", [x], [type_of(x).with_dtype(np.dtype(np.float32))])[0]


def literal(x: ir.Value, value: float) -> ir.Value:
    """A constant of the type of ``x``."""
    return lowered.full_like(x, value)


def copysign(magnitude: ir.Value, x: ir.Value) -> ir.Value:
    """``magnitude``, which is not negative, with the sign bit of ``x``."""
    dtype = np.dtype(f"int{8 * type_of(x).dtype.itemsize}")
    bits = lowered.bitcast_convert(x, dtype=dtype)
    negative = lowered.lt(bits, lowered.full_like(bits, 0))
    return lowered.select(negative, lowered.neg(magnitude), magnitude)


class _Evaluated:
    """The ops of the registry as NumPy functions: the counterpart of `lowered`.

    An algorithm that takes either as its first argument is written only once.
    """

    def __getattr__(self, name: str) -> Callable[..., np.ndarray]:
        rule: Any = getattr(ops, name).evaluate
        setattr(self, name, rule)
        return rule

    def full_like(self, x: np.ndarray, value: Any) -> np.ndarray:
        """A rank-0 constant of the dtype of ``x``, which NumPy broadcasts."""
        return x.dtype.type(value)


evaluated: Any = _Evaluated()
# For results that are rounded to a narrower format.
evaluated_to_round: Any = _Evaluated()
# Whether `double_words` keeps rounding errors.
evaluated.keeps_errors, evaluated_to_round.keeps_errors = True, False

Algorithm = Callable[..., Any]


def dtype_of(x: Any) -> np.dtype:
    """The dtype of an array or of an SSA value."""
    return x.dtype if hasattr(x, "dtype") else type_of(x).dtype


@dataclass(frozen=True)
class Series:
    """An algorithm over the ops of the dialect, which a backend may expand on its own.

    Attributes:
      algorithm: a function of a namespace of ops and of the operands.
      wide: whether the algorithm loses digits, so that narrower formats are computed in f64 on
        targets that have it.
      first: an initial part that loses no digits; its result becomes the last operand of
        ``algorithm``.
    """

    algorithm: Algorithm
    wide: bool
    first: Algorithm | None

    def __call__(self, o: Any, *operands: Any) -> Any:
        """Run the whole algorithm in the format of the operands."""
        if self.first is not None:
            operands = (*operands, self.first(o, *operands))
        return self.algorithm(o, *operands)


# The number of elements that are evaluated at once, so that the arrays between the operations of an
# algorithm stay in the cache.
_BLOCK = 16384
# The algorithms of `both`, by op name.
SERIES: dict[str, Series] = {}


def both(
    name: str, algorithm: Algorithm, *, wide: bool = True, first: Algorithm | None = None
) -> dict[str, Any]:
    """The facets ``evaluate`` and ``lower`` from one algorithm over `evaluated` or `lowered`.

    Args:
      name: the name of the op.
      algorithm: a function of a namespace of ops and of the operands.
      wide: whether evaluation computes f32 in f64, too.
      first: see `Series`.
    """
    series = SERIES[f"gnomon.{name}"] = Series(algorithm, wide, first)
    wider = np.dtype(np.float64 if wide else np.float32)

    def evaluate_block(*operands: np.ndarray) -> np.ndarray:
        dtype = operands[0].dtype
        if dtype.itemsize >= wider.itemsize:
            return np.asarray(series(evaluated, *operands))
        found = series(evaluated_to_round, *(x.astype(wider) for x in operands))
        return np.asarray(found).astype(dtype)

    def evaluate(*operands: np.ndarray) -> np.ndarray:
        shape, size = operands[0].shape, operands[0].size
        if size <= _BLOCK:
            return evaluate_block(*operands)
        rows = [x.reshape(-1) for x in operands]
        result = np.empty(size, operands[0].dtype)
        for start in range(0, size, _BLOCK):
            block = slice(start, start + _BLOCK)
            result[block] = evaluate_block(*(x[block] for x in rows))
        return result.reshape(shape)

    return {
        "evaluate": evaluate,
        "lower": expand(lambda *operands: series(lowered, *operands)),
    }


# ----------------------------------------------------------------------- algorithms with a loop

Condition = Callable[..., Any]
"""Maps the carries to a mask of the unfinished elements; the loop runs while there are any.

Finished elements keep their carries.
"""
Step = Callable[..., Sequence[Any]]
"""Maps the constants and the carries to the next carries."""


def _masked(o: Any, pending: Any, new: Sequence[Any], old: Sequence[Any]) -> list[Any]:
    return [o.select(pending, a, b) for a, b in zip(new, old, strict=True)]


def _loop_evaluated(
    condition: Condition, step: Step, constants: Sequence[Any], carries: Sequence[Any]
) -> Sequence[Any]:
    while np.any(pending := condition(*carries)):
        carries = _masked(evaluated, pending, step(*constants, *carries), carries)
    return carries


def _loop_lowered(
    condition: Condition, step: Step, constants: Sequence[ir.Value], carries: Sequence[ir.Value]
) -> Sequence[ir.Value]:
    types = [type_of(x) for x in carries]
    created = ir.Operation.create(
        "stablehlo.while",
        results=[mlir_type(t) for t in types],
        operands=list(carries),
        regions=2,
    )

    def test(*values: ir.Value) -> list[ir.Value]:
        pending = condition(*values)
        never = stablehlo_constant(np.array(False))
        axes = range(type_of(pending).rank)
        return stablehlo_reduce([pending], [never], axes, lambda x, y: [lowered.or_(x, y)])

    stablehlo_region(created.regions[0], types, test)

    def advance(*values: ir.Value) -> list[ir.Value]:
        return _masked(lowered, condition(*values), step(*constants, *values), values)

    stablehlo_region(created.regions[1], types, advance)
    return list(created.results)


def _loop_emitted(
    condition: Condition, step: Step, constants: Sequence[ir.Value], carries: Sequence[ir.Value]
) -> Sequence[ir.Value]:
    types = [type_of(x) for x in carries]

    def test(*values: ir.Value) -> list[ir.Value]:
        pending = condition(*values)
        return [ops.reduce_or(pending, axes=tuple(range(type_of(pending).rank)))]

    def advance(*values: ir.Value) -> list[ir.Value]:
        old = values[len(constants) :]
        return _masked(ops, condition(*old), step(*values), old)

    bodies = [
        Body.build(types, test),
        Body.build([*(type_of(x) for x in constants), *types], advance),
    ]
    consts = {"cond_consts": 0, "body_consts": len(constants)}
    found: list[ir.Value] = ops.while_.build([*constants, *carries], consts, bodies)
    return found


class _Emitted:
    """The ops of the dialect as functions: like `lowered`, but emits ops of the dialect."""

    loop = staticmethod(_loop_emitted)
    full_like = staticmethod(emit.full_like)
    keeps_errors = True

    def __getattr__(self, name: str) -> Callable[..., ir.Value]:
        return getattr(ops, name)


emitted: Any = _Emitted()
evaluated.loop = _loop_evaluated
lowered.loop = _loop_lowered
lowered.keeps_errors = True

# The algorithms of `in_f64`, by op name; a backend may expand them to ops of the dialect.
WITH_LOOPS: dict[str, Algorithm] = {}

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


class _WithoutErrors:
    """A namespace of ops with which `double_words` keeps no rounding errors."""

    keeps_errors = False

    def __init__(self, o: Any) -> None:
        self._ops = o

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(self._ops, name)
        return found


def namespace_of_loops(o: Any, dtype: np.dtype) -> Any:
    """The namespace for the loops of an algorithm of `in_f64`.

    Few results that are rounded to a narrower format would change with the errors of their terms.
    """
    return o if dtype == _F64 else _WithoutErrors(o)


def in_f64(name: str, algorithm: Algorithm) -> dict[str, Any]:
    """`both` for an algorithm that always computes in f64 and rounds the result.

    These algorithms combine powers and gamma functions of large arguments, whose logarithms cancel
    and need more digits than f32 has.

    Args:
      name: the name of the op.
      algorithm: a function of a namespace of ops, the namespace for its loops, and the operands.
    """

    def compute(o: Any, *operands: Any) -> Any:
        dtype = dtype_of(operands[0])
        loops = namespace_of_loops(o, dtype)
        result = algorithm(o, loops, *(_as(o, x, _F64) for x in operands))
        if dtype.itemsize < 4:
            result = _as(o, result, _F32)
        return _as(o, result, dtype)

    def evaluate(*operands: np.ndarray) -> np.ndarray:
        return np.asarray(compute(evaluated, *operands)).reshape(operands[0].shape)

    WITH_LOOPS[f"gnomon.{name}"] = algorithm
    return {"evaluate": evaluate, "lower": lambda inst: [compute(lowered, *inst.operands)]}


def _as(o: Any, x: Any, dtype: np.dtype) -> Any:
    return x if dtype_of(x) == dtype else o.convert(x, dtype=dtype)
