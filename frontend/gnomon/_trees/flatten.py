"""Trees: nested containers whose leaves are arrays, flattened and unflattened by optree."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import optree

from gnomon._trees.keys import KeyPath
from gnomon._trees.order import sorted_dictionaries
from gnomon._trees.prefixes import HOLE, IsLeaf, broadcast_prefix, difference, structure_mismatch
from gnomon._trees.protocol_buffer import encode_nodes
from gnomon._trees.registry import (
    NAMESPACE,
    flatten_node_with_keys,
    flatten_one_level,
)

__all__ = [
    "PyTreeDef",
    "all_leaves",
    "flatten_one_level",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]


# The number of leaves among the kinds of optree's nodes.
_LEAF_KIND = 1


class PyTreeDef:
    """The structure of a tree without its leaves.

    `tree_structure` and `tree_flatten` make these objects. They are hashable and compare equal when
    the structures are equal.

    Attributes:
      num_leaves: the number of leaves.
      num_nodes: the number of nodes, leaves included.
    """

    __slots__ = ("_makes", "_spec")

    def __init__(self, spec: optree.PyTreeSpec) -> None:
        self._spec = spec
        self._makes: optree.PyTreeSpec | None = None  # the same, with sorted dictionaries

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return self._spec.num_leaves

    @property
    def num_nodes(self) -> int:
        """The number of nodes, leaves included."""
        return self._spec.num_nodes

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with these leaves; dictionaries have sorted keys.

        Raises:
          ValueError: there are too few leaves or too many.
        """
        leaves = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(leaves) != self._spec.num_leaves:
            raise ValueError(
                f"the structure {self} has {self._spec.num_leaves} leaves, got {len(leaves)}"
            )
        return self.maker()(leaves)

    def maker(self) -> Callable[[Iterable[Any]], Any]:
        """A function like `unflatten` that does not check the number of leaves."""
        if self._makes is None:
            self._makes = sorted_dictionaries(self._spec)
        return self._makes.unflatten

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of ``tree`` at the leaves of this structure.

        Raises:
          ValueError: this structure is not a prefix of that of ``tree``.
        """
        try:
            return self._spec.flatten_up_to(tree)
        except ValueError:
            try:
                found = structure_mismatch(self.unflatten([HOLE] * self.num_leaves), tree)
            except Exception:
                # A registered class does not accept placeholders; optree's message has to do.
                found = None
            if found is None:
                raise
            text = difference(found, "the structure", "the tree")
            raise ValueError(f"the tree does not have the prefix {self}: {text}") from None

    def children(self) -> list[PyTreeDef]:
        """The structures of the root's children."""
        return [PyTreeDef(child) for child in self._spec.children()]

    def _nodes(self) -> tuple[tuple[Any, ...], ...]:
        """The nodes in postorder, as their kind, arity, static data and more."""
        nodes: tuple[tuple[Any, ...], ...] = self._spec.__getstate__()[0]  # type: ignore
        return nodes

    def walk(
        self,
        f_node: Callable[[tuple[Any, ...], Any], Any],
        f_leaf: Callable[[Any], Any] | None,
        leaves: Iterable[Any],
    ) -> Any:
        """Compute a value of the tree of this structure with these leaves, bottom up.

        Args:
          f_node: called for each node with the values of its children and its static data, such as
            the keys of a dictionary; returns the node's value.
          f_leaf: a function from leaves to their values; None if they are the values.
          leaves: the leaves.

        Raises:
          ValueError: there are too few leaves or too many.
        """
        given = list(leaves)
        if len(given) != self._spec.num_leaves:
            raise ValueError(
                f"walk: the structure {self} has {self._spec.num_leaves} leaves, got {len(given)}"
            )
        rest = iter(given)
        values: list[Any] = []
        for kind, arity, data, *_ in self._nodes():
            if kind == _LEAF_KIND:
                leaf = next(rest)
                values.append(leaf if f_leaf is None else f_leaf(leaf))
                continue
            first = len(values) - arity
            values[first:] = [f_node(tuple(values[first:]), data)]
        (value,) = values
        return value

    def serialize_using_proto(self) -> bytes:
        """This structure as a protocol buffer, which JAX reads.

        Raises:
          ValueError: a node is neither None, a list, a tuple, nor a dictionary whose keys are
            strings.
        """
        return encode_nodes(self._nodes())

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """This structure with every leaf replaced by ``inner``."""
        return PyTreeDef(self._spec.compose(inner._spec))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PyTreeDef) and self._spec == other._spec

    def __hash__(self) -> int:
        return hash(self._spec)

    def __repr__(self) -> str:
        text = repr(self._spec).removeprefix("PyTreeSpec(").removesuffix(")")
        text = text.removesuffix(f", namespace={NAMESPACE!r}")
        return f"PyTreeDef({text.replace('CustomTreeNode(', 'CustomNode(')})"

    def __reduce__(self) -> Any:
        return PyTreeDef, (self._spec,)


