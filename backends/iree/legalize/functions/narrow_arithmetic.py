"""Arithmetic on 8 and 16 bits for targets without it: in 32 bits, rounded or wrapped once.

IREE 3.13 itself widens most of it, but fails on unsigned divisions, shifts, and ops that need the
sign of an f16 (``bitwidth emulation is not implemented yet on unsigned op``).
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage, Targets
from gnomon.backends.iree.targets import Target
from gnomon.backends.narrow import legalize_narrow_dtypes
from gnomon.backends.rewriting import Rule
from gnomon.dialects.contract import Instance
from gnomon.dialects.emit import convert, full_like, ops
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import BOOL, UNSIGNED, is_floating, is_integer, short_name, type_of

__all__ = ["LEGALIZATIONS"]

_I32, _U32, _F32 = (np.dtype(t) for t in (np.int32, np.uint32, np.float32))


def _wide(dtype: np.dtype) -> np.dtype:
    if dtype.itemsize >= _I32.itemsize:
        return dtype
    if is_floating(dtype):
        return _F32
    # Narrow unsigned integers fit in i32, and the compiler fails on some unsigned divisions.
    return _I32


def _extended(x: ir.Value, kind: str) -> ir.Value:
    """A narrow integer in 32 bits, extended with zeros ("u") or with its sign ("i")."""
    dtype = np.dtype(f"{kind}{type_of(x).dtype.itemsize}")
    same = x if type_of(x).dtype == dtype else ops.bitcast_convert(x, dtype=dtype)
    return convert(same, _U32 if kind == "u" else _I32)


def _cut(x: ir.Value, dtype: np.dtype) -> ir.Value:
    """A 32-bit integer truncated to a narrow dtype."""
    same_sign = _wide(dtype)
    if type_of(x).dtype != same_sign:
        x = ops.bitcast_convert(x, dtype=same_sign)
    return convert(x, dtype)


def _computed(inst: Instance) -> Sequence[ir.Value]:
    wide = [convert(x, _wide(type_of(x).dtype)) for x in inst.operands]
    (result,) = inst.op.build(wide, inst.params)
    return [convert(result, inst.type.dtype)]


def _divided(inst: Instance) -> Sequence[ir.Value]:
    if inst.type.dtype not in UNSIGNED:
        return _computed(inst)
    # Divide the negated dividend: where the compiler knows both operands to be positive, it makes
    # the division unsigned, and fails.
    x, divisor = (convert(operand, _I32) for operand in inst.operands)
    (negated,) = inst.op.build([ops.neg(x), divisor], inst.params)
    result = ops.neg(negated)
    if inst.op.name == "div":
        by_zero = ops.eq(divisor, full_like(divisor, 0))
        result = ops.select(by_zero, full_like(result, -1), result)
    return [convert(result, inst.type.dtype)]


def _divided_by_signed(inst: Instance) -> Sequence[ir.Value]:
    """Quotient or remainder of u32 numbers, from a signed division of half the dividend.

    The compiler fails on unsigned divisions of vectors with one element. The method is that of H.
    Warren, "Hacker's Delight", 9-3.
    """
    x, divisor = inst.operands
    one = full_like(x, 1)
    half = ops.bitcast_convert(ops.shift_right_logical(x, one), dtype=_I32)
    signed = ops.bitcast_convert(divisor, dtype=_I32)
    quotient = ops.bitcast_convert(ops.div(half, signed), dtype=_U32)
    quotient = ops.shift_left(quotient, one)
    rest = ops.sub(x, ops.mul(quotient, divisor))
    quotient = ops.add(quotient, convert(ops.ge(rest, divisor), _U32))
    is_large = ops.lt(signed, full_like(signed, 0))
    quotient = ops.select(is_large, convert(ops.ge(x, divisor), _U32), quotient)
    by_zero = ops.eq(divisor, full_like(divisor, 0))
    if inst.op.name == "div":
        return [ops.select(by_zero, full_like(x, (1 << 32) - 1), quotient)]
    return [ops.select(by_zero, x, ops.sub(x, ops.mul(quotient, divisor)))]


def _shifted(inst: Instance) -> Sequence[ir.Value]:
    x, count = inst.operands
    kind = "i" if inst.op.name == "shift_right_arithmetic" else "u"
    # Extended as unsigned, a negative count exceeds 32 bits just as it exceeded the narrow width.
    wide, places = _extended(x, kind), _extended(count, "u")
    if kind == "i":
        places = ops.bitcast_convert(places, dtype=_I32)
    (result,) = inst.op.build([wide, places], inst.params)
    return [_cut(result, inst.type.dtype)]


def _leading_zeros(inst: Instance) -> Sequence[ir.Value]:
    wide = ops.bitcast_convert(_extended(inst.operand, "u"), dtype=_I32)
    counted = ops.clz(wide)
    excess = full_like(counted, 8 * (_I32.itemsize - inst.type.dtype.itemsize))
    return [convert(ops.sub(counted, excess), inst.type.dtype)]


def _of_wide_operand(inst: Instance) -> Sequence[ir.Value]:
    return inst.op.build([convert(x, _wide(type_of(x).dtype)) for x in inst.operands], inst.params)


def _placed(inst: Instance) -> Sequence[ir.Value]:
    (x,), index = inst.operands, inst.params["index_dtype"]
    (place,) = inst.op.build(
        [convert(x, _wide(type_of(x).dtype))], {**inst.params, "index_dtype": _I32}
    )
    return [convert(place, index)]


def _fewer_bits(inst: Instance) -> Sequence[ir.Value]:
    """``reduce_precision`` on the bits, since the format's subnormal numbers are normal in f32."""
    dtype, info = inst.type.dtype, ml_dtypes.finfo(inst.type.dtype)
    word = np.dtype(f"u{dtype.itemsize}")
    bits = ops.bitcast_convert(
        _extended(ops.bitcast_convert(inst.operand, dtype=word), "u"), dtype=_I32
    )

    def number(value: int) -> ir.Value:
        return full_like(bits, value)

    magnitude = ops.and_(bits, number((1 << (info.bits - 1)) - 1))
    sign = ops.sub(bits, magnitude)
    infinity = ((1 << info.nexp) - 1) << info.nmant
    is_nan = ops.gt(magnitude, number(infinity))
    dropped = info.nmant - inst.params["mantissa_bits"]
    if dropped > 0:
        last = ops.and_(ops.shift_right_logical(magnitude, number(dropped)), number(1))
        magnitude = ops.add(ops.add(magnitude, number((1 << (dropped - 1)) - 1)), last)
        magnitude = ops.and_(magnitude, number(-1 << dropped))
    if inst.params["exponent_bits"] < info.nexp:
        bias, largest = ((1 << (n - 1)) - 1 for n in (info.nexp, inst.params["exponent_bits"]))
        beyond, least = (n << info.nmant for n in (bias + largest + 1, bias - largest + 1))
        magnitude = ops.select(ops.ge(magnitude, number(beyond)), number(infinity), magnitude)
        magnitude = ops.select(ops.lt(magnitude, number(least)), number(0), magnitude)
    found = ops.select(is_nan, bits, ops.add(sign, magnitude))
    return [ops.bitcast_convert(_cut(found, word), dtype=dtype)]


