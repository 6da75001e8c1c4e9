"""The table of the functions that programs call by the names of the dialect's ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from gnomon_runtime.linear_algebra import (
    elimination,
    factorizations,
    reflectors,
    substitution,
    systems,
    unthreaded,
)

__all__ = ["FUNCTIONS"]

FUNCTIONS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "cholesky": factorizations.cholesky,
        "cofactors": systems.cofactors,
        "det": unthreaded.det,
        "eig": factorizations.eig,
        "eigh": factorizations.eigh,
        "eigvalsh": factorizations.eigvalsh,
        "geqrf": factorizations.geqrf,
        "hessenberg": reflectors.to_hessenberg,
        "householder_product": reflectors.product,
        "lu": elimination.factor,
        "lu_pivots_to_permutation": elimination.permutation_of,
        "pinv": factorizations.pinv,
        "qr": factorizations.qr,
        "schur": factorizations.schur,
        "slogdet": systems.slogdet,
        "solve": systems.solve,
        "svd": factorizations.svd,
        "triangular_solve": substitution.solve_triangular,
        "tridiagonal": factorizations.tridiagonal,
        "tridiagonal_solve": systems.tridiagonal_solve,
    }
)
"""Names are part of the artifact's format: a name must keep its meaning and its parameters."""
