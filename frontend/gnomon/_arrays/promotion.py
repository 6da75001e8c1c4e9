"""Promotion: the least upper bound in a lattice of dtypes and weak Python scalars."""

from __future__ import annotations

import enum
import functools
from typing import Any

import numpy as np

from gnomon._config.current import config
from gnomon.dialects import types

__all__ = [
    "PYTHON_OF_WEAK",
    "WEAK_OF_PYTHON",
    "Node",
    "TypePromotionError",
    "Weak",
    "least_upper_bound",
    "promote_types",
]

DType = np.dtype[Any]

# Dtypes that promote with few others, since promotion would hide a loss: 8-bit floats only with
# integers of at least 8 bits and bool, narrow integers only with bool, and both with themselves and
# Python scalars.
_FLOAT8 = types.FLOAT8
_NARROW_INTEGERS = types.SUB_BYTE


class TypePromotionError(ValueError):
    """Dtypes that have no implicit promotion to a common one."""


class Weak(enum.Enum):
    """The nodes of Python scalars in the lattice."""

    INT = "int"
    FLOAT = "float"
    COMPLEX = "complex"

    def __str__(self) -> str:
        return f"{self.value} (weak)"


Node = DType | Weak
WEAK_OF_PYTHON: dict[type, Node] = {
    bool: types.BOOL,
    int: Weak.INT,
    float: Weak.FLOAT,
    complex: Weak.COMPLEX,
}
PYTHON_OF_WEAK = {Weak.INT: int, Weak.FLOAT: float, Weak.COMPLEX: complex}


def _standard_lattice(x64: bool) -> dict[Node, list[Node]]:
    """The nodes directly above each node; a weak node is below all strong ones of its kind."""

    def named(*names: str) -> list[Node]:
        return [np.dtype(name) for name in names]

    leaves: list[Node] = [*_FLOAT8, *_NARROW_INTEGERS]
    lattice: dict[Node, list[Node]] = {
        types.BOOL: [Weak.INT],
        Weak.INT: [*named("uint8", "int8"), *_NARROW_INTEGERS],
        Weak.FLOAT: [*_FLOAT8, types.bfloat16, np.dtype("float16"), Weak.COMPLEX],
        Weak.COMPLEX: named("complex64"),
        types.bfloat16: named("float32"),
    }
    for name, above in {
        "uint8": ["int16", "uint16"],
        "uint16": ["int32", "uint32"],
        # Without x64, two 32-bit integers never promote to a 64-bit one.
        "uint32": ["int64" if x64 else "int32", "uint64"],
        "int8": ["int16"],
        "int16": ["int32"],
        "int32": ["int64"],
        "float16": ["float32"],
        "float32": ["float64", "complex64"],
        "float64": ["complex128"],
        "complex64": ["complex128"],
        "complex128": [],
    }.items():
        lattice[np.dtype(name)] = named(*above)
    lattice[np.dtype("int64")] = [Weak.FLOAT]
    lattice[np.dtype("uint64")] = [Weak.FLOAT]
    lattice.update({leaf: [] for leaf in leaves})
    return lattice


def _strict_lattice() -> dict[Node, list[Node]]:
    """Only weak types promote."""
    lattice: dict[Node, list[Node]] = {dtype: [] for dtype in types.ANY}
    lattice[Weak.INT] = [Weak.FLOAT, *types.UNSIGNED, *types.SIGNED]
    lattice[Weak.FLOAT] = [Weak.COMPLEX, *types.FLOATING]
    lattice[Weak.COMPLEX] = list(types.COMPLEX)
    return lattice


def _upper_bounds(lattice: dict[Node, list[Node]]) -> dict[Node, frozenset[Node]]:
    """The set of each node and all nodes above it."""
    bounds: dict[Node, frozenset[Node]] = {}

    def visit(node: Node) -> frozenset[Node]:
        if node not in bounds:
            bounds[node] = frozenset((node,)).union(*(visit(above) for above in lattice[node]))
        return bounds[node]

    for node in lattice:
        visit(node)
    return bounds


_BOUNDS = {
    ("standard", True): _upper_bounds(_standard_lattice(x64=True)),
    ("standard", False): _upper_bounds(_standard_lattice(x64=False)),
    ("strict", True): _upper_bounds(_strict_lattice()),
    ("strict", False): _upper_bounds(_strict_lattice()),
}


@functools.lru_cache(4096)
def _least_upper_bound(mode: str, x64: bool, nodes: frozenset[Node]) -> Node:
    bounds = _BOUNDS[mode, x64]
    unknown = [str(node) for node in nodes if node not in bounds]
    if unknown:
        raise TypePromotionError(f"dtype {', '.join(unknown)} cannot be promoted")
    common = frozenset.intersection(*(bounds[node] for node in nodes))
    least = [node for node in common if common <= bounds[node]]
    if len(least) == 1:
        return least[0]
    raise TypePromotionError(_no_promotion(mode, nodes))


def _no_promotion(mode: str, nodes: frozenset[Node]) -> str:
    names = ", ".join(sorted(map(str, nodes)))
    message = f"dtypes {names} have no implicit promotion to a common dtype"
    if mode == "strict":
        return (
            f"{message} under numpy_dtype_promotion='strict': convert explicitly "
            "(x.astype(dtype)), or set the option to 'standard'"
        )
    reason = ""
    if any(node in _FLOAT8 for node in nodes):
        reason = (
            " (8-bit floats promote with no other float, no complex dtype, and no integer of 4 or "
            "2 bits)"
        )
    elif any(node in _NARROW_INTEGERS for node in nodes):
        reason = " (integers of 4 and 2 bits promote only with themselves, Python scalars and bool)"
    return f"{message}{reason}: convert explicitly, for example with x.astype('float32')"


def least_upper_bound(nodes: frozenset[Node]) -> Node:
    return _least_upper_bound(config.numpy_dtype_promotion, config.x64, nodes)


def promote_types(a: Any, b: Any) -> DType:
    """The dtype that a binary operation converts its operands to.

    Args:
      a, b: dtypes, names of dtypes, scalar types, or Python's int, float, complex (weak).

    Raises:
      TypePromotionError: there is no common dtype.

    Example:
      >>> promote_types("int32", "float16")
      dtype('float16')
      >>> promote_types("uint8", int)
      dtype('uint8')
    """
    bound = least_upper_bound(frozenset((_specified(a), _specified(b))))
    # A weak type gives the NumPy dtype of the Python type; no dtype is made canonical.
    return np.dtype(PYTHON_OF_WEAK[bound]) if isinstance(bound, Weak) else bound


def _specified(specifier: Any) -> Node:
    if specifier is int or specifier is float or specifier is complex:
        return WEAK_OF_PYTHON[specifier]
    return np.dtype(specifier)
