"""Structures of arguments and results as data: JSON instead of pickle.

A leaf is ``"*"`` and None is ``null``. Any other node is an object with one of these keys:

- ``"tuple"``, ``"list"``: the children.
- ``"dict"``, ``"ordered_dict"``: pairs of a key (a string, an integer or a boolean) and a child.
- ``"namedtuple"``: the name of its type, with ``"fields"`` and ``"children"``.
- ``"node"``: the name that a class is registered by, with ``"data"`` (base64) and ``"children"``.

A named tuple comes back as one with the same name and fields. A node of a class that
`register_node` does not know comes back as an `Opaque`, which calls accept as an argument.
"""

from __future__ import annotations

import base64
import collections
import functools
import keyword
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

__all__ = [
    "Node",
    "Opaque",
    "Tree",
    "TreeFormatError",
    "register_namedtuple",
    "register_node",
]

_MAX_DEPTH = 200


class TreeFormatError(ValueError):
    """Data does not describe a structure."""


class Node(NamedTuple):
    """How instances of a class are flattened and unflattened.

    Attributes:
      type: the class.
      flatten: from an instance to its children, and bytes that describe the rest of it.
      unflatten: from those bytes and children to an instance.
    """

    type: type
    flatten: Callable[[Any], tuple[Sequence[Any], bytes]]
    unflatten: Callable[[bytes, Sequence[Any]], Any]


class Opaque(NamedTuple):
    """A node of a class that is not known in this process.

    Attributes:
      name: the name under which its class is registered.
      data: the auxiliary data.
      children: its children.
    """

    name: str
    data: bytes
    children: tuple[Any, ...]


_nodes: dict[str, Node] = {}
_namedtuples: dict[str, type] = {}


def register_node(name: str, node: Node) -> None:
    """Register the class of nodes that have a given name in artifacts.

    Raises:
      ValueError: the name is taken.
    """
    if name in _nodes:
        raise ValueError(f"the name {name!r} is already registered, for {_nodes[name].type!r}")
    _nodes[name] = node


def register_namedtuple(name: str, type_: type) -> None:
    """Register the type of named tuples that have a given name in artifacts.

    Raises:
      ValueError: the name is taken.
    """
    if name in _namedtuples:
        raise ValueError(f"the name {name!r} is already registered, for {_namedtuples[name]!r}")
    _namedtuples[name] = type_
    _namedtuple_type.cache_clear()


@functools.lru_cache(1024)
def _namedtuple_type(name: str, fields: tuple[str, ...]) -> type:
    known = _namedtuples.get(name)
    if known is not None and getattr(known, "_fields", None) == fields:
        return known
    short = name.rpartition(".")[2]
    return collections.namedtuple(short if _is_name(short) else "Result", fields)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text) and not text.startswith("_")


