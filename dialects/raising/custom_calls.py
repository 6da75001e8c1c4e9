"""Custom calls of JAX and of gnomon. A call is raised by its target's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.emit import convert, full, full_like, ops
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.linear_algebra.matrices import (
    conjugated,
    lower_triangle,
    swapped,
    upper_triangle,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.source import RaiseError, Source, raises
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
    rule = _TARGETS.get(name) or _lapack(name)
    if rule is None:
        raise RaiseError(f"the call of {name!r} has no counterpart in the gnomon dialect")
    return rule(source)


def _options(source: Source) -> dict[str, ir.Attribute]:
    """The typed options of a call, from whichever attribute holds them."""
    for name in ("mhlo.backend_config", "backend_config", "mhlo.attributes"):
        attribute = source.attribute(name)
        if isinstance(attribute, ir.DictAttr):
            return {item.name: item.attr for item in attribute}
    return {}


@_target("mhlo.topk", "TopK")
def _top_k(source: Source) -> list[ir.Value]:
    options = _options(source)
    if "largest" in options and not ir.BoolAttr(options["largest"]).value:
        raise RaiseError("the smallest elements are not selected; negate the operand")
    (x,) = source.operands[:1]
    rank = type_of(x).rank
    results: list[ir.Value] = ops.top_k(x, k=source.result_types[0].shape[-1], axis=rank - 1)
    return results


@_target("cu_threefry2x32", "cu_threefry2x32_ffi", "cuda_threefry2x32", "hip_threefry2x32_ffi")
def _threefry(source: Source) -> list[ir.Value]:
    k0, k1, x0, x1 = source.operands[:4]
    words: list[ir.Value] = ops.threefry2x32(k0, k1, x0, x1)
    return words


# ------------------------------------------------------------------------------------------ LAPACK

_LAPACK = re.compile(r"(?:lapack|blas)_([sdcz])(\w+?)_ffi")
_I32 = np.dtype(np.int32)


def _lapack(name: str) -> Rule | None:
    match = _LAPACK.fullmatch(name)
    if match is None:
        return None
    routine = match.group(2)
    # Complex routines have other names.
    routine = {"heevd": "syevd", "ungqr": "orgqr"}.get(routine, routine)
    return _ROUTINES.get(routine)


def _letter(source: Source, name: str) -> str:
    """An option that is a character, such as ``uplo = 76 : ui8``."""
    return chr(int(ir.IntegerAttr(_options(source)[name]).value))


def _success(source: Source) -> ir.Value:
    """The status of a factorization that did not fail; values of failed ones are nan."""
    return full(source.result_types[-1], 0)


def _potrf(source: Source) -> list[ir.Value]:
    (a,) = source.operands
    if _letter(source, "uplo") == "L":
        factor = ops.cholesky(a)
        kept = ops.add(factor, upper_triangle(a, 1))
    else:
        factor = conjugated(swapped(ops.cholesky(conjugated(swapped(a)))))
        kept = ops.add(factor, lower_triangle(a, -1))
    return [kept, _success(source)]


def _getrf(source: Source) -> list[ir.Value]:
    factors, pivots, _ = ops.lu(source.operand)
    # LAPACK counts rows from 1.
    rows = ops.add(convert(pivots, _I32), full_like(convert(pivots, _I32), 1))
    return [factors, rows, _success(source)]


def _geqrf(source: Source) -> list[ir.Value]:
    results: list[ir.Value] = ops.geqrf(source.operand)
    return results


def _orgqr(source: Source) -> list[ir.Value]:
    return [ops.householder_product(*source.operands)]


def _syevd(source: Source) -> list[ir.Value]:
    if _letter(source, "mode") != "V":
        values = ops.eigvalsh(source.operand, lower=_letter(source, "uplo") == "L")
        return [source.operand, values, _success(source)]
    vectors, values = ops.eigh(source.operand, lower=_letter(source, "uplo") == "L")
    return [vectors, values, _success(source)]


def _gesdd(source: Source) -> list[ir.Value]:
    mode, a = _letter(source, "mode"), source.operand
    if mode == "N":
        (values,) = ops.svd(a, full_matrices=False, compute_uv=False)
        u, vt = (full(t, 0) for t in source.result_types[2:4])
    else:
        values, u, vt = ops.svd(a, full_matrices=mode == "A", compute_uv=True)
    return [a, values, u, vt, _success(source)]


def _trsm(source: Source) -> list[ir.Value]:
    a, b = source.operands[:2]
    transpose = _letter(source, "trans_x")
    solved = ops.triangular_solve(
        a,
        b,
        left_side=_letter(source, "side") == "L",
        lower=_letter(source, "uplo") == "L",
        transpose_a=transpose in "TC",
        conjugate_a=transpose == "C",
        unit_diagonal=_letter(source, "diag") == "U",
    )
    return [solved]


_ROUTINES: dict[str, Rule] = {
    "potrf": _potrf,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "syevd": _syevd,
    "gesdd": _gesdd,
    "trsm": _trsm,
}
