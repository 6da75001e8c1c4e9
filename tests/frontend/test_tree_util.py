"""Trees: structure, order, paths and errors, with JAX as the definition."""

from __future__ import annotations

import collections
import dataclasses
import functools
import pickle
import warnings
from typing import Any, NamedTuple

import jax
import numpy as np
import optree
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon import tree, tree_util
from gnomon._trees.flatten import flatten_one_level
from gnomon._trees.prefixes import broadcast_prefix
from gnomon.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey, keystr


class Point(NamedTuple):
    x: Any
    y: Any


KEYS = st.lists(st.sampled_from("abcdef"), unique=True, max_size=3)


def _containers(children: Any) -> Any:
    lists = st.lists(children, max_size=3)
    dicts = KEYS.flatmap(lambda keys: st.fixed_dictionaries(dict.fromkeys(keys, children)))
    return st.one_of(
        lists,
        lists.map(tuple),
        dicts,
        dicts.map(collections.OrderedDict),
        dicts.map(lambda d: collections.defaultdict(list, d)),
        st.builds(Point, children, children),
    )


TREES = st.recursive(st.one_of(st.none(), st.integers(0, 9)), _containers, max_leaves=12)


@given(TREES)
def test_flattening_is_that_of_jax(t: Any) -> None:
    leaves, treedef = tree_util.tree_flatten(t)
    expected, theirs = jax.tree.flatten(t)
    assert leaves == expected
    assert (treedef.num_leaves, treedef.num_nodes) == (theirs.num_leaves, theirs.num_nodes)
    assert treedef.unflatten(leaves) == t
    assert type(treedef.unflatten(leaves)) is type(t)
    pairs = [(keystr(p), leaf) for p, leaf in tree_util.tree_leaves_with_path(t)]
    assert pairs == [(jax.tree_util.keystr(p), x) for p, x in jax.tree.leaves_with_path(t)]
    named = tree.map_with_path(lambda path, x: (keystr(path), x), t)
    assert named == jax.tree.map_with_path(lambda path, x: (jax.tree_util.keystr(path), x), t)


@given(TREES, TREES)
def test_mapping_over_two_trees_is_that_of_jax(a: Any, b: Any) -> None:
    def combined(module: Any) -> Any:
        try:
            return module.map(lambda x, y: (x, str(y)), a, b)
        except ValueError:
            return ValueError

    expected, actual = combined(jax.tree), combined(tree)
    # Dictionaries of different kinds match each other here.
    if expected is not ValueError or ("Dict" not in f"{a}{b}" and "dict" not in f"{a}{b}"):
        assert actual == expected


@given(TREES)
def test_structures_compare_hash_and_pickle(t: Any) -> None:
    one, other = tree.structure(t), tree.structure(tree.map(lambda x: x + 1, t))
    assert one == other and hash(one) == hash(other)
    loaded = pickle.loads(pickle.dumps(one))
    assert loaded == one and hash(loaded) == hash(one)
    assert one != tree.structure((t, 0))


@given(TREES)
def test_flattening_by_levels_gives_the_same_leaves(t: Any) -> None:
    # The native walk over arguments must agree with optree.
    def leaves(node: Any) -> list[Any]:
        if node is None:
            return []
        level = flatten_one_level(node)
        if level is None:
            return [node]
        children, token = level
        hash(token)
        return [leaf for child in children for leaf in leaves(child)]

    assert leaves(t) == tree.leaves(t)


def test_tokens_distinguish_structures() -> None:
    ordered = collections.OrderedDict
    different = [
        ordered(a=1, b=2),
        ordered(b=1, a=2),
        collections.defaultdict(int, a=1, b=2),
        collections.defaultdict(list, a=1, b=2),
        Point(1, 2),
        collections.deque([1, 2], maxlen=3),
        collections.deque([1, 2]),
    ]
    tokens = [(type(t), flatten_one_level(t)[1]) for t in different]  # type: ignore[index]
    assert len(set(tokens)) == len(different)
    assert flatten_one_level("leaf") is flatten_one_level(np.ones(3)) is None


def test_structures_print_as_in_jax() -> None:
    for t in (1, (1, {"a": 2}), [None, ()], {}, (3,), {"b": [1], "a": (1, 2)}):
        assert repr(tree.structure(t)) == repr(jax.tree.structure(t))


def test_treedefs() -> None:
    treedef = tree.structure((1, [2, 3]))
    assert treedef.children() == tree_util.treedef_children(treedef)
    assert treedef.children() == [tree.structure(1), tree.structure([1, 2])]
    assert tree_util.treedef_tuple(treedef.children()) == treedef
    assert tree_util.treedef_is_leaf(tree.structure(1))
    assert not tree_util.treedef_is_leaf(treedef)
    assert treedef.flatten_up_to(((1, 2), [3, {}])) == [(1, 2), 3, {}]
    assert tree.structure((1, 2)).compose(tree.structure([1])) == tree.structure(([1], [1]))
    assert treedef != "PyTreeDef((*, [*, *]))"


