"""Prefixes of pytrees: expand a prefix to a tree, or find where it does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import optree

from gnomon._trees.keys import KeyPath, keystr
from gnomon._trees.registry import (
    NAMESPACE,
    flatten_node,
    flatten_node_with_keys,
)

__all__ = [
    "HOLE",
    "IsLeaf",
    "Mismatch",
    "broadcast_prefix",
    "difference",
    "difference_of_structures",
    "structure_mismatch",
]

IsLeaf = Callable[[Any], bool] | None

# The path to a node, and descriptions of the two subtrees there.
Mismatch = tuple[KeyPath, str, str]


class _Placeholder:
    """A placeholder for each leaf of a structure without values."""

    def __repr__(self) -> str:
        return "*"


HOLE = _Placeholder()


def structure_mismatch(prefix: Any, full: Any, is_leaf: IsLeaf = None) -> Mismatch | None:
    """The first node at which ``prefix`` is not a prefix of ``full``.

    Returns:
      The path of the node and descriptions of the subtrees of ``prefix`` and ``full`` there, or
      None if the trees match.
    """
    return _mismatch((), prefix, full, is_leaf)


def _mismatch(path: KeyPath, prefix: Any, full: Any, is_leaf: IsLeaf) -> Mismatch | None:
    if (is_leaf is not None and is_leaf(prefix)) or _is_leaf(prefix):
        return None
    same = isinstance(prefix, dict) and isinstance(full, dict) and not _is_leaf(full)
    if type(prefix) is not type(full) and not same:
        return path, _described(prefix), _described(full)
    pairs, data = flatten_node_with_keys(prefix)
    others, other_data = flatten_node_with_keys(full)
    if isinstance(prefix, dict):
        keys = {key.key for key, _ in pairs}
        other_keys = {key.key for key, _ in others}
        if keys != other_keys:
            names = type(prefix).__name__, type(full).__name__
            here, there = keys - other_keys, other_keys - keys
            return path, _with_keys(names[0], here, there), _with_keys(names[1], there, here)
        by_key = {key.key: child for key, child in others}
        others = [(key, by_key[key.key]) for key, _ in pairs]
    elif len(pairs) != len(others):
        return path, _described(prefix), _described(full)
    elif data != other_data:
        kind = type(prefix).__name__
        return path, f"a {kind} with data {data!r}", f"a {kind} with data {other_data!r}"
    for (key, child), (_, other) in zip(pairs, others, strict=True):
        found = _mismatch((*path, key), child, other, is_leaf)
        if found is not None:
            return found
    return None


def _is_leaf(tree: Any) -> bool:
    return bool(optree.tree_is_leaf(tree, namespace=NAMESPACE))


def _described(tree: Any) -> str:
    """A description of a subtree, for a message."""
    if tree is None:
        return "None"
    if tree is HOLE:
        return "a leaf"
    name = type(tree).__name__
    if _is_leaf(tree):
        return f"a leaf of type {name}"
    if isinstance(tree, dict):
        return f"{_article(name)} {name} with keys {_listed(tree)}" if tree else f"an empty {name}"
    children, _ = flatten_node(tree)
    return f"{_article(name)} {name} of {len(children)}"


def _with_keys(name: str, own: set[Any], missing: set[Any]) -> str:
    """A description of a dictionary that has some keys that another one has not, or lacks some."""
    has, keys = ("with", own) if own else ("without", missing)
    return f"{_article(name)} {name} {has} {_listed(sorted(keys, key=repr))}"


def _listed(keys: Iterable[Any]) -> str:
    return ", ".join(map(repr, keys))


def _article(name: str) -> str:
    return "an" if name[0].lower() in "aeiou" else "a"


def difference(found: Mismatch, one: str, other: str) -> str:
    """A description of a mismatch between trees that the message calls ``one`` and ``other``."""
    path, first, second = found
    return f"at {keystr(path) or 'the root'}, {first} in {one} against {second} in {other}"


def difference_of_structures(one: Any, other: Any, one_name: str, other_name: str) -> str:
    """Where two unequal structures (`PyTreeDef`) differ, with the names of both in the message."""
    try:
        first, second = (tree.unflatten([HOLE] * tree.num_leaves) for tree in (one, other))
    except Exception:  # a class of the user that takes only arrays
        return f"{one} in {one_name} against {other} in {other_name}"
    if (found := structure_mismatch(first, second)) is not None:
        return difference(found, one_name, other_name)
    if (found := structure_mismatch(second, first)) is not None:
        path, there, here = found
        return difference((path, here, there), one_name, other_name)
    return f"static data of nodes differ between {one_name} and {other_name}"


def broadcast_prefix(
    prefix_tree: Any,
    full_tree: Any,
    is_leaf: IsLeaf = None,
    *,
    prefix_name: str = "the prefix",
    full_name: str = "the tree",
) -> list[Any]:
    """The leaves of a prefix, each repeated for all leaves of the full tree below it.

    Args:
      prefix_tree: a tree that is a prefix of ``full_tree``.
      full_tree: the tree.
      is_leaf: called with the subtrees of ``prefix_tree``; where it is true, the subtree is a leaf.
        To make None a leaf, pass ``lambda x: x is None``.
      prefix_name, full_name: the names of the two trees in the message.

    Raises:
      ValueError: ``prefix_tree`` is not a prefix of ``full_tree``; the message names the path.

    Example:
      >>> broadcast_prefix((0, 1), ([10, 20], {"a": 30}))
      [0, 0, 1]
    """
    leaves, spec = optree.tree_flatten(prefix_tree, is_leaf, namespace=NAMESPACE)
    try:
        subtrees = spec.flatten_up_to(full_tree)
    except ValueError:
        found = structure_mismatch(prefix_tree, full_tree, is_leaf)
        if found is None:
            raise
        raise ValueError(
            f"{prefix_name} must have the structure of {full_name}, or be a prefix of it: "
            f"{difference(found, prefix_name, full_name)}"
        ) from None
    result = []
    for leaf, subtree in zip(leaves, subtrees, strict=True):
        result += [leaf] * optree.tree_structure(subtree, namespace=NAMESPACE).num_leaves
    return result
