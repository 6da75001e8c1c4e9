"""Pytree structures in artifacts, and the names that node classes have there."""

from __future__ import annotations

import base64
import collections
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gnomon import tree_util
from gnomon._tracing.function import NoTangent
from gnomon._trees.prefixes import HOLE
from gnomon._trees.registry import unflatten_function
from gnomon.random._implementations import implementation
from gnomon.random._key_array import KeyArray
from gnomon_runtime import tree as runtime_tree
from gnomon_runtime.tree import Tree

__all__ = [
    "from_tree",
    "node_from_children",
    "register_namedtuple_serialization",
    "register_pytree_node_serialization",
    "to_tree",
]

T = TypeVar("T", bound=type)

_PLAIN: dict[type, str] = {tuple: "tuple", list: "list"}
_DICTIONARIES: dict[type, str] = {dict: "dict", collections.OrderedDict: "ordered_dict"}


@dataclass(frozen=True)
class _Registered:
    """The conversions of a node class to and from its form in artifacts."""

    type: type
    name: str
    serialize: Callable[[Any], bytes]
    deserialize: Callable[[bytes], Any]
    from_children: Callable[[Any, Sequence[Any]], Any]


_by_type: dict[type, _Registered] = {}
_by_name: dict[str, _Registered] = {}


def _is_namedtuple(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, tuple) and hasattr(type_, "_fields")


def _check_new(nodetype: type, serialized_name: str) -> None:
    if nodetype in _by_type:
        raise ValueError(
            f"{nodetype!r} is already registered for serialization, under the name "
            f"{_by_type[nodetype].name!r}"
        )
    if serialized_name in _by_name:
        raise ValueError(
            f"the name {serialized_name!r} is already taken by {_by_name[serialized_name].type!r}"
        )


def register_pytree_node_serialization(
    nodetype: T,
    *,
    serialized_name: str,
    serialize_auxdata: Callable[[Any], bytes],
    deserialize_auxdata: Callable[[bytes], Any],
    from_children: Callable[[Any, Sequence[Any]], Any] | None = None,
) -> T:
    """Give a class of tree nodes a name in artifacts.

    Args:
      nodetype: a class that `tree_util.register_pytree_node` knows.
      serialized_name: its name in artifacts.
      serialize_auxdata: converts the auxiliary data of a node to bytes.
      deserialize_auxdata: converts these bytes back to the auxiliary data.
      from_children: makes a node from the auxiliary data and the children; by default the function
        that the class was registered with.
    Returns:
      The class.
    Raises:
      ValueError: the class or the name is registered already, or the class is not a pytree
        node.

    Example:
      >>> import gnomon as gn
      >>> from gnomon import export
      >>> @gn.tree_util.register_pytree_node_class
      ... class Scaled:
      ...     def __init__(self, x, factor):
      ...         self.x, self.factor = x, factor
      ...     def tree_flatten(self):
      ...         return (self.x,), self.factor
      ...     @classmethod
      ...     def tree_unflatten(cls, factor, children):
      ...         return cls(*children, factor)
      ...
      >>> _ = export.register_pytree_node_serialization(
      ...     Scaled,
      ...     serialized_name="docs.Scaled",
      ...     serialize_auxdata=lambda factor: str(factor).encode(),
      ...     deserialize_auxdata=lambda data: int(data.decode()),
      ... )
    """
    _check_new(nodetype, serialized_name)
    registered = unflatten_function(nodetype)
    make = from_children or registered
    if make is None:
        raise ValueError(
            f"{nodetype!r} is not registered as a pytree node; call "
            "tree_util.register_pytree_node first, or pass from_children"
        )
    result = registered or make

    def flatten(node: Any) -> tuple[Sequence[Any], bytes]:
        children, data = tree_util.flatten_one_level(node)
        return tuple(children), serialize_auxdata(data)

    def unflatten(data: bytes, children: Sequence[Any]) -> Any:
        return result(deserialize_auxdata(data), children)

    runtime_tree.register_node(serialized_name, runtime_tree.Node(nodetype, flatten, unflatten))
    _by_type[nodetype] = _by_name[serialized_name] = _Registered(
        nodetype, serialized_name, serialize_auxdata, deserialize_auxdata, make
    )
    return nodetype