def test_is_leaf() -> None:
    t = {"a": (1, 2), "b": None}
    assert tree.leaves(t, is_leaf=lambda x: isinstance(x, tuple)) == [(1, 2)]
    assert tree.leaves(t, is_leaf=lambda x: x is None) == [1, 2, None]
    assert tree.leaves_with_path(t, is_leaf=lambda x: x is None)[-1] == ((DictKey("b"),), None)
    assert tree.map(lambda x: 0, t, is_leaf=lambda x: x is None) == {"a": (0, 0), "b": 0}
    assert tree_util.all_leaves([1, 2]) and not tree_util.all_leaves([1, (2,)])
    assert tree_util.all_leaves([(1,)], is_leaf=lambda x: isinstance(x, tuple))


def test_reductions() -> None:
    t = {"a": 1, "b": (2, [3, 4])}
    assert tree.reduce(lambda x, y: x + y, t) == 10
    assert tree.reduce(lambda x, y: x + [y], t, []) == [1, 2, 3, 4]
    order = tree.reduce_associative(lambda x, y: f"({x}{y})", t)
    assert order == "((12)(34))"
    assert tree.reduce_associative(max, {}, identity=7) == 7
    assert tree.all({"a": 1, "b": [True]}) and not tree.all([0])
    for reduce in (tree.reduce, tree.reduce_associative):
        with pytest.raises(TypeError, match="without leaves"):
            reduce(max, ())


def test_transpose() -> None:
    t = {"a": (1, 2), "b": (3, 4)}
    outer, inner = tree.structure({"a": 0, "b": 0}), tree.structure((0, 0))
    expected = ({"a": 1, "b": 3}, {"a": 2, "b": 4})
    assert tree.transpose(outer, inner, t) == tree.transpose(outer, None, t) == expected
    with pytest.raises(TypeError, match="expected a tree of structure"):
        tree.transpose(outer, tree.structure((0, 0, 0)), t)
    with pytest.raises(TypeError, match="without leaves"):
        tree.transpose(tree.structure(()), inner, ())


