"""The entries of an artifact made from exported functions."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from gnomon._arrays.aval import ShapedArray
from gnomon._arrays.dtypes import float0
from gnomon._export.shardings import to_notes
from gnomon._export.structures import to_tree
from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.passes.lower import LoweringError
from gnomon_runtime.artifact import Entry, Module, TensorType
from gnomon_runtime.writing import Writer

__all__ = [
    "MAIN",
    "WeightNames",
    "add_function",
    "check_has_programs",
    "dialect_fingerprint",
    "is_of_this_dialect",
    "new_writer",
    "serialize",
]

MAIN = "main"
"""The entry of a function that is serialized alone."""


@functools.cache
def dialect_fingerprint() -> str:
    """A hash of the operations of the dialect with their parameters.

    This version reads the programs of a dialect with the same hash.
    """
    rows = sorted(
        f"{name} {sorted(op.attributes)} {op.operands} {op.results}"
        for name, op in REGISTRY.items()
    )
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


def is_of_this_dialect(entry: Entry) -> bool:
    """Whether the programs of an entry are of this version of the dialect."""
    return bool(entry.notes.get("dialect", "") == dialect_fingerprint())


def new_writer() -> Writer:
    """A writer of artifacts that records the versions of gnomon and of the compilers."""
    versions = {}
    for package in ("gnomon", "iree-base-compiler", "torch-mlir", "numpy"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return Writer(versions)


class WeightNames:
    """Names for the arrays that functions close over; the same object is stored once.

    Args:
      writer: the writer that the arrays are added to.
      known: the names of some arrays, by the ``id`` of the array.
    """

    def __init__(self, writer: Writer, known: Mapping[int, str] | None = None) -> None:
        self._writer = writer
        self._known = dict(known or {})
        self._names: dict[int, str] = {}
        self._alive: list[Any] = []

    def of(self, array: Any) -> str:
        """The name of an array, which is added to the artifact on first use."""
        if id(array) not in self._names:
            name = self._known.get(id(array), f"constant_{len(self._names)}")
            self._writer.add_weight(name, array.numpy_value())
            self._names[id(array)] = name
            self._alive.append(array)
        return self._names[id(array)]


def _types(avals: Sequence[ShapedArray]) -> tuple[TensorType, ...]:
    return tuple(
        TensorType(_sizes(a.shape), "float0" if a.dtype == float0 else a.dtype.name, a.weak_type)
        for a in avals
    )


def _sizes(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(str(n) if is_symbolic_dim(n) else n for n in shape)


def check_has_programs(exported: Any) -> None:
    """Raise unless an exported function has programs for all sizes of its arguments.

    Raises:
      NotImplementedError: JAX exported it with symbolic dimensions.
    """
    if exported._read_for is not None:
        raise NotImplementedError(
            f"the function {exported.fun_name!r} was exported by JAX with symbolic dimensions, and "
            "has no program for all sizes to write into an artifact; keep JAX's bytes, or export a "
            "jitted function that calls it with arrays of fixed sizes"
        )


def add_function(
    writer: Writer,
    name: str,
    exported: Any,
    weights: WeightNames,
    *,
    vjp_order: int = 0,
    modules: Sequence[tuple[Module, bytes]] = (),
    primal: str = "",
    sizes: Mapping[str, Any] | None = None,
) -> None:
    """Add an exported function to an artifact.

    Args:
      writer: the writer of the artifact.
      name: the name of the entry.
      exported: an `Exported`.
      weights: the names of the arrays that functions close over.
      vjp_order: how many derivatives to add, as entries ``name.vjp``, ``name.vjp.vjp``, ...
      modules: the modules that the function was compiled to.
      primal: for a derivative, the name of the entry that it is the derivative of.
      sizes: how sizes follow from shapes, for modules with symbolic dimensions.

    Raises:
      NotImplementedError: JAX exported the function with symbolic dimensions.
    """
    check_has_programs(exported)
    notes: dict[str, Any] = {
        "dialect": dialect_fingerprint(),
        "calling_convention_version": exported.calling_convention_version,
        "disabled_checks": [check.name for check in exported.disabled_safety_checks],
    }
    if any(exported._parameters):
        notes["parameters"] = list(exported._parameters)
    if primal:
        notes["vjp_of"] = primal
    if exported.scope is not None:
        # As text, since some JSON readers round large integers.
        notes["scope"] = str(exported.scope.number)
        notes["constraints"] = list(exported.scope.constraints)
    if sizes:
        notes["sizes"] = dict(sizes)
    if exported.nr_devices > 1:
        notes["nr_devices"] = exported.nr_devices
        notes["in_shardings"] = to_notes(exported.in_shardings)
        notes["out_shardings"] = to_notes(exported.out_shardings)
    vjp = f"{name}.vjp" if vjp_order else ""
    entry = Entry(
        name=name,
        function=exported.fun_name,
        inputs=_types(exported.in_avals),
        outputs=_types(exported.out_avals),
        in_tree=to_tree(exported.in_tree),
        out_tree=to_tree(exported.out_tree),
        donated=exported.donated,
        weights=tuple(map(weights.of, exported.closed_over)),
        platforms=exported.platforms,
        vjp=vjp,
        notes=notes,
    )
    programs = {platform: text.encode() for platform, text in exported.programs.items()}
    try:
        portable = exported.portable
    except LoweringError:
        if not exported.is_symbolic:
            raise
        portable = {}  # A call replaces the variables of the program by numbers.
    writer.add_entry(entry, portable=portable, program=programs, modules=modules)
    if vjp:
        add_function(writer, vjp, exported.vjp(), weights, vjp_order=vjp_order - 1, primal=name)


def serialize(exported: Any, vjp_order: int) -> bytes:
    """An exported function as an artifact with the entry ``main``."""
    writer = new_writer()
    add_function(writer, MAIN, exported, WeightNames(writer), vjp_order=vjp_order)
    return writer.to_bytes()
