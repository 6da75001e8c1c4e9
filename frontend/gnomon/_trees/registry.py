"""The types that are nodes of trees, and functions that flatten one level of a node.

The registry is optree's, in a namespace of our own. In addition, we keep the functions that name
the children of registered types, for which optree has no place.
"""

from __future__ import annotations

import collections
import dataclasses
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import optree

from gnomon._trees.keys import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

__all__ = [
    "NAMESPACE",
    "flatten_node",
    "flatten_node_with_keys",
    "flatten_one_level",
    "is_container",
    "is_tree_node",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "static",
    "unflatten_function",
]

NAMESPACE = "gnomon"

Children = Iterable[Any]
Flatten = Callable[[Any], tuple[Children, Any]]
Unflatten = Callable[[Any, Any], Any]
T = TypeVar("T", bound=type)


@dataclasses.dataclass(frozen=True)
class _Node:
    """The functions of a registered type: flatten, unflatten, and flatten with keys."""

    flatten: Flatten
    unflatten: Unflatten
    flatten_with_keys: Flatten | None


_nodes: dict[type, _Node] = {}


def _register(
    nodetype: type, flatten: Flatten, unflatten: Unflatten, flatten_with_keys: Flatten | None
) -> None:
    if not isinstance(nodetype, type):
        raise TypeError(
            f"only classes can be registered as pytree nodes, got {nodetype!r} of type "
            f"{type(nodetype).__name__}"
        )
    if nodetype in _nodes:
        raise ValueError(
            f"{nodetype.__module__}.{nodetype.__qualname__} is already registered as a pytree node"
        )

    def flatten_to_tuple(node: Any) -> tuple[tuple[Any, ...], Any]:
        flat: Any = flatten(node)
        try:
            children, data = flat
            return tuple(children), data
        except (TypeError, ValueError):
            if isinstance(flat, tuple) and len(flat) == 2 and isinstance(flat[0], Iterable):
                raise  # Iterating over the children has failed.
            raise ValueError(
                f"the flatten function of {nodetype.__qualname__} must return a pair of an "
                f"iterable of children and auxiliary data, got {flat!r}"
            ) from None

    try:
        with warnings.catch_warnings():
            # That a named tuple, which is a node already, gets functions of its own.
            warnings.simplefilter("ignore", UserWarning)
            optree.register_pytree_node(nodetype, flatten_to_tuple, unflatten, namespace=NAMESPACE)
    except ValueError as error:
        raise ValueError(
            f"{nodetype.__module__}.{nodetype.__qualname__} is a built-in pytree node and cannot "
            "be registered"
        ) from error
    _nodes[nodetype] = _Node(flatten_to_tuple, unflatten, flatten_with_keys)