# --------------------------------------------------------------------- flattening and unflattening


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree, left to right, and its structure.

    Args:
      tree: nested tuples, lists, dictionaries, named tuples, deques and registered classes; None is
        a node without leaves, anything else a leaf. Dictionaries are walked in the order of their
        sorted keys.
      is_leaf: called at each step; where it is true the subtree is a leaf.

    Example:
      >>> tree_flatten({"b": 1, "a": (2, None)})
      ([2, 1], PyTreeDef({'a': (*, None), 'b': *}))
    """
    leaves, spec = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    return leaves, PyTreeDef(spec)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree of a structure with given leaves.

    Args:
      treedef: a structure, from `tree_flatten` or `tree_structure`.
      leaves: an iterable of as many leaves as the structure has.
    Raises:
      ValueError: the number of leaves is wrong.

    Example:
      >>> from gnomon import tree_util
      >>> structure = tree_util.tree_structure({"a": 1, "b": [2, 3]})
      >>> tree_util.tree_unflatten(structure, ["x", "y", "z"])
      {'a': 'x', 'b': ['y', 'z']}
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree, left to right.

    Args:
      tree: a pytree.
      is_leaf: a function that is true for subtrees to take as leaves.
    Returns:
      A list. None is a node without leaves, and dictionaries are ordered by their keys.

    Example:
      >>> from gnomon import tree_util
      >>> tree_util.tree_leaves({"b": [1, None], "a": 2})
      [2, 1]
      >>> tree_util.tree_leaves({"b": [1, None], "a": 2}, is_leaf=lambda x: x is None)
      [2, 1, None]

    See also:
      `tree_flatten`
    """
    return optree.tree_leaves(tree, is_leaf, namespace=NAMESPACE)


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """The structure of a tree.

    Args:
      tree: a pytree.
      is_leaf: a function that is true for subtrees to take as leaves.

    Example:
      >>> from gnomon import tree_util
      >>> tree_util.tree_structure({"a": 1, "b": [2, 3]})
      PyTreeDef({'a': *, 'b': [*, *]})

    See also:
      `tree_flatten`, `tree_unflatten`
    """
    return PyTreeDef(optree.tree_structure(tree, is_leaf, namespace=NAMESPACE))


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether every element of an iterable is a leaf.

    Args:
      iterable: objects.
      is_leaf: a function that is true for subtrees to take as leaves.

    Example:
      >>> from gnomon import tree_util
      >>> tree_util.all_leaves([1, 2.0]), tree_util.all_leaves([1, [2.0]])
      (True, False)
    """
    items = list(iterable)
    leaves = tree_leaves(items, is_leaf)
    return len(leaves) == len(items) and all(a is b for a, b in zip(items, leaves, strict=True))


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of trees.

    Args:
      treedefs: the structures of the trees.

    Example:
      >>> from gnomon import tree_util
      >>> leaf = tree_util.tree_structure(0)
      >>> tree_util.treedef_tuple([leaf, leaf]) == tree_util.tree_structure((1, 2))
      True
    """
    specs = [treedef._spec for treedef in treedefs]
    return PyTreeDef(optree.treespec_tuple(specs, namespace=NAMESPACE))


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the root's children.

    Args:
      treedef: a structure.

    Example:
      >>> from gnomon import tree_util
      >>> tree_util.treedef_children(tree_util.tree_structure([1, (2, 3)]))
      [PyTreeDef(*), PyTreeDef((*, *))]
    """
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether a structure is a single leaf, or a node without children such as None.

    Args:
      treedef: a structure.

    Example:
      >>> from gnomon import tree_util
      >>> tree_util.treedef_is_leaf(tree_util.tree_structure(1))
      True
      >>> tree_util.treedef_is_leaf(tree_util.tree_structure([1]))
      False
    """
    return treedef.num_nodes == 1


