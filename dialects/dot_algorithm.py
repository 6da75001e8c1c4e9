"""Algorithms of contractions: the formats of the operands and of the accumulator.

The parameter ``precision`` of `contraction` names a mode of the hardware or an algorithm:
``"bf16*bf16->f32"`` rounds both operands to bf16 and accumulates in f32. The suffix ``x3`` means
that three such products emulate one product of unrounded operands; ``fast`` permits accumulation in
lower precision.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import numpy as np

from gnomon.dialects.combinators import parse, require, stablehlo
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import convert, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import FLOATING, bfloat16, element_type, short_name, type_of

# NVIDIA's 19-bit format of operands of matrix units; there are no arrays of this dtype.
TF32 = "tf32"
# In a preset: the operand's own format, which must have 8 bits.
ANY_F8 = "any_f8"
_TF32_BITS = {"exponent_bits": 8, "mantissa_bits": 10}

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_BY_NAME = {short_name(d): d for d in FLOATING}
_SIDE = r"([a-z0-9_]+)(?:/(\d+))?"
_FORM = re.compile(rf"{_SIDE}\*{_SIDE}->([a-z0-9_]+)(?: x(\d+))?( fast)?")


class Algorithm(NamedTuple):
    """An algorithm, with the fields of StableHLO's; types are given by their short names."""

    lhs: str
    rhs: str
    accumulation: str
    lhs_components: int = 1
    rhs_components: int = 1
    operations: int = 1
    imprecise: bool = False

    def __str__(self) -> str:
        sides = [
            name if count == 1 else f"{name}/{count}"
            for name, count in ((self.lhs, self.lhs_components), (self.rhs, self.rhs_components))
        ]
        times = f" x{self.operations}" if self.operations != 1 else ""
        return f"{'*'.join(sides)}->{self.accumulation}{times}{' fast' if self.imprecise else ''}"

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the accumulator and of the result."""
        return _BY_NAME[self.accumulation]

    @property
    def rounds(self) -> bool:
        """Whether operands are rounded; algorithms of several products do not round them."""
        return self.operations == 1

    def swapped(self) -> Algorithm:
        """The algorithm of the product with its operands exchanged."""
        return self._replace(
            lhs=self.rhs,
            rhs=self.lhs,
            lhs_components=self.rhs_components,
            rhs_components=self.lhs_components,
        )


def _preset(name: str) -> Algorithm:
    words = name.lower().replace(ANY_F8, "f8").split("_")
    lhs, rhs, accumulation = ({"f8": ANY_F8, "any": "f32"}.get(w, w) for w in words[:3])
    times = int(words[-1][1:]) if words[-1][0] == "x" else 1
    return Algorithm(lhs, rhs, accumulation, operations=times, imprecise="fast" in words)


# The named algorithms.
PRESETS = {
    name: _preset(name)
    for name in (
        "ANY_F8_ANY_F8_F32",
        "ANY_F8_ANY_F8_F32_FAST_ACCUM",
        "ANY_F8_ANY_F8_ANY",
        "ANY_F8_ANY_F8_ANY_FAST_ACCUM",
        "F16_F16_F16",
        "F16_F16_F32",
        "BF16_BF16_BF16",
        "BF16_BF16_F32",
        "BF16_BF16_F32_X3",
        "BF16_BF16_F32_X6",
        "BF16_BF16_F32_X9",
        "TF32_TF32_F32",
        "TF32_TF32_F32_X3",
        "F32_F32_F32",
        "F64_F64_F64",
    )
}


def is_algorithm(precision: str) -> bool:
    """Whether a contraction's precision is an algorithm."""
    return "->" in precision


@functools.cache
def algorithm_of(text: str) -> Algorithm:
    """Parse an algorithm.

    Raises:
      TypeRuleError: the text is malformed or names a type that is not floating point.
    """
    found = _FORM.fullmatch(text)
    names = set(found.group(1, 3, 5)) if found else set()
    require(
        found is not None and names <= {*_BY_NAME, TF32} and found.group(5) != TF32,
        "dot_general",
        "an algorithm is written 'bf16*bf16->f32', of floating point types, followed by ' x3' for "
        f"three operations or ' fast' for imprecise sums; got '{text}'",
    )
    assert found is not None
    lhs, lhs_count, rhs, rhs_count, accumulation, times, fast = found.groups()
    return Algorithm(
        lhs,
        rhs,
        accumulation,
        lhs_components=int(lhs_count or 1),
        rhs_components=int(rhs_count or 1),
        operations=int(times or 1),
        imprecise=fast is not None,
    )


