"""Functions that JAX exported: `deserialize` for the bytes of ``jax.export.Exported.serialize``.

The format is a flatbuffer; `jax_schema` has its fields. Its versions 2 to 11 added fields.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Sequence
from typing import Any

from gnomon import tree_util
from gnomon._arrays.aval import ShapedArray, shaped_array
from gnomon._arrays.dtypes import float0
from gnomon._export import jax_schema as schema
from gnomon._export.exported import Exported
from gnomon._export.flatbuffers import FlatBufferError, Table, root
from gnomon._export.jax_programs import JaxProgram
from gnomon._export.safety_checks import DisabledSafetyCheck
from gnomon._export.structures import node_from_children
from gnomon._trees.prefixes import HOLE
from gnomon.backends.bytecode import MAGIC, BytecodeError, RefusedProgramError
from gnomon.dialects.symbolic.dimension import SymbolicScope, any_symbolic
from gnomon_runtime.dtypes import dtype_named
from gnomon_runtime.errors import ArtifactDamagedError, ArtifactIncompatibleError

__all__ = ["deserialize_jax", "is_jax_export"]

# Since 2023 (9), the program computes its sizes itself; 10 leaves shardings to Shardy.
_CONVENTIONS = (9, 10)

_KEYS = ("threefry2x32", "rbg", "unsafe_rbg")

_MAX_DEPTH = 200
_MAX_ORDER = 16


def is_jax_export(data: bytes) -> bool:
    """Whether bytes are a function that JAX serialized: a flatbuffer that has a program."""
    try:
        return root(data).data(schema.MODULE).startswith(MAGIC)
    except FlatBufferError:
        return False


def deserialize_jax(data: bytes) -> Exported:
    """The function that JAX serialized; see `gnomon.export.deserialize`.

    Raises:
      ArtifactDamagedError: the bytes are damaged.
      ArtifactIncompatibleError: the function is for several devices, has effects or an operation
        that has no form in gnomon's dialect.
      ValueError: its structures have classes that are not registered for serialization.
    """
    return _read(root(data), _MAX_ORDER)


def _read(table: Table, order: int, primal: Exported | None = None) -> Exported:
    """A function with at most ``order`` derivatives, which is the derivative of a primal."""
    try:
        exported = _exported(table, order)
        if primal is not None:
            ins, outs = len(primal.in_avals), len(primal.out_avals)
            if (len(exported.in_avals), len(exported.out_avals)) != (ins + outs, ins):
                raise FlatBufferError(
                    f"{exported.fun_name!r} is no derivative of {primal.fun_name!r}"
                )
    except FlatBufferError as error:
        raise ArtifactDamagedError(f"the function exported by JAX is damaged: {error}") from error
    return exported


def _exported(table: Table, order: int) -> Exported:
    name = table.text(schema.NAME) or "exported"
    _check(table, name)
    scope = SymbolicScope(())
    in_avals = _avals(table, schema.IN_AVALS, schema.IN_AVAL_INDICES, scope, name)
    out_avals = _avals(table, schema.OUT_AVALS, schema.OUT_AVAL_INDICES, scope, name)
    platforms = tuple(table.texts(schema.PLATFORMS))
    kept = tuple(table.numbers(schema.KEPT, "H"))
    if not platforms or not all(i < len(in_avals) for i in kept):
        raise FlatBufferError(
            f"{name!r} has no platforms, or takes arguments that it does not have"
        )
    program = JaxProgram(
        data=table.data(schema.MODULE),
        name=name,
        in_avals=in_avals,
        out_avals=out_avals,
        kept=kept,
        indices={p: i for i, p in enumerate(platforms)} if len(platforms) > 1 else {},
    )
    is_open = any(any_symbolic(a.shape) for a in in_avals)
    inner = table.table(schema.VJP)
    if inner is not None and not order:
        raise FlatBufferError(f"more than {_MAX_ORDER} derivatives are stored")
    return Exported(
        fun_name=name,
        in_tree=_tree(table, schema.IN_TREE, len(in_avals)),
        in_avals=in_avals,
        out_tree=_tree(table, schema.OUT_TREE, len(out_avals)),
        out_avals=out_avals,
        platforms=platforms,
        disabled_safety_checks=tuple(map(_safety_check, table.tables(schema.DISABLED_CHECKS))),
        donated=(),
        programs={} if is_open else {p: _text(program, p) for p in platforms},
        closed_over=(),
        _get_vjp=None if inner is None else lambda primal: _read(inner, order - 1, primal),
        _portable=dict.fromkeys(platforms, program.data),
        _read_for=program.for_sizes if is_open else None,
    )


def _check(table: Table, name: str) -> None:
    """Refuse what has no counterpart."""
    devices = table.number(schema.DEVICES, "I") or table.number(schema.DEVICES_SHORT, "h")
    if devices != 1:
        raise ArtifactIncompatibleError(
            f"the function {name!r}, exported by JAX, is for {devices} devices; gnomon reads "
            "functions for one device"
        )
    convention = table.number(schema.CONVENTION, "H")
    if convention not in _CONVENTIONS:
        raise ArtifactIncompatibleError(
            f"the function {name!r}, exported by JAX, has the calling convention {convention}; "
            f"gnomon reads {_CONVENTIONS[0]} and {_CONVENTIONS[1]}"
        )
    effects = [
        e.text(0)
        for f in (schema.ORDERED_EFFECTS, schema.UNORDERED_EFFECTS)
        for e in table.tables(f)
    ]
    if effects:
        raise ArtifactIncompatibleError(
            f"the function {name!r}, exported by JAX, has side effects ({', '.join(effects)}), "
            "which other processes cannot run"
        )


def _text(program: JaxProgram, platform: str) -> str:
    try:
        return program.text(platform)
    except RefusedProgramError as error:
        raise ArtifactIncompatibleError(
            f"the function {program.name!r}, exported by JAX: {error}"
        ) from error
    except (BytecodeError, TypeError, ValueError) as error:
        raise ArtifactDamagedError(
            f"the function {program.name!r}, exported by JAX, is damaged: {error}"
        ) from error


def _avals(
    table: Table, field: int, indices: int, scope: SymbolicScope, name: str
) -> tuple[ShapedArray, ...]:
    order = table.numbers(indices, "I")
    if not order:
        return tuple(_aval(t, scope, name) for t in table.tables(field))
    unique = [_aval(t, scope, name) for t in table.tables(schema.UNIQUE_AVALS)]
    if max(order) >= len(unique):
        raise FlatBufferError(f"{name!r} refers to a type that is not there")
    return tuple(unique[i] for i in order)


def _aval(table: Table, scope: SymbolicScope, name: str) -> ShapedArray:
    sizes = table.texts(schema.AVAL_SHAPE)
    number = table.number(schema.AVAL_DTYPE, "b")
    if 0 <= number - len(schema.DTYPES) < len(_KEYS):
        raise ArtifactIncompatibleError(
            f"the function {name!r}, exported by JAX, takes or returns random keys "
            f"({_KEYS[number - len(schema.DTYPES)]}), which are trees of arrays in gnomon; export "
            "a function of jax.random.key_data(key)"
        )
    if not 0 <= number < len(schema.DTYPES):
        raise ArtifactIncompatibleError(
            f"the function {name!r}, exported by JAX, has a dtype that this version does not know "
            f"(number {number})"
        )
    dtype = float0 if schema.DTYPES[number] == "float0" else dtype_named(schema.DTYPES[number])
    try:
        return shaped_array(tuple(int(n) if n.isdigit() else scope.parse(n) for n in sizes), dtype)
    except (SyntaxError, TypeError, ValueError) as error:
        raise FlatBufferError(f"the shape ({', '.join(sizes)}): {error}") from error


def _safety_check(table: Table) -> DisabledSafetyCheck:
    kind = table.number(schema.CHECK_KIND, "b")
    if kind == schema.CHECK_CUSTOM_CALL:
        return DisabledSafetyCheck.custom_call(table.text(schema.CHECK_TARGET))
    if kind != schema.CHECK_PLATFORM:
        raise FlatBufferError(f"a disabled safety check has the unknown kind {kind}")
    return DisabledSafetyCheck.platform()


# --------------------------------------------------------------------------------------- structures


def _tree(table: Table, field: int, leaves: int) -> tree_util.PyTreeDef:
    node = table.table(field)
    if node is None:
        raise FlatBufferError("a structure is missing")
    structure = tree_util.tree_structure(_node(node, 0))
    if structure.num_leaves != leaves:
        raise FlatBufferError(f"a structure has {structure.num_leaves} leaves instead of {leaves}")
    return structure


def _node(table: Table, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise FlatBufferError(f"a structure is more than {_MAX_DEPTH} levels deep")
    kind = table.number(schema.NODE_KIND, "b")
    if kind in (schema.LEAF, schema.NONE):
        return HOLE if kind == schema.LEAF else None
    children = [_node(child, depth + 1) for child in table.tables(schema.NODE_CHILDREN)]
    if kind in (schema.TUPLE, schema.LIST):
        return tuple(children) if kind == schema.TUPLE else children
    if kind == schema.DICT:
        return _dictionary(table.texts(schema.NODE_KEYS), children)
    if kind != schema.CUSTOM:
        raise FlatBufferError(f"a structure has a node of the unknown kind {kind}")
    name, data = table.text(schema.NODE_NAME), table.data(schema.NODE_DATA)
    if name == schema.ORDERED_DICT:
        try:
            keys = json.loads(data)
        except ValueError as error:
            raise FlatBufferError(f"the keys of an OrderedDict: {error}") from error
        return collections.OrderedDict(_dictionary(keys, children))
    return node_from_children(name, data, children)


def _dictionary(keys: Sequence[str], children: Sequence[Any]) -> dict[str, Any]:
    if not isinstance(keys, list) or len(keys) != len(children):
        raise FlatBufferError("a dictionary does not have as many keys as values")
    return dict(zip(keys, children, strict=True))
