"""The order of a dictionary's keys in a tree that is put together: that of its leaves.

optree gives a dictionary back in the order in which the one that was taken apart had been filled,
though structures that differ by that alone are equal. What a function traced once for all of them
sees, and what it returns, must not depend on the first one: keys are sorted, as in JAX.
"""

from __future__ import annotations

import collections
from typing import Any

import optree

from gnomon._trees.registry import NAMESPACE, is_container

__all__ = ["sorted_dictionaries"]

_LEAF = optree.treespec_leaf(namespace=NAMESPACE)

# Structures of Python's containers, which hold on to nothing but their keys. Trees of one structure
# are made again and again, and looking one up costs a tenth of going through it.
_known: dict[optree.PyTreeSpec, optree.PyTreeSpec] = {}
_KNOWN_SIZE = 1024


def sorted_dictionaries(spec: optree.PyTreeSpec) -> optree.PyTreeSpec:
    """The same structure, which makes dictionaries with sorted keys."""
    try:
        found = _known.get(spec)
    except TypeError:  # the data of a node has no hash
        return optree.treespec_transform(spec, _sorted_node)
    if found is not None:
        return found
    plain = True

    def node(one_level: optree.PyTreeSpec) -> optree.PyTreeSpec:
        nonlocal plain
        plain = plain and is_container(one_level.type)
        return _sorted_node(one_level)

    result = optree.treespec_transform(spec, node)
    if plain:
        if len(_known) >= _KNOWN_SIZE:
            _known.clear()
        _known[spec] = result
    return result


def _sorted_node(one_level: optree.PyTreeSpec) -> optree.PyTreeSpec:
    """A node whose children are leaves: a dictionary with the keys in the order of the leaves."""
    kind = one_level.type
    if kind is not dict and kind is not collections.defaultdict:
        return one_level
    keys = one_level.entries()
    try:
        sorted(keys)
    except TypeError as error:
        raise ValueError(
            f"the keys of a dictionary in a tree must be sortable, got {keys}: {error}"
        ) from None
    children: Any = dict.fromkeys(keys, _LEAF)
    if kind is dict:
        return optree.treespec_dict(children, namespace=NAMESPACE)
    example: Any = one_level.unflatten(children)
    return optree.treespec_defaultdict(example.default_factory, children, namespace=NAMESPACE)