# ------------------------------------------------------------------------------- functions on trees


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply a function to each leaf, or to the leaves at the same place of several trees.

    Args:
      f: takes as many arguments as there are trees.
      tree: the first tree; the result has its structure.
      rest: trees of the same structure; they may have subtrees where ``tree`` has leaves.
      is_leaf: see `tree_flatten`; called with subtrees of the first tree.

    Raises:
      ValueError: the trees do not match; the message names the path.

    Example:
      >>> tree_map(lambda x, y: x + y, {"a": 1}, {"a": 2})
      {'a': 3}
    """
    leaves, spec = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    makes = sorted_dictionaries(spec)
    if not rest:
        return makes.unflatten(map(f, leaves))
    columns = [leaves]
    for i, other in enumerate(rest, 2):
        try:
            columns.append(spec.flatten_up_to(other))
        except ValueError:
            found = structure_mismatch(tree, other, is_leaf)
            if found is None:
                raise
            text = difference(found, "the first tree", f"tree {i}")
            raise ValueError(f"tree_map: the trees do not match: {text}") from None
    return makes.unflatten(map(f, *columns))


_MISSING = object()


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _MISSING,
    is_leaf: IsLeaf = None,
) -> Any:
    """Combine the leaves of a tree from left to right, as `functools.reduce` does.

    Args:
      function: a function of the value so far and a leaf.
      tree: a pytree.
      initializer: the first value; without it, the first leaf.
      is_leaf: a function that is true for subtrees to take as leaves.

    Example:
      >>> from gnomon import tree_util
      >>> tree_util.tree_reduce(lambda total, leaf: total + leaf, {"a": 1, "b": (2, 3)})
      6

    See also:
      `tree_reduce_associative`
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is not _MISSING:
        return functools.reduce(function, leaves, initializer)
    if not leaves:
        raise TypeError("tree_reduce of a tree without leaves needs an initializer")
    return functools.reduce(function, leaves)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _MISSING,
    is_leaf: IsLeaf = None,
) -> Any:
    """Combine the leaves of a tree pairwise, in a balanced tree of operations.

    Args:
      operation: an associative function of two values.
      tree: a pytree.
      identity: the result for a tree without leaves; without it, such a tree is an error.
      is_leaf: a function that is true for subtrees to take as leaves.

    Example:
      >>> from gnomon import tree_util
      >>> tree_util.tree_reduce_associative(lambda x, y: f"({x}{y})", ["a", "b", "c", "d"])
      '((ab)(cd))'

    See also:
      `tree_reduce`
    """
    leaves = tree_leaves(tree, is_leaf)
    if not leaves:
        if identity is _MISSING:
            raise TypeError("tree_reduce_associative of a tree without leaves needs an identity")
        return identity

    def combine(low: int, high: int) -> Any:
        if high - low == 1:
            return leaves[low]
        middle = (low + high) // 2
        return operation(combine(low, middle), combine(middle, high))

    return combine(0, len(leaves))


def tree_all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether every leaf of a tree is true.

    Args:
      tree: a pytree.
      is_leaf: a function that is true for subtrees to take as leaves.
    Returns:
      A Python bool; True for a tree without leaves.

    Example:
      >>> from gnomon import tree_util
      >>> tree_util.tree_all({"a": True, "b": (1, 0)})
      False
    """
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turn a tree of trees inside out: a list of pairs becomes a pair of lists.

    Args:
      outer_treedef: the structure of the outer tree.
      inner_treedef: the structure of each inner tree; by default that of the first one.
      pytree_to_transpose: a tree of structure ``outer_treedef.compose(inner_treedef)``.

    Raises:
      TypeError: the number of leaves is not that of the composed structure.

    Example:
      >>> tree = [(1, 2), (3, 4)]
      >>> tree_transpose(tree_structure([0, 0]), tree_structure((0, 0)), tree)
      ([1, 3], [2, 4])
    """
    if inner_treedef is None:
        inner_treedef = tree_structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    rows, columns = outer_treedef.num_leaves, inner_treedef.num_leaves
    if rows == 0 or columns == 0:
        raise TypeError(
            f"tree_transpose: neither structure may be without leaves; got {outer_treedef} and "
            f"{inner_treedef}"
        )
    leaves, treedef = tree_flatten(pytree_to_transpose)
    # Structures are not compared, since the data of a node may depend on the content of the node.
    if len(leaves) != rows * columns:
        expected = outer_treedef.compose(inner_treedef)
        raise TypeError(f"tree_transpose: expected a tree of structure {expected}, got {treedef}")
    inner = [outer_treedef.unflatten(leaves[column::columns]) for column in range(columns)]
    return inner_treedef.unflatten(inner)


