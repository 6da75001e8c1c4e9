"""Custom calls of JAX and of gnomon. A call is raised by its target's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.emit import constant_value, convert, full, full_like, ops
from gnomon.dialects.linear_algebra.host import on_host
from gnomon.dialects.linear_algebra.matrices import (
    conjugated,
    lower_triangle,
    swapped,
    upper_triangle,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.source import RaiseError, Region, Source, raises
from gnomon.dialects.sorting import take_along
from gnomon.dialects.types import is_complex, type_of

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


@_target("mhlo.topk", "TopK")
def _top_k(source: Source) -> list[ir.Value]:
    options = _options(source)
    if "largest" in options and not ir.BoolAttr(options["largest"]).value:
        raise RaiseError("the smallest elements are not selected; negate the operand")
    (x,) = source.operands[:1]
    rank = type_of(x).rank
    results: list[ir.Value] = ops.top_k(x, k=source.result_types[0].shape[-1], axis=rank - 1)
    return results


@_target("ApproxTopK")
def _approximate_top_k(source: Source) -> list[ir.Value]:
    """The exact elements: the recall that is asked for is a lower bound."""
    options = _options(source)
    axis, k = (int(ir.IntegerAttr(options[n]).value) for n in ("reduction_dim", "top_k"))
    x, labels = source.operands[:2]
    if source.result_types[0].shape[axis] != k:
        raise RaiseError("its results are not aggregated to k elements")
    (name,) = source.attribute("called_computations")
    direction = _direction(source.engine.function(str(ir.FlatSymbolRefAttr(name).value)))
    if direction is None:
        raise RaiseError("its comparator is not one comparison (GT or LT) of its first arguments")
    if direction == "GT":
        values, positions = ops.top_k(x, k=k, axis=axis)
    else:
        values, positions = ops.top_k(ops.neg(x), k=k, axis=axis)
        values = ops.neg(values)
    return [values, take_along(labels, positions, axis, unique=True)]


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


# ------------------------------------------------------------------------------------------ LAPACK

_LAPACK = re.compile(r"(?:lapack|blas)_([sdcz])(\w+?)_ffi")
_I32 = np.dtype(np.int32)


def _lapack(name: str) -> Rule | None:
    match = _LAPACK.fullmatch(name)
    if match is None:
        return None
    routine = match.group(2)
    # Complex routines have other names.
    routine = {"heevd": "syevd", "ungqr": "orgqr", "hetrd": "sytrd"}.get(routine, routine)
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


def _unused(source: Source, number: int) -> ir.Value:
    """A result that nothing uses; refused if something does."""
    if next(iter(source.operation.results[number].uses), None) is not None:
        raise RaiseError(f"the gnomon dialect does not compute its result {number}")
    return full(source.result_types[number], 0)


def _geev(source: Source) -> list[ir.Value]:
    left, right = (_letter(source, f"compute_{side}") == "V" for side in ("left", "right"))
    values, *vectors = ops.eig(
        source.operand, compute_left=left, compute_right=right, enable_eigvec_derivs=False
    )
    given = iter(vectors)
    count = len(source.result_types)
    both = [
        next(given) if computed else _unused(source, count - 3 + i)
        for i, computed in enumerate((left, right))
    ]
    is_real = not is_complex(type_of(source.operand).dtype)
    parts = [ops.real(values), ops.imag(values)] if is_real else [values]
    return [*parts, *both, _success(source)]


def _gees(source: Source) -> list[ir.Value]:
    if _letter(source, "sort") != "N":
        raise RaiseError("the eigenvalues of a Schur form are not sorted in the gnomon dialect")
    count = len(source.result_types)
    if _letter(source, "mode") == "V":
        form, vectors = ops.schur(source.operand, compute_schur_vectors=True)
    else:
        (form,) = ops.schur(source.operand, compute_schur_vectors=False)
        vectors = _unused(source, 1)
    return [form, vectors, *(_unused(source, i) for i in range(2, count - 1)), _success(source)]


def _gtsv(source: Source) -> list[ir.Value]:
    # All three diagonals have the length of the system: the first of the lower one and the last of
    # the upper one are not read, as in the gnomon dialect.
    solved = ops.tridiagonal_solve(*source.operands)
    return [*(_unused(source, i) for i in range(3)), solved, _success(source)]


def _gehrd(source: Source) -> list[ir.Value]:
    options, size = _options(source), type_of(source.operand).shape[-1]
    if [int(ir.IntegerAttr(options[name]).value) for name in ("low", "high")] != [1, size]:
        raise RaiseError("a part of a matrix is not reduced to Hessenberg form")
    return [*ops.hessenberg(source.operand), _success(source)]


def _sytrd(source: Source) -> list[ir.Value]:
    lower = _letter(source, "uplo") == "L"
    return [*ops.tridiagonal(source.operand, lower=lower), _success(source)]


_ROUTINES: dict[str, Rule] = {
    "geev": _geev,
    "gees": _gees,
    "gtsv": _gtsv,
    "gehrd": _gehrd,
    "sytrd": _sytrd,
    "potrf": _potrf,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "orgqr": _orgqr,
    "syevd": _syevd,
    "gesdd": _gesdd,
    "trsm": _trsm,
}