class Tree:
    """A structure.

    Args:
      data: as the module's docstring describes it.

    Attributes:
      data: the argument.
      num_leaves: the number of leaves.

    Raises:
      TreeFormatError: the data does not describe a structure.

    Example:
      >>> tree = Tree({"tuple": ["*", {"dict": [["b", "*"]]}]})
      >>> tree.flatten((1, {"b": 2}))
      [1, 2]
      >>> tree.unflatten([3, 4])
      (3, {'b': 4})
    """

    def __init__(self, data: Any) -> None:
        self.data = data
        self.num_leaves = _count(data, 0)

    def flatten(self, value: Any, name: str = "the arguments") -> list[Any]:
        """The leaves of a value of this structure.

        Raises:
          TypeError: its structure is another one; the message says where.
        """
        leaves: list[Any] = []
        _flatten(self.data, value, name, leaves)
        return leaves

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The value of this structure with these leaves.

        Raises:
          ValueError: there are too few leaves or too many.
        """
        if len(leaves) != self.num_leaves:
            raise ValueError(f"the structure has {self.num_leaves} leaves, got {len(leaves)}")
        return _unflatten(self.data, iter(leaves))

    def paths(self) -> list[str]:
        """A name for each leaf: how it is reached from the root."""
        return list(_paths(self.data, ""))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self.data == other.data

    def __hash__(self) -> int:
        return hash(repr(self.data))

    def __repr__(self) -> str:
        return f"Tree({_shown(self.data)})"


# ------------------------------------------------------------------------------------- the format


def _parts(data: Any) -> tuple[str, list[Any], list[str]]:
    """The kind of a node, its children, and how a path names each of them."""
    if data is None:
        return "none", [], []
    if data == "*" and isinstance(data, str):
        return "leaf", [], []
    if isinstance(data, dict):
        kind = next(iter(data), None)
        keys = tuple(data)
        if keys in (("tuple",), ("list",)) and isinstance(data[kind], list):
            return str(kind), data[kind], [f"[{i}]" for i in range(len(data[kind]))]
        if keys in (("dict",), ("ordered_dict",)) and isinstance(data[kind], list):
            return str(kind), *_items(data[kind])
        if keys == ("namedtuple", "fields", "children") and isinstance(data["children"], list):
            return "namedtuple", data["children"], [f".{field}" for field in _fields(data)]
        if keys == ("node", "data", "children") and isinstance(data["children"], list):
            _node_data(data)
            return "node", data["children"], [f"<{i}>" for i in range(len(data["children"]))]
    raise TreeFormatError("a part of it is not a node of a structure")


def _items(pairs: list[Any]) -> tuple[list[Any], list[str]]:
    keys, children = [], []
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], (str, int))):
            raise TreeFormatError("a part of a dictionary is not a pair of a key and a child")
        keys.append(pair[0])
        children.append(pair[1])
    if len(set(keys)) != len(keys):
        raise TreeFormatError("a dictionary has a key twice")
    return children, [f"[{key!r}]" for key in keys]


def _fields(data: dict[str, Any]) -> tuple[str, ...]:
    fields = data["fields"]
    if (
        not isinstance(data["namedtuple"], str)
        or not isinstance(fields, list)
        or not all(isinstance(field, str) and _is_name(field) for field in fields)
        or not len(set(fields)) == len(fields) == len(data["children"])
    ):
        raise TreeFormatError("the fields of a named tuple do not match its children")
    return tuple(fields)


def _node_data(data: dict[str, Any]) -> bytes:
    try:
        if isinstance(data["node"], str) and isinstance(data["data"], str):
            return base64.b64decode(data["data"], validate=True)
    except ValueError:
        pass
    raise TreeFormatError("a registered node has no name, or no data in base64")


def _count(data: Any, depth: int) -> int:
    if depth > _MAX_DEPTH:
        raise TreeFormatError(f"it is deeper than {_MAX_DEPTH} nodes")
    kind, children, _ = _parts(data)
    return 1 if kind == "leaf" else sum(_count(child, depth + 1) for child in children)


def _paths(data: Any, path: str) -> Iterator[str]:
    kind, children, names = _parts(data)
    if kind == "leaf":
        yield path
    for child, name in zip(children, names, strict=True):
        yield from _paths(child, path + name)


def _shown(data: Any) -> str:
    kind, children, names = _parts(data)
    inner = [_shown(child) for child in children]
    match kind:
        case "leaf":
            return "*"
        case "none":
            return "None"
        case "tuple":
            return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
        case "list":
            return f"[{', '.join(inner)}]"
        case "dict" | "ordered_dict":
            pairs = zip(names, inner, strict=True)
            return "{" + ", ".join(f"{name[1:-1]}: {text}" for name, text in pairs) + "}"
        case "namedtuple":
            pairs = zip(names, inner, strict=True)
            fields = ", ".join(f"{name[1:]}={text}" for name, text in pairs)
            return f"{data['namedtuple']}({fields})"
        case _:
            return f"{data['node']}({', '.join(inner)})"


# ---------------------------------------------------------------------- flatten and unflatten


def _flatten(data: Any, value: Any, path: str, leaves: list[Any]) -> None:
    kind, children, names = _parts(data)
    if kind == "leaf":
        leaves.append(value)
        return
    for child, name, part in zip(
        children, names, _children(data, kind, value, path, len(children)), strict=True
    ):
        _flatten(child, part, path + name, leaves)


def _children(data: Any, kind: str, value: Any, path: str, count: int) -> Sequence[Any]:
    """The children of a value that is to be a node of some kind."""
    match kind:
        case "none":
            fits = value is None
            children: Sequence[Any] = ()
        case "tuple":
            fits = isinstance(value, tuple) and not hasattr(value, "_fields")
            children = value
        case "list":
            fits = isinstance(value, list)
            children = value
        case "dict" | "ordered_dict":
            fits = isinstance(value, dict)
            keys = [pair[0] for pair in data[kind]]
            if fits and set(value) != set(keys):
                raise TypeError(f"{path} has the keys {sorted(map(repr, value))}, not {keys}")
            children = [value[key] for key in keys] if fits else ()
        case "namedtuple":
            fits = list(getattr(value, "_fields", ())) == data["fields"]
            children = value
        case _:
            return _registered_children(data, value, path, count)
    if not fits:
        raise TypeError(f"{path} must be {_shown(data)}, got {type(value).__name__}")
    if len(children) != count:
        raise TypeError(f"{path} must have {count} parts, got {len(children)}")
    return children


def _registered_children(data: Any, value: Any, path: str, count: int) -> Sequence[Any]:
    name, wanted = data["node"], _node_data(data)
    node = _nodes.get(name)
    if isinstance(value, Opaque) and value.name == name:
        children, static = value.children, value.data
    elif node is None:
        raise TypeError(
            f"{path} must be an instance of a class that is registered as {name!r}: register it "
            "with gnomon_runtime.register_node, or gnomon.export.register_pytree_node_serialization"
        )
    elif type(value) is not node.type:
        raise TypeError(
            f"{path} must be an instance of {node.type.__name__}, got {type(value).__name__}"
        )
    else:
        parts, static = node.flatten(value)
        children = tuple(parts)
    if static != wanted or len(children) != count:
        raise TypeError(f"{path}: this {name} differs in its static fields")
    return children


def _unflatten(data: Any, leaves: Iterator[Any]) -> Any:
    kind, children, _ = _parts(data)
    if kind == "leaf":
        return next(leaves)
    if kind == "none":
        return None
    values = [_unflatten(child, leaves) for child in children]
    match kind:
        case "tuple":
            return tuple(values)
        case "list":
            return values
        case "dict":
            return dict(zip([pair[0] for pair in data[kind]], values, strict=True))
        case "ordered_dict":
            keys = [pair[0] for pair in data[kind]]
            return collections.OrderedDict(zip(keys, values, strict=True))
        case "namedtuple":
            return _namedtuple_type(data["namedtuple"], tuple(data["fields"]))(*values)
        case _:
            node, static = _nodes.get(data["node"]), _node_data(data)
            if node is None:
                return Opaque(data["node"], static, tuple(values))
            return node.unflatten(static, values)