def register_namedtuple_serialization(nodetype: T, *, serialized_name: str) -> T:
    """Give a named tuple's type a name in artifacts.

    Args:
      nodetype: the type.
      serialized_name: the name, unique in the program that loads the artifact.
    Returns:
      The type.
    Raises:
      ValueError: the type or the name is registered already, or the type is not a named tuple.

    Example:
      >>> from gnomon import export
      >>> import collections
      >>> Point = collections.namedtuple("Point", ["x", "y"])
      >>> export.register_namedtuple_serialization(Point, serialized_name="docs.Point") is Point
      True
    """
    if not _is_namedtuple(nodetype):
        raise ValueError(
            f"{nodetype!r} is not a named tuple class; use register_pytree_node_serialization"
        )
    _check_new(nodetype, serialized_name)
    runtime_tree.register_namedtuple(serialized_name, nodetype)
    fields = nodetype._fields  # type: ignore[attr-defined]
    _by_type[nodetype] = _by_name[serialized_name] = _Registered(
        nodetype,
        serialized_name,
        lambda _: json.dumps(fields).encode(),
        json.loads,
        lambda names, children: nodetype(**dict(zip(names, children, strict=True))),
    )
    return nodetype


# ------------------------------------------------------------------- writing and reading structures


def to_tree(structure: tree_util.PyTreeDef) -> Tree:
    """Convert the structure of a pytree to JSON data.

    Raises:
      ValueError: the structure has nodes of a class that is not registered for serialization.
    """
    return Tree(_as_data(structure.unflatten([HOLE] * structure.num_leaves)))


def _as_data(value: Any) -> Any:
    if value is HOLE:
        return "*"
    if value is None:
        return None
    kind = type(value)
    if kind in _PLAIN:
        return {_PLAIN[kind]: [_as_data(child) for child in value]}
    if kind in _DICTIONARIES:
        wrong = [key for key in value if not isinstance(key, (str, int))]
        if wrong:
            raise ValueError(
                f"keys of dictionaries in artifacts must be str or int, got {wrong[0]!r}"
            )
        keys = sorted(value) if kind is dict else value
        return {_DICTIONARIES[kind]: [[key, _as_data(value[key])] for key in keys]}
    entry = _by_type.get(kind)
    if entry is None:
        instead = (
            "register_namedtuple_serialization"
            if _is_namedtuple(kind)
            else "register_pytree_node_serialization"
        )
        raise ValueError(
            f"a pytree with nodes of {kind!r} cannot be serialized: register the class with "
            f"gnomon.export.{instead}"
        )
    if _is_namedtuple(kind):
        children = [_as_data(child) for child in value]
        return {"namedtuple": entry.name, "fields": list(kind._fields), "children": children}
    children, data = tree_util.flatten_one_level(value)
    encoded = base64.b64encode(entry.serialize(data)).decode()
    return {"node": entry.name, "data": encoded, "children": [_as_data(c) for c in children]}


def from_tree(tree: Tree) -> tree_util.PyTreeDef:
    """Convert the data of `to_tree` back to the structure of a pytree.

    Raises:
      ValueError: the structure has nodes of a class that is not registered for serialization.
    """
    return tree_util.tree_structure(_from_data(tree.data))


def _from_data(data: Any) -> Any:
    if data == "*":
        return HOLE
    if data is None:
        return None
    for kind, name in _PLAIN.items():
        if name in data:
            return kind(_from_data(child) for child in data[name])
    for kind, name in _DICTIONARIES.items():
        if name in data:
            return kind((key, _from_data(child)) for key, child in data[name])
    children = [_from_data(child) for child in data["children"]]
    if "namedtuple" in data:
        return _registered(data["namedtuple"]).from_children(data["fields"], children)
    return node_from_children(data["node"], base64.b64decode(data["data"]), children)


def node_from_children(name: str, data: bytes, children: Sequence[Any]) -> Any:
    """A node of a registered class.

    Args:
      name: the name that the class has in artifacts.
      data: its auxiliary data as bytes.
      children: its children.

    Raises:
      ValueError: no class is registered under the name.
    """
    entry = _registered(name)
    return entry.from_children(entry.deserialize(data), children)


def _registered(name: str) -> _Registered:
    entry = _by_name.get(name)
    if entry is None:
        raise ValueError(
            f"the pytree has nodes of a class that was serialized as {name!r}, but no class is "
            "registered under that name (gnomon.export.register_pytree_node_serialization, "
            "register_namedtuple_serialization)"
        )
    return entry


register_pytree_node_serialization(
    NoTangent,
    serialized_name="gnomon.NoTangent",
    serialize_auxdata=lambda shape: json.dumps(list(shape)).encode(),
    deserialize_auxdata=lambda data: tuple(json.loads(data)),
    from_children=lambda shape, _: NoTangent(shape),
)
register_pytree_node_serialization(
    KeyArray,
    serialized_name="gnomon.KeyArray",
    serialize_auxdata=lambda generator: str(generator.name).encode(),
    deserialize_auxdata=lambda name: implementation(name.decode()),
)