def rounded_arrays(
    lhs: np.ndarray, rhs: np.ndarray, algorithm: Algorithm
) -> tuple[np.ndarray, np.ndarray]:
    """Round the operands as an algorithm does, in a BLAS dtype that represents both."""
    if not algorithm.rounds:
        return lhs.astype(algorithm.dtype), rhs.astype(algorithm.dtype)
    formats = algorithm.lhs, algorithm.rhs
    wide = _F64 if short_name(_F64) in (*formats, algorithm.accumulation) else _F32
    a, b = (_rounded_array(x, name) for x, name in zip((lhs, rhs), formats, strict=True))
    return a.astype(wide), b.astype(wide)


def _rounded_array(x: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        if name != TF32:
            return x.astype(_BY_NAME[name])
        return np.asarray(ops.reduce_precision.evaluate(x.astype(_F32), **_TF32_BITS))


def algorithm_as_ops(inst: Instance) -> list[ir.Value] | None:
    """Write a contraction's algorithm as conversions and a contraction without one.

    Returns:
      The result; None if the contraction has no algorithm.
    """
    if not is_algorithm(inst.params["precision"]):
        return None
    algorithm = algorithm_of(inst.params["precision"])
    operands = list(inst.operands)
    if algorithm.rounds:
        formats = algorithm.lhs, algorithm.rhs
        operands = [_rounded(x, name) for x, name in zip(operands, formats, strict=True)]
    if not algorithm.rounds or algorithm.lhs != algorithm.rhs or algorithm.dtype == _F64:
        operands = [convert(x, algorithm.dtype) for x in operands]
    params = {**inst.params, "dtype": algorithm.dtype, "precision": "default"}
    return [convert(ops.dot_general(*operands, **params), inst.type.dtype)]


def _rounded(x: ir.Value, name: str) -> ir.Value:
    if name != TF32:
        return convert(x, _BY_NAME[name])
    rounded: ir.Value = ops.reduce_precision(convert(x, _F32), **_TF32_BITS)
    return rounded


# --------------------------------------------------------------------------------------- lowering


def lower_algorithm(inst: Instance, attributes: dict[str, ir.Attribute]) -> list[ir.Value]:
    """Lower to StableHLO's contraction with an algorithm, on dtypes that platforms accept."""
    algorithm = algorithm_of(inst.params["precision"])
    formats = algorithm.lhs, algorithm.rhs
    operands = [
        _stored(x, _storage(name, type_.dtype, algorithm.rounds))
        for x, type_, name in zip(inst.operands, inst.operand_types, formats, strict=True)
    ]
    summed = inst.type.with_dtype(algorithm.dtype)
    (product,) = stablehlo(
        "dot_general", operands, [summed], **attributes, algorithm=_attribute(algorithm)
    )
    return [_stored(product, inst.type.dtype)]


def _storage(name: str, dtype: np.dtype, rounds: bool) -> np.dtype:
    """The dtype of an operand as passed to StableHLO; it may be wider than the format."""
    if name == TF32 or not rounds:
        return _F32
    return dtype if _BY_NAME[name] == bfloat16 and dtype == _F32 else _BY_NAME[name]


def _stored(x: ir.Value, dtype: np.dtype) -> ir.Value:
    type_ = type_of(x)
    if type_.dtype == dtype:
        return x
    (converted,) = stablehlo("convert", [x], [type_.with_dtype(dtype)])
    return converted


@functools.cache
def _attribute(algorithm: Algorithm) -> ir.Attribute:
    lhs, rhs, accumulation = (
        TF32 if name == TF32 else element_type(_BY_NAME[name])
        for name in (algorithm.lhs, algorithm.rhs, algorithm.accumulation)
    )
    return parse(
        f"#stablehlo.dot_algorithm<lhs_precision_type = {lhs}, rhs_precision_type = {rhs}, "
        f"accumulation_type = {accumulation}, "
        f"lhs_component_count = {algorithm.lhs_components}, "
        f"rhs_component_count = {algorithm.rhs_components}, "
        f"num_primitive_operations = {algorithm.operations}, "
        f"allow_imprecise_accumulation = {str(algorithm.imprecise).lower()}>"
    )


__all__ = [
    "ANY_F8",
    "PRESETS",
    "TF32",
    "Algorithm",
    "algorithm_as_ops",
    "algorithm_of",
    "is_algorithm",
    "lower_algorithm",
    "rounded_arrays",
]
