"""Functions in the form that JAX reads: ``Exported.serialize(format="jax")``.

Types and shardings are written twice, for versions
of JAX before and after April 2026.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gnomon import tree_util
from gnomon._arrays.aval import ShapedArray
from gnomon._arrays.dtypes import float0
from gnomon._export import jax_schema as schema
from gnomon._export.flatbuffers import Bytes, Content, Numbers, to_bytes
from gnomon._export.portable import lowered
from gnomon._export.safety_checks import DisabledSafetyCheck
from gnomon._export.serialization import check_has_programs
from gnomon._export.structures import to_tree
from gnomon.dialects.body import Body
from gnomon.dialects.emit import constant, full
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.dialects.types import TensorType

if TYPE_CHECKING:
    from gnomon._export.exported import Exported

__all__ = ["serialize_for_jax"]

# What JAX wrote from 2023 on, and reads.
_FORMAT, _CONVENTION_WRITTEN = 3, 9
_STABLEHLO = "1.13.0"
_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
_CUSTOM_CALLS = frozenset({"shape_assertion"})
_DEVICE_MEMORY = 1


def serialize_for_jax(exported: Exported, vjp_order: int) -> bytes:
    """An exported function as bytes that ``jax.export.deserialize`` reads.

    Raises:
      NotImplementedError: it is for several devices, for a platform that JAX does not have, or has
        an operation that only gnomon runs.
      ValueError: its structures have classes that JAX does not know, or that are not registered.
    """
    return to_bytes(_table(exported, vjp_order))


def _table(exported: Exported, order: int) -> dict[int, Content]:
    name = exported.fun_name
    check_has_programs(exported)
    if exported.nr_devices > 1:
        raise NotImplementedError(
            f"the function {name!r} is for {exported.nr_devices} devices; functions for one device "
            "are written for JAX"
        )
    unknown = [p for p in exported.platforms if p not in _PLATFORMS]
    if unknown:
        raise NotImplementedError(
            f"the function {name!r} was exported for {unknown[0]!r}, which JAX does not have; its "
            f"platforms are {', '.join(_PLATFORMS)}"
        )
    ins, outs = exported.in_avals, exported.out_avals
    unique = list(dict.fromkeys(map(_key, (*ins, *outs))))
    table: dict[int, Content] = {
        schema.VERSION: Numbers("H", _FORMAT),
        schema.NAME: name,
        schema.IN_TREE: _tree(exported.in_tree),
        schema.IN_AVALS: [_aval(_key(a)) for a in ins],
        schema.OUT_TREE: _tree(exported.out_tree),
        schema.OUT_AVALS: [_aval(_key(a)) for a in outs],
        schema.DEVICES_SHORT: Numbers("h", 1),
        schema.IN_SHARDINGS: [{} for _ in ins],
        schema.OUT_SHARDINGS: [{} for _ in outs],
        schema.PLATFORMS: list(exported.platforms),
        schema.ORDERED_EFFECTS: [],
        schema.UNORDERED_EFFECTS: [],
        schema.DISABLED_CHECKS: list(map(_safety_check, exported.disabled_safety_checks)),
        schema.MODULE: Bytes(_module(exported)),
        schema.CONVENTION: Numbers("H", _CONVENTION_WRITTEN),
        schema.KEPT: Numbers("H", exported.module_kept_var_idx),
        # Whether JAX refines the program for the sizes of a call.
        schema.HAS_SYMBOLIC_SIZES: Numbers("B", int(exported.is_symbolic)),
        schema.DEVICES: Numbers("I", 1),
        schema.UNIQUE_AVALS: list(map(_aval, unique)),
        schema.IN_AVAL_INDICES: Numbers("I", [unique.index(_key(a)) for a in ins]),
        schema.OUT_AVAL_INDICES: Numbers("I", [unique.index(_key(a)) for a in outs]),
        schema.IN_SHARDING_INDICES: Numbers("I", [0 for _ in ins]),
        schema.OUT_SHARDING_INDICES: Numbers("I", [0 for _ in outs]),
    }
    if order:
        table[schema.VJP] = _table(exported.vjp(), order - 1)
    return table


def _key(aval: ShapedArray) -> tuple[tuple[str, ...], str]:
    dtype = "float0" if aval.dtype == float0 else aval.dtype.name
    return tuple(map(str, aval.shape)), dtype


def _aval(key: tuple[tuple[str, ...], str]) -> dict[int, Content]:
    shape, dtype = key
    if dtype not in schema.DTYPES:
        raise NotImplementedError(f"JAX's exports have no arrays of dtype {dtype}")
    return {
        schema.AVAL_SHAPE: list(shape),
        schema.AVAL_DTYPE: Numbers("b", schema.DTYPES.index(dtype)),
        schema.AVAL_MEMORY: Numbers("b", _DEVICE_MEMORY),
    }


def _safety_check(check: DisabledSafetyCheck) -> dict[int, Content]:
    target = check.is_custom_call()
    if target is None:
        return {schema.CHECK_KIND: Numbers("b", schema.CHECK_PLATFORM)}
    kind = Numbers("b", schema.CHECK_CUSTOM_CALL)
    return {schema.CHECK_KIND: kind, schema.CHECK_TARGET: target}


# --------------------------------------------------------------------------------------- structures


def _tree(structure: tree_util.PyTreeDef) -> dict[int, Content]:
    return _node(to_tree(structure).data)


def _node(data: Any) -> dict[int, Content]:
    if data == "*" or data is None:
        return {schema.NODE_KIND: Numbers("b", schema.LEAF if data == "*" else schema.NONE)}
    for kind, name in (schema.TUPLE, "tuple"), (schema.LIST, "list"):
        if name in data:
            children = list(map(_node, data[name]))
            return {schema.NODE_KIND: Numbers("b", kind), schema.NODE_CHILDREN: children}
    for name in ("dict", "ordered_dict"):
        if name in data:
            return _dictionary(name, data[name])
    name = data.get("namedtuple") or data["node"]
    if name.startswith("gnomon."):
        raise ValueError(f"a structure has nodes of the class {name}, which JAX does not have")
    field_names = data.get("fields")
    auxiliary = (
        base64.b64decode(data["data"]) if field_names is None else json.dumps(field_names).encode()
    )
    return _custom(name, auxiliary, data["children"])


def _dictionary(name: str, items: Sequence[tuple[Any, Any]]) -> dict[int, Content]:
    keys, children = [key for key, _ in items], [child for _, child in items]
    wrong = [key for key in keys if not isinstance(key, str)]
    if wrong:
        raise ValueError(f"keys of dictionaries in JAX's exports must be str, got {wrong[0]!r}")
    if name == "ordered_dict":
        return _custom(schema.ORDERED_DICT, json.dumps(keys).encode(), children)
    return {
        schema.NODE_KIND: Numbers("b", schema.DICT),
        schema.NODE_CHILDREN: list(map(_node, children)),
        schema.NODE_KEYS: keys,
    }


def _custom(name: str, auxiliary: bytes, children: Sequence[Any]) -> dict[int, Content]:
    return {
        schema.NODE_KIND: Numbers("b", schema.CUSTOM),
        schema.NODE_CHILDREN: list(map(_node, children)),
        schema.NODE_NAME: name,
        schema.NODE_DATA: Bytes(auxiliary),
    }


# ----------------------------------------------------------------------------------------- programs


def _module(exported: Exported) -> bytes:
    """The portable artifact; the arrays that the function closes over are its constants."""
    texts = set(exported.programs.values())
    if len(texts) > 1:
        raise NotImplementedError(
            f"the function {exported.fun_name!r} has another program for each platform; export it "
            "for one platform to write it for JAX"
        )
    ensure_context()
    source, program = Program(ir.Module.parse(texts.pop(), context())), Program()
    program.rename(source.module_name)
    inner = program.import_body(source, source.body("main"), {})
    has_index = len(exported.platforms) > 1
    index = [TensorType((), np.dtype(np.int32))] if has_index else []
    count = len(exported.module_kept_var_idx)
    body = Body.open([*index, *inner.argument_types[:count]])
    with ir.InsertionPoint(body.block), ir.Location.unknown(context()):
        closed_over = [constant(np.asarray(x)) for x in exported.closed_over]
        results = iter(inner.inline([*body.arguments[len(index) :], *closed_over]))
        # A float0 is i1 in JAX's programs.
        body.close(
            [
                full(TensorType(a.shape, np.dtype(np.bool_)), 0)
                if a.dtype == float0
                else next(results)
                for a in exported.out_avals
            ]
        )
    program.add("main", body, public=True)
    steps = lowered(program)
    _check_calls(steps.module, exported.fun_name)
    return steps.artifact(version=_STABLEHLO).portable


def _check_calls(module: ir.Module, name: str) -> None:
    """Refuse calls of functions that XLA does not have."""
    calls: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "stablehlo.custom_call":
            calls.append(str(ir.StringAttr(op.attributes["call_target_name"]).value))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    unknown = sorted(set(calls) - _CUSTOM_CALLS)
    if unknown:
        raise NotImplementedError(
            f"the function {name!r} calls {', '.join(unknown)}, which only gnomon runs"
        )