def register_pytree_node(
    nodetype: type,
    flatten_func: Flatten,
    unflatten_func: Unflatten,
    flatten_with_keys_func: Flatten | None = None,
) -> None:
    """Make a class a node of trees.

    Args:
      nodetype: the class; its subclasses are not registered.
      flatten_func: maps an instance to ``(children, aux_data)``: an iterable of subtrees, and a
        value with ``==`` and ``hash`` that holds everything else.
      unflatten_func: maps ``(aux_data, children)`` to an instance. The children may be any objects,
        since transformations pass placeholders.
      flatten_with_keys_func: maps an instance to ``(pairs of key and child, aux_data)``.
    Raises:
      ValueError: the class is registered already.

    Example:
      >>> from gnomon import tree_util
      >>> class Interval:
      ...     def __init__(self, low, high):
      ...         self.low, self.high = low, high
      ...
      >>> tree_util.register_pytree_node(
      ...     Interval, lambda x: ((x.low, x.high), None), lambda _, children: Interval(*children)
      ... )
      >>> doubled = tree_util.tree_map(lambda x: 2 * x, Interval(1, 3))
      >>> doubled.low, doubled.high
      (2, 6)

    See also:
      `register_dataclass`, `register_pytree_node_class`
    """
    _register(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_node_class(cls: T) -> T:
    """Make a class a node of trees by its methods ``tree_flatten`` and ``tree_unflatten``.

    A decorator. ``tree_flatten(self)`` gives ``(children, aux_data)``; the class method
    ``tree_unflatten(cls, aux_data, children)`` makes an instance.

    Args:
      cls: the class.
    Returns:
      The class.

    Example:
      >>> from gnomon import tree_util
      >>> @tree_util.register_pytree_node_class
      ... class Interval:
      ...     def __init__(self, low, high):
      ...         self.low, self.high = low, high
      ...     def tree_flatten(self):
      ...         return (self.low, self.high), None
      ...     @classmethod
      ...     def tree_unflatten(cls, aux_data, children):
      ...         return cls(*children)
      ...
      >>> tree_util.tree_leaves(Interval(1, 3))
      [1, 3]
    """
    decorated: Any = cls
    _register(cls, lambda node: node.tree_flatten(), decorated.tree_unflatten, None)
    return cls


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Flatten,
    unflatten_func: Unflatten,
    flatten_func: Flatten | None = None,
) -> None:
    """Make a class a node of trees whose children have names.

    Args:
      nodetype: the class.
      flatten_with_keys: maps an instance to ``(pairs, aux_data)``; each pair is a key, such as
        ``GetAttrKey("x")``, and a child.
      unflatten_func: maps ``(aux_data, children)`` to an instance.
      flatten_func: maps an instance to ``(children, aux_data)``, if this is faster without keys.

    Example:
      >>> from gnomon import tree_util
      >>> class Interval:
      ...     def __init__(self, low, high):
      ...         self.low, self.high = low, high
      ...
      >>> def flatten(x):
      ...     names = "low", "high"
      ...     return [(tree_util.GetAttrKey(name), getattr(x, name)) for name in names], None
      ...
      >>> tree_util.register_pytree_with_keys(Interval, flatten, lambda _, xs: Interval(*xs))
      >>> [tree_util.keystr(path) for path, _ in tree_util.tree_leaves_with_path(Interval(1, 3))]
      ['.low', '.high']
    """

    def without_keys(node: Any) -> tuple[Children, Any]:
        pairs, data = flatten_with_keys(node)
        return [child for _, child in pairs], data

    _register(nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: T) -> T:
    """Make a class a node of trees with named children, by its methods.

    A decorator. ``tree_flatten_with_keys(self)`` gives pairs of key and child, and auxiliary data;
    the class method ``tree_unflatten(cls, aux_data, children)`` makes an instance.

    Args:
      cls: the class.
    Returns:
      The class.

    Example:
      >>> from gnomon import tree_util
      >>> @tree_util.register_pytree_with_keys_class
      ... class Scale:
      ...     def __init__(self, factor):
      ...         self.factor = factor
      ...     def tree_flatten_with_keys(self):
      ...         return [(tree_util.GetAttrKey("factor"), self.factor)], None
      ...     @classmethod
      ...     def tree_unflatten(cls, aux_data, children):
      ...         return cls(*children)
      ...
      >>> [(tree_util.keystr(path), x) for path, x in tree_util.tree_leaves_with_path(Scale(3))]
      [('.factor', 3)]
    """
    decorated: Any = cls
    register_pytree_with_keys(
        cls,
        lambda node: node.tree_flatten_with_keys(),
        decorated.tree_unflatten,
        (lambda node: node.tree_flatten()) if hasattr(cls, "tree_flatten") else None,
    )
    return cls


