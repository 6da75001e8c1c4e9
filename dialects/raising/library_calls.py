"""Custom calls of libraries for linear algebra: LAPACK, cuSOLVER, hipSOLVER, and XLA's on TPUs.

The names are those of JAX's foreign functions, and the results those of LAPACK. The status is 0:
results of factorizations that fail are nan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gnomon.dialects.emit import convert, full, full_like, ops
from gnomon.dialects.linear_algebra.matrices import (
    conjugated,
    lower_triangle,
    swapped,
    upper_triangle,
)
from gnomon.dialects.mlir import ir
from gnomon.dialects.raising.source import RaiseError, Source
from gnomon.dialects.types import is_complex, type_of

__all__ = ["library_routine"]

Rule: TypeAlias = "Callable[[Source], Sequence[ir.Value]]"

_CPU = re.compile(r"(?:lapack|blas)_[sdcz](\w+?)_ffi")
_GPU = re.compile(r"(?:cusolver|cusparse|hipsolver|hipsparse)_(\w+?)_ffi")
# Routines that do the same under other names.
_SAME = {
    "heevd": "syevd",
    "ungqr": "orgqr",
    "hetrd": "sytrd",
    "gesvd": "gesdd",
    "Eigh": "eigh",
    "LuDecomposition": "lu",
    "Qr": "geqrf",
    "ProductOfElementaryHouseholderReflectors": "orgqr",
}
_I32 = np.dtype(np.int32)


def library_routine(name: str) -> Rule | None:
    """The rule for a call of a library; None if the name is not of one."""
    match = _CPU.fullmatch(name) or _GPU.fullmatch(name)
    routine = match[1] if match else name if name in _SAME else None
    return None if routine is None else _ROUTINES.get(_SAME.get(routine, routine))


def _letter(source: Source, name: str) -> str:
    """An option that is a character, such as ``uplo = 76 : ui8``."""
    return chr(int(ir.IntegerAttr(source.options[name]).value))


def _flag(source: Source, name: str) -> bool:
    return bool(ir.BoolAttr(source.options[name]).value)


def _is_lower(source: Source) -> bool:
    """Whether the lower triangle is meant: the letter of LAPACK, or the flag of the GPUs' calls."""
    return _flag(source, "lower") if "lower" in source.options else _letter(source, "uplo") == "L"


def _success(source: Source) -> ir.Value:
    """The status of a factorization that did not fail; values of failed ones are nan."""
    return full(source.result_types[-1], 0)


def _potrf(source: Source) -> list[ir.Value]:
    (a,) = source.operands
    if _is_lower(source):
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
    if "mode" in source.options and _letter(source, "mode") != "V":
        values = ops.eigvalsh(source.operand, lower=_is_lower(source))
        return [source.operand, values, _success(source)]
    vectors, values = ops.eigh(source.operand, lower=_is_lower(source))
    return [vectors, values, _success(source)]


def _gesdd(source: Source) -> list[ir.Value]:
    if "mode" in source.options:
        mode = _letter(source, "mode")
        has_vectors, is_full = mode != "N", mode == "A"
    else:
        has_vectors, is_full = _flag(source, "compute_uv"), _flag(source, "full_matrices")
    if "transposed" in source.options and _flag(source, "transposed"):
        raise RaiseError("the decomposition of the transposed matrix is not read")
    a = source.operand
    if has_vectors:
        values, u, vt = ops.svd(a, full_matrices=is_full, compute_uv=True)
    else:
        (values,) = ops.svd(a, full_matrices=False, compute_uv=False)
        u, vt = (_unused(source, i) for i in (2, 3))
    return [a, values, u, vt, _success(source)]


def _gesvdj(source: Source) -> list[ir.Value]:
    """Like `_gesdd`, with V instead of its adjoint."""
    a, values, u, vt, status = _gesdd(source)
    is_unused = type_of(vt).shape != source.result_types[3].shape
    return [a, values, u, vt if is_unused else conjugated(swapped(vt)), status]


def _eigh(source: Source) -> list[ir.Value]:
    """XLA's call on TPUs: ``backend_config = "lower,sort,..."``."""
    lower = source.word("backend_config").split(",")[0] == "1"
    results: list[ir.Value] = ops.eigh(source.operand, lower=lower)
    return results


def _lu(source: Source) -> list[ir.Value]:
    results: list[ir.Value] = ops.lu(source.operand)
    return results


def _gtsv2(source: Source) -> list[ir.Value]:
    return [ops.tridiagonal_solve(*source.operands)]


def _trsm(source: Source) -> list[ir.Value]:
    a, b = source.operands[:2]
    transpose = _letter(source, "trans_x")
    solved = ops.triangular_solve(
        a,
        b,
        left_side=_letter(source, "side") == "L",
        lower=_is_lower(source),
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
    options, size = source.options, type_of(source.operand).shape[-1]
    if [int(ir.IntegerAttr(options[name]).value) for name in ("low", "high")] != [1, size]:
        raise RaiseError("a part of a matrix is not reduced to Hessenberg form")
    return [*ops.hessenberg(source.operand), _success(source)]


def _sytrd(source: Source) -> list[ir.Value]:
    lower = _is_lower(source)
    return [*ops.tridiagonal(source.operand, lower=lower), _success(source)]


_ROUTINES: dict[str, Rule] = {
    "eigh": _eigh,
    "gesvdj": _gesvdj,
    "gtsv2": _gtsv2,
    "lu": _lu,
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
