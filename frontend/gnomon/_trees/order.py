"""The order of the keys of unflattened dictionaries, which is the order of their leaves.

optree restores the insertion order of the dictionary that was flattened, although structures that
differ only by this order are equal. A function is traced once for all equal structures, so neither
its arguments nor its results may depend on the order of the first call: keys are sorted, as in JAX.
"""

from __future__ import annotations

from typing import Any, cast

import optree

from gnomon._native import strictly_equal
from gnomon._trees.registry import is_container

__all__ = ["sorted_dictionaries"]

_DICT = int(optree.PyTreeKind.DICT)

# For structures of Python's containers only, since these keep nothing but their keys alive: the
# keys, and the result. The keys are compared, because `{1: x}` and `{True: x}` have equal
# structures.
_known: dict[optree.PyTreeSpec, tuple[Any, optree.PyTreeSpec]] = {}
_KNOWN_SIZE = 1024


def sorted_dictionaries(spec: optree.PyTreeSpec) -> optree.PyTreeSpec:
    """The same structure, but it unflattens to dictionaries with sorted keys."""
    state = cast(Any, spec).__getstate__()
    nodes = state[0]
    # Dictionaries have their sorted keys, tuples and lists have nothing.
    data = [node[2] for node in nodes if node[2] is not None]
    if not data:
        return spec
    keys = tuple([tuple(part) if type(part) is list else part for part in data])
    try:
        found = _known.get(spec)
    except TypeError:  # the data of a node is not hashable
        found = None
    if found is not None and strictly_equal(found[0], keys):
        return found[1]
    result = _sorted(spec, state)
    if all(is_container(node[4]) for node in nodes):
        if len(_known) >= _KNOWN_SIZE:
            _known.clear()
        _known[spec] = keys, result
    return result


def _sorted(spec: optree.PyTreeSpec, state: Any) -> optree.PyTreeSpec:
    nodes = list(state[0])
    for i, node in enumerate(nodes):
        inserted = node[-1]  # the keys of a dictionary in the order of insertion
        if inserted is None:
            continue
        keys = node[2] if node[0] == _DICT else node[2][1]  # after a `defaultdict`'s factory
        try:
            sorted(keys)
        except TypeError as error:
            raise ValueError(
                f"the keys of a dictionary in a tree must be sortable, got {keys}: {error}"
            ) from None
        nodes[i] = (*node[:-1], dict.fromkeys(keys))
    result = optree.PyTreeSpec.__new__(optree.PyTreeSpec)
    result.__setstate__((tuple(nodes), *state[1:]))  # type: ignore[attr-defined]
    return result
