"""Short names of functions on trees: ``gnomon.tree.map`` is `gnomon.tree_util.tree_map`."""

from __future__ import annotations

from gnomon._trees.flatten import tree_all as all
from gnomon._trees.flatten import tree_broadcast as broadcast
from gnomon._trees.flatten import tree_flatten as flatten
from gnomon._trees.flatten import tree_flatten_with_path as flatten_with_path
from gnomon._trees.flatten import tree_leaves as leaves
from gnomon._trees.flatten import tree_leaves_with_path as leaves_with_path
from gnomon._trees.flatten import tree_map as map
from gnomon._trees.flatten import tree_map_with_path as map_with_path
from gnomon._trees.flatten import tree_reduce as reduce
from gnomon._trees.flatten import tree_reduce_associative as reduce_associative
from gnomon._trees.flatten import tree_structure as structure
from gnomon._trees.flatten import tree_transpose as transpose
from gnomon._trees.flatten import tree_unflatten as unflatten
from gnomon._trees.registry import static

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