def register_dataclass(
    nodetype: T,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> T:
    """Make a dataclass, or a similar class, a node of trees; also usable as a decorator.

    Args:
      nodetype: a class whose constructor takes its fields as keyword arguments.
      data_fields: the fields that hold subtrees.
      meta_fields: the static fields: they hold hashable values, which are a part of the structure.
        Both may be left out for a dataclass. Its static fields are then those that are declared by
        `static`, or with ``metadata={"static": True}``.
      drop_fields: fields of a dataclass that are neither, and that always have their default.
    Returns:
      The class.
    Raises:
      TypeError: only one of ``data_fields`` and ``meta_fields`` is given, or neither for a class
        that is not a dataclass.
      ValueError: the fields are not all fields of the constructor, each once.

    Example:
      >>> from gnomon import tree_util
      >>> import dataclasses
      >>> @tree_util.register_dataclass
      ... @dataclasses.dataclass
      ... class Layer:
      ...     weights: list
      ...     name: str = dataclasses.field(metadata={"static": True})
      ...
      >>> tree_util.tree_map(lambda x: 2 * x, Layer([1, 2], "first"))
      Layer(weights=[2, 4], name='first')

    See also:
      `register_pytree_node`
    """
    name = getattr(nodetype, "__qualname__", str(nodetype))
    if (data_fields is None) != (meta_fields is None):
        raise TypeError(
            f"register_dataclass({name}): pass both data_fields and meta_fields, or neither; got "
            f"data_fields={data_fields}, meta_fields={meta_fields}"
        )
    is_dataclass = dataclasses.is_dataclass(nodetype)
    if data_fields is None or meta_fields is None:
        if not is_dataclass:
            raise TypeError(
                f"register_dataclass({name}): data_fields and meta_fields are needed for a class "
                "that is not a dataclass"
            )
        declared = [f for f in dataclasses.fields(nodetype) if f.name not in drop_fields]
        data_fields = [f.name for f in declared if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in declared if f.metadata.get("static", False)]
    data, meta = tuple(data_fields), tuple(meta_fields)
    if is_dataclass:
        _check_fields(nodetype, data, meta, drop_fields)
    overlap = sorted(set(data) & set(meta))
    if overlap:
        raise ValueError(
            f"register_dataclass({name}): {', '.join(overlap)} cannot be both data and meta fields"
        )

    def flatten(node: Any) -> tuple[Children, Any]:
        return (
            [getattr(node, field) for field in data],
            tuple(getattr(node, field) for field in meta),
        )

    def flatten_with_keys(node: Any) -> tuple[Children, Any]:
        pairs = [(GetAttrKey(field), getattr(node, field)) for field in data]
        return pairs, tuple(getattr(node, field) for field in meta)

    def unflatten(values: Any, children: Any) -> Any:
        fields = dict(zip(meta, values, strict=True))
        fields.update(zip(data, children, strict=True))
        return nodetype(**fields)

    _register(nodetype, flatten, unflatten, flatten_with_keys)
    return nodetype


def _check_fields(
    nodetype: Any, data: tuple[str, ...], meta: tuple[str, ...], drop_fields: Sequence[str]
) -> None:
    needed = {f.name for f in dataclasses.fields(nodetype) if f.init} - set(drop_fields)
    given = {*data, *meta}
    problems = []
    if needed - given:
        problems.append(
            f"{', '.join(sorted(needed - given))} missing (name a field in drop_fields to leave it "
            "out)"
        )
    if given - needed:
        problems.append(f"{', '.join(sorted(given - needed))} not a field of the constructor")
    if problems:
        raise ValueError(
            f"register_dataclass({nodetype.__qualname__}): data_fields and meta_fields must "
            f"together be all fields of the constructor: {'; '.join(problems)}"
        )


def static(**kwargs: Any) -> Any:
    """Declare a static field of a dataclass for `register_dataclass`.

    Args:
      kwargs: arguments of `dataclasses.field`; ``metadata`` gets the entry "static".
    Returns:
      A field of a dataclass.

    Example:
      >>> import dataclasses
      >>> import gnomon as gn
      >>> @gn.tree_util.register_dataclass
      ... @dataclasses.dataclass
      ... class Layer:
      ...     weights: list
      ...     name: str = gn.tree.static(default="layer")
      ...
      >>> gn.tree.leaves(Layer([1, 2]))
      [1, 2]
    """
    metadata = {"static": True, **(kwargs.pop("metadata", None) or {})}
    return dataclasses.field(metadata=metadata, **kwargs)


def register_static(cls: T) -> T:
    """Make a class a node without children: its instances are static parts of the structure.

    A decorator. Instances need ``==`` and ``hash``.

    Args:
      cls: a class whose instances have ``==`` and ``hash``.
    Returns:
      The class, so that this is a decorator.

    Example:
      >>> from gnomon import tree_util
      >>> @tree_util.register_static
      ... class Mode(str):
      ...     pass
      ...
      >>> tree_util.tree_leaves([Mode("train"), 1])
      [1]
    """
    _register(cls, lambda node: ((), node), lambda node, _: node, lambda node: ((), node))
    return cls


# ---------------------------------------------------------------------------------------- one level


def _is_leaf(tree: Any) -> bool:
    return bool(optree.tree_is_leaf(tree, namespace=NAMESPACE))


_CONTAINERS = (
    type(None),
    tuple,
    list,
    dict,
    collections.OrderedDict,
    collections.defaultdict,
    collections.deque,
)


def is_container(typ: type | None) -> bool:
    """Whether a type is a container of Python, including named tuples."""
    return (
        typ is None
        or typ in _CONTAINERS
        or optree.is_namedtuple_class(typ)
        or optree.is_structseq_class(typ)
    )


def is_tree_node(typ: type) -> bool:
    """Whether the instances of a class are nodes of trees.

    Args:
      typ: a class.
    Returns:
      True for registered classes and for tuples, named tuples, lists, dictionaries and None.

    Example:
      >>> from gnomon import tree_util
      >>> tree_util.is_tree_node(list), tree_util.is_tree_node(int)
      (True, False)
    """
    return typ in _nodes or is_container(typ)


def unflatten_function(nodetype: type) -> Unflatten | None:
    """The unflatten function of a registered type; None for other types."""
    node = _nodes.get(nodetype)
    return None if node is None else node.unflatten


def flatten_node(tree: Any) -> tuple[list[Any], Hashable]:
    """The children of a node, and its auxiliary data.

    Args:
      tree: a pytree that is not a leaf.
    Returns:
      ``(children, aux_data)``; the children may be nodes.
    Raises:
      ValueError: the tree is a leaf.

    Example:
      >>> from gnomon import tree_util
      >>> tree_util.flatten_one_level({"a": [1, 2], "b": 3})
      ([[1, 2], 3], ('a', 'b'))

    See also:
      `tree_flatten`, which flattens all levels
    """
    node = _nodes.get(type(tree))
    if node is not None:
        children, data = node.flatten(tree)
        return list(children), data
    if _is_leaf(tree):
        raise ValueError(f"a value of type {type(tree).__name__} is a leaf: it has no children")
    children, metadata, *_ = optree.tree_flatten_one_level(tree, namespace=NAMESPACE)
    return list(children), _hashable(metadata)


def _hashable(metadata: Any) -> Hashable:
    """The metadata of a container that optree returns, with lists converted to tuples."""
    if isinstance(metadata, list):
        return tuple(metadata)
    if isinstance(metadata, tuple):
        return tuple(_hashable(part) for part in metadata)
    return metadata


def flatten_node_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Hashable]:
    """The pairs of key and child of a node, and its auxiliary data.

    Args:
      tree: a pytree that is not a leaf.
    Returns:
      ``(pairs, aux_data)``; the children may be nodes.
    Raises:
      ValueError: the tree is a leaf.

    Example:
      >>> from gnomon import tree_util
      >>> tree_util.flatten_one_level_with_keys([10, 20])
      ([(SequenceKey(idx=0), 10), (SequenceKey(idx=1), 20)], None)
    """
    node = _nodes.get(type(tree))
    if node is not None and node.flatten_with_keys is not None:
        pairs, data = node.flatten_with_keys(tree)
        return [(key, child) for key, child in pairs], data
    children, data = flatten_node(tree)
    keys: list[Any]
    if node is not None:
        keys = [FlattenedIndexKey(i) for i in range(len(children))]
    elif isinstance(tree, dict):
        node_of_any: Any = tree
        entries = optree.tree_flatten_one_level(node_of_any, namespace=NAMESPACE)[2]
        keys = [DictKey(key) for key in entries]
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        keys = [GetAttrKey(field) for field in tree._fields]
    else:
        keys = [SequenceKey(i) for i in range(len(children))]
    return list(zip(keys, children, strict=True)), data


def flatten_one_level(tree: Any) -> tuple[tuple[Any, ...], Hashable] | None:
    """Flatten one level of a value for the native code that flattens arguments.

    The native code itself handles plain tuples, lists and dictionaries.

    Returns:
      None for a leaf. For a node, its children and a hashable value; the type of the node and this
      value determine its structure.
    """
    node = _nodes.get(type(tree))
    if node is not None:
        children, data = node.flatten(tree)
        return tuple(children), data
    if _is_leaf(tree):
        return None
    children, metadata, *_ = optree.tree_flatten_one_level(tree, namespace=NAMESPACE)
    return tuple(children), _hashable(metadata)
