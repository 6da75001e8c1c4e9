"""Exported functions restored from the entries of an artifact."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gnomon._arrays.array import Array
from gnomon._arrays.aval import ShapedArray, shaped_array
from gnomon._arrays.concrete import wrap
from gnomon._arrays.dtypes import float0
from gnomon._export.exported import Exported
from gnomon._export.jax_exports import deserialize_jax, is_jax_export
from gnomon._export.program_text import program_text
from gnomon._export.safety_checks import DisabledSafetyCheck
from gnomon._export.serialization import MAIN, is_of_this_dialect
from gnomon._export.shardings import from_notes
from gnomon._export.structures import from_tree
from gnomon.dialects.symbolic.dimension import SymbolicScope, scope_numbered
from gnomon_runtime.artifact import Artifact, Entry, TensorType, from_bytes, read
from gnomon_runtime.dtypes import dtype_named
from gnomon_runtime.errors import ArtifactDamagedError, ArtifactIncompatibleError

__all__ = ["deserialize", "exported_of", "load_exported"]


def deserialize(blob: bytes | bytearray | memoryview) -> Exported:
    """The function that `Exported.serialize` turned into bytes, here or in JAX.

    A function that JAX serialized has the derivatives that JAX stored (``vjp_order``).

    Args:
      blob: the bytes.
    Raises:
      gnomon_runtime.ArtifactError: the bytes are something else, damaged, or of another version; or
        JAX's function is for several devices, or has an operation without a form in gnomon.
      ValueError: its structures have classes that are not registered for serialization.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import export
      >>> exported = export.export(gn.jit(gnp.sin))(gn.ShapeDtypeStruct((3,), gnp.float32))
      >>> again = export.deserialize(exported.serialize())
      >>> again.call(gnp.zeros(3))
      Array([0., 0., 0.], dtype=float32)
    """
    data = bytes(blob)
    if is_jax_export(data):
        return deserialize_jax(data)
    artifact = from_bytes(data, "the serialized function")
    artifact.verify()
    return exported_of(artifact, MAIN)


def load_exported(path: str | os.PathLike[str]) -> dict[str, Exported]:
    """The exported functions of an artifact's file by name, which can be transformed.

    Args:
      path: a file that `save` wrote.
    Returns:
      A dictionary from names to `Exported`.
    Raises:
      gnomon_runtime.ArtifactError: the file is no artifact, damaged, or of another version.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon import export
      >>> import os, tempfile
      >>> step = gn.jit(lambda x: 2 * x)
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = os.path.join(folder, "steps.gnm")
      ...     export.save(path, {"step": (step, (gnp.ones(3),))}, targets=())
      ...     functions = export.load_exported(path)
      >>> functions["step"].call(gnp.arange(3.0))
      Array([0., 2., 4.], dtype=float32)
    """
    artifact = read(path)
    entries = [e for e in artifact.entries.values() if "vjp_of" not in e.notes]
    return {entry.name: exported_of(artifact, entry.name) for entry in entries}


def _aval(type_: TensorType, scope: SymbolicScope | None) -> ShapedArray:
    dtype = float0 if type_.dtype == "float0" else dtype_named(type_.dtype)
    sizes = [scope.parse(n) if scope and isinstance(n, str) else n for n in type_.shape]
    return shaped_array(tuple(sizes), dtype, type_.weak_type)


def input_types(entry: Entry) -> tuple[ShapedArray, ...]:
    """The types of an entry's arguments."""
    scope = _scope(entry)
    return tuple(_aval(t, scope) for t in entry.inputs)


def _scope(entry: Entry) -> SymbolicScope | None:
    if "scope" not in entry.notes:
        return None
    constraints = tuple(map(str, entry.notes.get("constraints", ())))
    return scope_numbered(int(entry.notes["scope"]), constraints)


def exported_of(artifact: Artifact, name: str, weights: dict[str, Array] | None = None) -> Exported:
    """An entry of an artifact as an exported function.

    Programs of another version of the dialect are raised from their portable form.

    Args:
      artifact: the artifact.
      name: the name of the entry.
      weights: arrays by name, shared by the entries of the artifact; those of this entry are added.

    Raises:
      ArtifactIncompatibleError: the entry has only StableHLO, or symbolic dimensions and a program
        of another version of the dialect; or its portable form has an op that is not raised.
    """
    entry = artifact.entry(name)
    check_dialect(artifact, entry)
    known = {} if weights is None else weights
    for weight in entry.weights:
        if weight not in known:
            known[weight] = wrap(artifact.weight(weight))
    texts: dict[int, str] = {}
    programs = {}
    for platform, section in entry.sections["program"].items():
        if section not in texts:
            texts[section] = program_text(artifact, entry, platform)
        programs[platform] = texts[section]
    portable: Mapping[str, bytes] = {
        platform: artifact.portable(name, platform) for platform in entry.sections["portable"]
    }
    vjp: Any = None
    if entry.vjp:

        def vjp(_: Exported) -> Exported:
            return exported_of(artifact, entry.vjp, known)

    scope = _scope(entry)
    checks = entry.notes.get("disabled_checks", ())
    return Exported(
        fun_name=entry.function,
        in_tree=from_tree(entry.in_tree),
        in_avals=tuple(_aval(t, scope) for t in entry.inputs),
        out_tree=from_tree(entry.out_tree),
        out_avals=tuple(_aval(t, scope) for t in entry.outputs),
        platforms=entry.platforms,
        disabled_safety_checks=tuple(DisabledSafetyCheck(str(check)) for check in checks),
        donated=entry.donated,
        programs=programs,
        closed_over=tuple(known[weight] for weight in entry.weights),
        _get_vjp=vjp,
        # None lowers it again: the file has none for some programs with symbolic dimensions.
        _portable=portable or None,
        _parameters=entry.parameters,
        **_devices(artifact, entry),
    )


def _devices(artifact: Artifact, entry: Entry) -> dict[str, Any]:
    """The fields of `Exported` for the number of devices and the shardings over them."""
    if entry.nr_devices == 1:
        return {}
    try:
        names = "in_shardings", "out_shardings"
        shardings = {name: from_notes(entry.notes[name]) for name in names}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ArtifactDamagedError(
            f"{artifact.name}: the shardings of {entry.name!r} cannot be read: {error}"
        ) from error
    return {"nr_devices": entry.nr_devices, **shardings}


def check_dialect(artifact: Artifact, entry: Entry) -> None:
    """Raise unless an entry has programs that this version reads, or a portable form to raise."""
    if not entry.sections["program"]:
        raise ArtifactIncompatibleError(
            f"{artifact.name}: {entry.name!r} was exported as StableHLO, which can be run "
            "(gnomon.load) but not differentiated or transformed"
        )
    if entry.is_symbolic and not is_of_this_dialect(entry):
        raise ArtifactIncompatibleError(
            f"{artifact.name}: the symbolic program of {entry.name!r} was written in another "
            f"version of gnomon's dialect (by {dict(artifact.producer)}), which this version "
            "cannot read; its compiled modules still run, and others can compile its portable "
            "StableHLO (Artifact.portable)"
        )