def _widened_rules(target: Target) -> dict[str, Rule]:
    """The rules that compute the dtypes which a target only stores."""
    widened = target.capabilities.widened

    def where(applies: object, rule: Rule) -> Rule:
        def chosen(inst: Instance) -> Sequence[ir.Value] | None:
            dtype = inst.operand_types[0].dtype
            matches = is_floating(dtype) if applies is float else is_integer(dtype)
            if dtype == _U32 and rule is _divided:
                return _divided_by_signed(inst)
            return rule(inst) if matches and short_name(dtype) in widened else None

        return chosen

    def place(inst: Instance) -> Sequence[ir.Value] | None:
        dtypes = inst.operand_types[0].dtype, inst.params["index_dtype"]
        matches = any(is_integer(d) and short_name(d) in widened for d in dtypes)
        return _placed(inst) if matches and dtypes[0] != BOOL else None

    return {
        **dict.fromkeys(("gnomon.div", "gnomon.rem"), where(int, _divided)),
        "gnomon.clz": where(int, _leading_zeros),
        **dict.fromkeys(("gnomon.sign", "gnomon.round"), where(float, _computed)),
        **dict.fromkeys(
            (
                "gnomon.shift_left",
                "gnomon.shift_right_logical",
                "gnomon.shift_right_arithmetic",
            ),
            where(int, _shifted),
        ),
        **dict.fromkeys(("gnomon.argmax", "gnomon.argmin"), place),
        **dict.fromkeys(
            ("gnomon.window_argmax", "gnomon.window_argmin"), where(int, _of_wide_operand)
        ),
        "gnomon.reduce_precision": where(float, _fewer_bits),
    }


def _store_as_bytes(program: Program, target: Target) -> None:
    legalize_narrow_dtypes(program)


LEGALIZATIONS = (
    Legalization(
        name="narrow-dtypes",
        stage=Stage.PREPARE,
        kind=Kind.REFUSED,
        doc="store 8-bit floats and integers of 4 and 2 bits as bytes, and compute in f32 or i8",
        upstream="IREE 3.13 refuses `floor` and `sqrt` of 8-bit floats, rounds inside their "
        "powers, and takes small integers only in whole bytes",
        texts=("integers_of_four_bits",),
        reproducer="`x + x` of int4[3] does not compile",
        run=_store_as_bytes,
    ),
    Legalization(
        name="narrow-arithmetic",
        stage=Stage.REWRITE_AGAIN,
        kind=Kind.REFUSED,
        doc="compute 8-bit and 16-bit dtypes in 32 bits on targets that can only store them",
        upstream="IREE 3.13 emulates no unsigned division, no shifts and no signs of f16 "
        "(``bitwidth emulation is not implemented yet on unsigned op``)",
        texts=("divisions_of_bytes_on_vulkan",),
        reproducer="`x // 3` of uint8 for `vulkan:portable` does not compile",
        targets=Targets.where(has_storage_only_dtypes=True),
        rules=_widened_rules,
    ),
)
