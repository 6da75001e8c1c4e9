"""Lowering of ops that StableHLO lacks, by the StableHLO forms of ops that it has.

An expansion is a function of SSA values written with `lowered`. It is given f32, f64, or the real
and imaginary parts of a complex number, never a narrower type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon.dialects.combinators import lowered, stablehlo
from gnomon.dialects.contract import Instance, Rule
from gnomon.dialects.elementwise.evaluation import through_f32
from gnomon.dialects.emit import ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import is_complex, type_of

Expansion = Callable[..., ir.Value]
Parts = tuple[ir.Value, ir.Value]


def expand(real: Expansion, complex_: Callable[[ir.Value, ir.Value], Parts] | None = None) -> Rule:
    """A lowering rule: ``real`` on floating operands, ``complex_`` on the parts of a complex one.

    Operands narrower than f32 are widened before and rounded once afterwards.
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
    """A lowering rule with operands of the 8-bit formats widened to f32, and the result rounded.

    Their ranges are too small for what an op computes on the way.
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
    """A narrow floating value in f32."""
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
    """The NumPy side of what `lowered` is for StableHLO: the ops of the registry, on arrays.

    An algorithm that takes either as its first argument is written once.
    """

    def __getattr__(self, name: str) -> Callable[..., np.ndarray]:
        rule: Any = getattr(ops, name).evaluate
        setattr(self, name, rule)
        return rule

    def full_like(self, x: np.ndarray, value: Any) -> np.ndarray:
        """A constant of the dtype of ``x``; NumPy repeats it."""
        return x.dtype.type(value)


evaluated: Any = _Evaluated()

Algorithm = Callable[..., Any]


def dtype_of(x: Any) -> np.dtype:
    """The dtype of an array or of an SSA value."""
    return x.dtype if hasattr(x, "dtype") else type_of(x).dtype


def both(algorithm: Algorithm) -> dict[str, Any]:
    """The facets ``evaluate`` and ``lower`` of an algorithm over `evaluated` or `lowered`."""
    return {
        "evaluate": through_f32(lambda *operands: algorithm(evaluated, *operands)),
        "lower": expand(lambda *operands: algorithm(lowered, *operands)),
    }
