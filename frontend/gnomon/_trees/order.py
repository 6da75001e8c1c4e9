"""The order of the keys of unflattened dictionaries, which is the order of their leaves.

optree restores the insertion order of the dictionary that was flattened, although structures that
differ only by this order are equal. A function is traced once for all equal structures, so neither
its arguments nor its results may depend on the order of the first call: keys are sorted, as in JAX.
"""

from __future__ import annotations

import collections
from typing import Any

import optree

from gnomon._trees.registry import NAMESPACE, is_container

__all__ = ["sorted_dictionaries"]

_LEAF = optree.treespec_leaf(namespace=NAMESPACE)

# Structures of Python's containers only, since these keep nothing but their keys alive. The same
# structures recur, and a look-up costs a tenth of a transformation.
_known: dict[optree.PyTreeSpec, optree.PyTreeSpec] = {}
_KNOWN_SIZE = 1024


def sorted_dictionaries(spec: optree.PyTreeSpec) -> optree.PyTreeSpec:
    """The same structure, but it unflattens to dictionaries with sorted keys."""
    try:
        found = _known.get(spec)
    except TypeError:  # the data of a node is not hashable
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
    """The same node with leaves as children; the keys of a dictionary are in the leaves' order."""
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