# -------------------------------------------------------------------------------------------- paths


def _walk(
    tree: Any, path: KeyPath, is_leaf: Callable[[KeyPath, Any], bool]
) -> Iterator[tuple[KeyPath, Any]]:
    if is_leaf(path, tree) or optree.tree_is_leaf(tree, namespace=NAMESPACE):
        yield path, tree
        return
    for key, child in flatten_node_with_keys(tree)[0]:
        yield from _walk(child, (*path, key), is_leaf)


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """Pairs of path and leaf, in the order of `tree_leaves`; `keystr` prints a path.

    Args:
      tree: a pytree.
      is_leaf: called at each step; where it is true the subtree is a leaf.
      is_leaf_takes_path: ``is_leaf`` is called with the path and the subtree.

    Example:
      >>> from gnomon import tree_util
      >>> pairs = tree_util.tree_leaves_with_path({"a": [1, 2]})
      >>> [(tree_util.keystr(path), leaf) for path, leaf in pairs]
      [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    predicate = is_leaf
    if predicate is None:
        return list(_walk(tree, (), lambda path, subtree: False))
    if is_leaf_takes_path:
        return list(_walk(tree, (), predicate))
    return list(_walk(tree, (), lambda path, subtree: predicate(subtree)))


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """The pairs of path and leaf of a tree, and its structure.

    Args:
      tree: a pytree.
      is_leaf: a function that is true for subtrees to take as leaves.
      is_leaf_takes_path: ``is_leaf`` is called with the path and the subtree.

    Example:
      >>> from gnomon import tree_util
      >>> pairs, _ = tree_util.tree_flatten_with_path({"a": [1, 2]})
      >>> [(tree_util.keystr(path), leaf) for path, leaf in pairs]
      [("['a'][0]", 1), ("['a'][1]", 2)]

    See also:
      `tree_leaves_with_path`, `keystr`
    """
    if is_leaf is None or not is_leaf_takes_path:
        return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)
    # optree calls `is_leaf` without paths but in the same order, so replay the recorded answers.
    answers: list[bool] = []

    def answer(path: KeyPath, subtree: Any) -> bool:
        answers.append(is_leaf(path, subtree))
        return answers[-1]

    pairs = list(_walk(tree, (), answer))
    given = iter(answers)
    return pairs, tree_structure(tree, lambda _: next(given))


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Apply a function of paths and leaves to the leaves of a tree.

    Args:
      f: a function of a path and of a leaf of each tree.
      tree: a pytree.
      rest: further pytrees, of which ``tree`` must be a prefix.
      is_leaf: a function that is true for subtrees to take as leaves.
      is_leaf_takes_path: ``is_leaf`` is called with the path and the subtree.
    Returns:
      A pytree of the structure of ``tree``.

    Example:
      >>> from gnomon import tree_util
      >>> def describe(path, leaf):
      ...     return f"{tree_util.keystr(path)} = {leaf}"
      >>> tree_util.tree_map_with_path(describe, {"a": 1, "b": [2]})
      {'a': "['a'] = 1", 'b': ["['b'][0] = 2"]}

    See also:
      `tree_map`, `keystr`
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    paths = treedef.unflatten([_Path(path) for path, _ in pairs])
    return tree_map(
        lambda path, *leaves: f(path.keys, *leaves),
        paths,
        tree,
        *rest,
        is_leaf=lambda x: type(x) is _Path,
    )


class _Path:
    """A path as a leaf of a tree."""

    __slots__ = ("keys",)

    def __init__(self, keys: KeyPath) -> None:
        self.keys = keys


# ----------------------------------------------------------------------------------------- prefixes


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """Expand a prefix to the structure of a tree: each leaf is repeated over its subtree.

    Args:
      prefix_tree: a pytree whose structure is a prefix of the structure of ``full_tree``.
      full_tree: a pytree, of which only the structure matters.
      is_leaf: a function that is true for subtrees to take as leaves.
    Raises:
      ValueError: ``prefix_tree`` is not a prefix.

    Example:
      >>> from gnomon import tree_util
      >>> tree_util.tree_broadcast({"a": 0, "b": 1}, {"a": [10, 20], "b": 30})
      {'a': [0, 0], 'b': 1}
    """
    leaves = broadcast_prefix(prefix_tree, full_tree, is_leaf)
    return tree_structure(full_tree).unflatten(leaves)