# --------------------------------------------------------------------------------------- mismatches


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        ({"a": [1, (2, 3)]}, {"a": [1, 2]}, r"at \['a'\]\[1\], a tuple of 2 in the first tree"),
        ({"a": 1}, {"b": 1}, "at the root, a dict with 'a' in .* a dict with 'b'"),
        ((1, None), (1, 2), r"at \[1\], None in the first tree against a leaf of type int"),
        (Point(1, [2]), Point(1, [2, 3]), r"at \.y, a list of 1 in .* a list of 2 in tree 2"),
        ([1], (1,), "a list of 1 in the first tree against a tuple of 1"),
    ],
)
def test_mismatches_name_the_path(one: Any, other: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tree.map(lambda x, y: x, one, other)
    with pytest.raises(ValueError, match="the tree does not have the prefix PyTreeDef"):
        tree.structure(one).flatten_up_to(other)


def test_a_mismatch_in_the_third_tree_is_reported() -> None:
    with pytest.raises(ValueError, match="in tree 3"):
        tree.map(lambda *xs: xs, (1, (2, 3)), (1, (2, 3)), (1, (2,)))


def test_wrong_number_of_leaves() -> None:
    with pytest.raises(ValueError, match="has 2 leaves, got 1"):
        tree.unflatten(tree.structure((1, 2)), [1])
    with pytest.raises(ValueError, match="has 2 leaves, got 3"):
        tree.unflatten(tree.structure((1, 2)), iter([1, 2, 3]))


@given(TREES)
def test_prefixes_broadcast(t: Any) -> None:
    count = len(tree.leaves(t))
    assert broadcast_prefix(7, t) == [7] * count
    assert tree.broadcast(7, t) == tree.map(lambda _: 7, t)
    assert broadcast_prefix((0, 1), ([t, t], {"k": t})) == [0] * 2 * count + [1] * count
    assert broadcast_prefix((None, 1), (t, t), is_leaf=lambda x: x is None) == (
        [None] * count + [1] * count
    )


def test_wrong_prefixes_name_both_sides() -> None:
    with pytest.raises(
        ValueError,
        match=r"in_axes must .* at \[1\], a tuple of 2 in in_axes against a tuple of 3 in args",
    ):
        broadcast_prefix((0, (1, 2)), (0, (1, 2, 3)), prefix_name="in_axes", full_name="args")


# --------------------------------------------------------------------------------- registered types


@tree_util.register_pytree_node_class
class Pair:
    def __init__(self, a: Any, b: Any, name: str = "p") -> None:
        self.a, self.b, self.name = a, b, name

    def tree_flatten(self) -> Any:
        return (self.a, self.b), self.name

    @classmethod
    def tree_unflatten(cls, name: str, children: Any) -> Pair:
        return cls(*children, name)


@tree_util.register_pytree_with_keys_class
class Keyed(Pair):
    def tree_flatten_with_keys(self) -> Any:
        return ((GetAttrKey("a"), self.a), (GetAttrKey("b"), self.b)), self.name


@tree_util.register_dataclass
@dataclasses.dataclass
class Data:
    x: Any
    y: Any
    mode: str = tree.static(default="m")


@tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Static:
    value: int


def test_registered_classes() -> None:
    leaves, treedef = tree.flatten([Pair(1, (2, 3)), Keyed(4, None)])
    assert leaves == [1, 2, 3, 4]
    again = treedef.unflatten("abcd")
    assert (again[0].b, again[0].name, again[1].a) == (("b", "c"), "p", "d")
    assert repr(tree.structure(Pair(1, 2))) == "PyTreeDef(CustomNode(Pair['p'], [*, *]))"
    assert tree.structure(Pair(1, 2)) != tree.structure(Pair(1, 2, "q"))
    paths = [path for path, _ in tree.leaves_with_path((Pair(1, 2), Keyed(3, 4)))]
    assert paths == [
        (SequenceKey(0), FlattenedIndexKey(0)),
        (SequenceKey(0), FlattenedIndexKey(1)),
        (SequenceKey(1), GetAttrKey("a")),
        (SequenceKey(1), GetAttrKey("b")),
    ]
    assert keystr(paths[0]) == "[0][<flat index 0>]"
    assert keystr(paths[2], simple=True, separator="/") == "1/a"


def test_dataclasses() -> None:
    data = Data(1, [2, 3])
    assert tree.map(lambda x: x * 10, data) == Data(10, [20, 30])
    assert tree.structure(data) != tree.structure(Data(1, [2, 3], "other"))
    assert keystr(tree.leaves_with_path(data)[2][0]) == ".y[1]"
    assert flatten_one_level(data) == ((1, [2, 3]), ("m",))
    with pytest.raises(ValueError, match=r"Data with data \('m',\) .* Data with data \('n',\)"):
        tree.map(lambda x, y: x, data, Data(1, [2, 3], "n"))


def test_dataclasses_that_are_refused() -> None:
    @dataclasses.dataclass
    class Other:
        x: int
        y: int

    with pytest.raises(ValueError, match="y missing"):
        tree_util.register_dataclass(Other, ["x"], [])
    with pytest.raises(ValueError, match="z not a field"):
        tree_util.register_dataclass(Other, ["x", "y"], ["z"])
    with pytest.raises(ValueError, match="both data and meta"):
        tree_util.register_dataclass(Other, ["x", "y"], ["x"])
    with pytest.raises(TypeError, match="or neither"):
        tree_util.register_dataclass(Other, ["x"])
    with pytest.raises(TypeError, match="not a dataclass"):
        tree_util.register_dataclass(type("Plain", (), {}))
    tree_util.register_dataclass(Other, ["x", "y"], [])
    with pytest.raises(ValueError, match="Other is already registered"):
        tree_util.register_dataclass(Other)


def test_static_classes_are_structure() -> None:
    assert tree.leaves([Static(1), 2]) == [2]
    assert tree.structure(Static(1)) == tree.structure(Static(1)) != tree.structure(Static(2))
    assert tree.map(lambda x: x, [Static(5), 1]) == [Static(5), 1]


def test_types_that_cannot_be_registered() -> None:
    with pytest.raises(ValueError, match="a built-in pytree node"):
        tree_util.register_pytree_node(dict, lambda d: ((), None), lambda a, c: {})
    with pytest.raises(TypeError, match="only classes"):
        tree_util.register_pytree_node(3, lambda d: ((), None), lambda a, c: 3)  # type: ignore[arg-type]


def test_the_registry_is_our_own() -> None:
    # Registered with optree under our namespace only: other users of optree see leaves.
    assert optree.tree_leaves([Static(1)]) == [Static(1)]


def test_nodes() -> None:
    nodes = (tuple, list, dict, type(None), Point, Pair, Data, collections.OrderedDict)
    assert all(tree_util.is_tree_node(t) for t in nodes)
    assert not any(tree_util.is_tree_node(t) for t in (int, str, np.ndarray, set))
    assert tree_util.flatten_one_level({"b": 1, "a": 2}) == ([2, 1], ("a", "b"))
    keys, _ = tree_util.flatten_one_level_with_keys(Point(1, 2))
    assert keys == [(GetAttrKey("x"), 1), (GetAttrKey("y"), 2)]
    with pytest.raises(ValueError, match="is a leaf"):
        tree_util.flatten_one_level(3)


# ------------------------------------------------------------------------------------------ Partial


def test_partial_is_a_node() -> None:
    function = tree_util.Partial(max, 3, key=None)
    assert function(5) == 5
    assert tree.leaves(function) == [3]
    other = tree.map(lambda x: x + 4, function)
    assert type(other) is tree_util.Partial and other(5) == 7
    assert tree.structure(function) == tree.structure(tree_util.Partial(max, 8, key=None))
    assert tree.structure(function) != tree.structure(tree_util.Partial(min, 3, key=None))


def test_partial_of_partials() -> None:
    # Arguments bound by functools.partial stay static; those bound by Partial stay leaves.
    static = tree_util.Partial(functools.partial(max, 9), 1)
    assert tree.leaves(static) == [1] and static(2) == 9
    assert tree.leaves(tree_util.Partial(tree_util.Partial(max, 9), 1)) == [9, 1]
    bound = functools.partial(max, 9)
    one, other = tree_util.Partial(bound, 1), tree_util.Partial(bound, 2)
    assert tree.structure(one) == tree.structure(other)


def test_leaves_by_path() -> None:
    nested = {"a": [1, (2, 3)], "b": (4, (5, 6))}

    def below_a(path: Any, subtree: Any) -> bool:
        return len(path) > 0 and path[0].key == "a" and isinstance(subtree, tuple)

    pairs, treedef = tree_util.tree_flatten_with_path(nested, below_a, is_leaf_takes_path=True)
    assert [(keystr(path), leaf) for path, leaf in pairs] == [
        (jax.tree_util.keystr(path), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(nested, below_a, True)
    ]
    assert treedef.unflatten([leaf for _, leaf in pairs]) == nested
    doubled = tree_util.tree_map_with_path(
        lambda path, x: x * 2, nested, is_leaf=below_a, is_leaf_takes_path=True
    )
    assert doubled == {"a": [2, (2, 3, 2, 3)], "b": (8, (10, 12))}


class _Box:
    def __init__(self, content: Any, data: Any) -> None:
        self.content, self.data = content, data


tree_util.register_pytree_node(
    _Box, lambda box: ((box.content,), box.data), lambda data, children: _Box(*children, data)
)


def test_dictionaries_are_unflattened_in_the_order_of_jax() -> None:
    t = {"b": {"z": 1, "y": 2}, "a": (3, {2: 4, 1: None}), "c": collections.OrderedDict(b=5, a=6)}
    t["d"] = collections.defaultdict(list, b=7, a=8)
    ours, theirs = tree.map(lambda x: x, t), jax.tree.map(lambda x: x, t)
    assert repr(ours) == repr(theirs)
    assert repr(tree.map(lambda x, y: x, t, t)) == repr(theirs)
    leaves, treedef = tree.flatten(t)
    assert repr(tree.unflatten(pickle.loads(pickle.dumps(treedef)), leaves)) == repr(theirs)
    # For nodes whose data may be of any size, or unhashable.
    for data in ("tag", ["no hash"]):
        box = tree.map(lambda x: x, {"k": _Box({"b": 1, "a": 2}, data)})["k"]
        assert (list(box.content), box.data) == (["a", "b"], data)
    with pytest.raises(ValueError, match="must be sortable"):
        tree.map(lambda x: x, {2: 1, "a": 2})


@pytest.mark.parametrize(
    "value",
    [
        {"b": 1, "a": (2, [3, None, ()])},
        {"a": {"a": 1}, "c": {"b": 2, "é": {}}},
        tuple(range(200)),
        None,
        1,
    ],
)
def test_structures_are_walked_and_serialized_as_by_jax(value: Any) -> None:
    ours, theirs = tree.structure(value), jax.tree.structure(value)
    assert ours.serialize_using_proto() == theirs.serialize_using_proto()
    leaves = list(range(ours.num_leaves))

    def node(children: Any, data: Any) -> Any:
        return children, data

    walked = [d.walk(node, lambda leaf: -leaf, leaves) for d in (ours, theirs)]
    assert walked[0] == walked[1]


def test_structures_that_are_not_serialized() -> None:
    with pytest.raises(ValueError, match="user-defined nodes are not supported"):
        tree.structure(Pair(1, 2)).serialize_using_proto()
    with pytest.raises(ValueError, match="only strings are supported as keys"):
        tree.structure({1: 2}).serialize_using_proto()
    with pytest.raises(ValueError, match="has 2 leaves, got 3"):
        tree.structure((1, 2)).walk(lambda children, data: children, None, [1, 2, 3])


def test_a_named_tuple_is_registered_without_a_warning() -> None:
    pair = collections.namedtuple("pair", "x name")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree_util.register_pytree_node(pair, lambda p: ((p.x,), p.name), lambda n, c: pair(*c, n))
    assert tree_util.tree_leaves(pair(1, "a")) == [1]
