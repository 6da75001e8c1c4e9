"""Which objects are leaves, their order, and the calls that abstract them."""

from __future__ import annotations

import collections
from typing import Any

import ml_dtypes
import numpy as np
import optree
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon._native import UNCACHED, SignatureCache
from tests.backends.native.caller import Caller, FakeArray, Pair, Point, Tracer

optree.register_pytree_node(
    Point,
    lambda point: ((point.x, point.y), point.label),
    lambda label, children: Point(*children, label),
    namespace="gnomon-native-tests",
)


def leaves_of(caller: Caller, *args: Any, **kwargs: Any) -> list[Any]:
    return caller.cache().lookup(args, kwargs, None)[1]


# Keys of one type, of several comparable and incomparable types, and of none at all.
dict_keys = st.one_of(
    st.text(max_size=3),
    st.integers(-3, 3),
    st.booleans(),
    st.tuples(st.integers(0, 2), st.text(max_size=1)),
    st.none(),
)


def nodes(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(children, max_size=4),
        st.lists(children, max_size=4).map(tuple),
        st.dictionaries(dict_keys, children, max_size=5),
        st.dictionaries(st.text(max_size=2), children, max_size=5).map(collections.OrderedDict),
        st.builds(Pair, children, children),
        st.builds(Point, children, children, st.sampled_from(["", "a"])),
    )


trees = st.recursive(st.builds(FakeArray, st.builds(object)) | st.none(), nodes, max_leaves=25)


def same_objects(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


@settings(deadline=None)
@given(trees)
def test_leaves_are_in_the_order_of_optree(tree: Any) -> None:
    expected = optree.tree_leaves(tree, namespace="gnomon-native-tests")
    assert same_objects(leaves_of(Caller(), tree), expected)


@settings(deadline=None)
@given(trees, trees)
def test_keys_differ_exactly_where_optrees_structures_do(a: Any, b: Any) -> None:
    caller = Caller()
    cache = caller.cache()
    shared = object()

    def key_and_structure(tree: Any) -> tuple[Any, Any]:
        leaves, structure = optree.tree_flatten(tree, namespace="gnomon-native-tests")
        # The same token for every leaf, so that structure alone decides.
        for leaf in leaves:
            leaf._aval = shared
        return cache.lookup((tree,), {}, None)[2], structure

    key_a, structure_a = key_and_structure(a)
    key_b, structure_b = key_and_structure(b)
    copy_of_a = optree.tree_map(lambda leaf: leaf, a, namespace="gnomon-native-tests")
    assert key_and_structure(copy_of_a)[0] == key_a
    if key_a == key_b:
        assert structure_a == structure_b
        assert hash(key_a) == hash(key_b)
    # The native keys are stricter: optree treats {1: x} and {True: x} as equal.
    if structure_a == structure_b and repr(structure_a) == repr(structure_b):
        assert key_a == key_b


def test_positional_arguments_come_first_then_keywords_by_name(caller: Caller) -> None:
    arrays = [FakeArray(object()) for _ in range(4)]
    leaves = leaves_of(caller, arrays[0], arrays[1], b=arrays[3], a=arrays[2])
    assert same_objects(leaves, arrays)


def test_dictionary_order_does_not_matter(caller: Caller) -> None:
    cache = caller.cache()
    x, y = FakeArray(object()), FakeArray(object())
    _, leaves, key = cache.lookup(({"x": x, "y": y},), {}, None)
    _, other_leaves, other_key = cache.lookup(({"y": y, "x": x},), {}, None)
    assert same_objects(leaves, [x, y])
    assert same_objects(other_leaves, [x, y])
    assert key == other_key
    # In the other order, now that the layout of each insertion order is known.
    assert same_objects(cache.lookup(({"x": x, "y": y},), {}, None)[1], [x, y])
    assert same_objects(cache.lookup(({"y": y, "x": x},), {}, None)[1], [x, y])


def test_keys_constructed_at_each_call_are_found(caller: Caller) -> None:
    cache = caller.cache()
    array = FakeArray(object())

    def call() -> Any:
        # Neither the dictionary nor its keys outlive the call; more of them than are remembered.
        tree = {f"{'weight'}_{i}": array for i in range(3)}
        return cache.lookup((tree,), {}, None)

    cache.insert(call()[2], "entry")
    for _ in range(3000):
        assert call()[0] == "entry"


class Incomparable:
    pass


def test_keys_without_an_order_keep_the_insertion_order(caller: Caller) -> None:
    tree = {Incomparable(): FakeArray(object()) for _ in range(5)}
    assert same_objects(leaves_of(caller, tree), optree.tree_leaves(tree))


class Unsortable:
    def __lt__(self, other: object) -> bool:
        raise RuntimeError("no order today")


def test_an_error_while_sorting_that_is_not_a_type_error_is_raised(caller: Caller) -> None:
    with pytest.raises(RuntimeError, match="no order today"):
        leaves_of(caller, {Unsortable(): 1, Unsortable(): 2})


def test_none_has_no_leaves(caller: Caller) -> None:
    assert leaves_of(caller, None, (None, [None]), {"a": None}) == []
    assert caller.abstractified == []


def test_only_custom_nodes_call_flatten_custom(caller: Caller) -> None:
    point = Point(FakeArray(object()), [FakeArray(object())])
    pair = Pair(point, 1.0)
    leaves = leaves_of(caller, (pair, [2], {"a": 3}))
    assert same_objects(leaves, [point.x, point.y[0], 1.0, 2, 3])
    assert same_objects(caller.flattened, [pair, point])


def test_a_subclass_of_a_container_is_not_a_container(caller: Caller) -> None:
    class Names(list):
        pass

    with pytest.raises(TypeError, match="Names is no valid argument"):
        leaves_of(caller, Names([1, 2]))


# --- Tokens --------------------------------------------------------------------------------------


def test_an_arrays_own_token_is_used(caller: Caller) -> None:
    aval = object()
    key = caller.cache().lookup((FakeArray(aval),), {}, None)[2]
    assert key is not None
    assert key.avals[0] is aval
    assert caller.abstractified == []


def test_an_array_without_a_token_is_abstracted_at_each_call(caller: Caller) -> None:
    cache = caller.cache()
    array = FakeArray()
    for _ in range(3):
        cache.lookup((array,), {}, None)
    assert same_objects(caller.abstractified, [array] * 3)


def test_a_subclass_of_the_array_type_is_not_an_array(caller: Caller) -> None:
    class Special(FakeArray):
        __slots__ = ()

    special = Special(object())
    leaves_of(caller, special)
    assert same_objects(caller.flattened, [special])
    assert same_objects(caller.abstractified, [special])


def test_python_numbers_are_abstracted_once_for_each_type(caller: Caller) -> None:
    cache = caller.cache()
    first = cache.lookup((True, 1, 1.0, 1j), {}, None)[2]
    second = cache.lookup((False, 2**80, float("nan"), -1j), {}, None)[2]
    assert first == second
    assert caller.abstractified == [True, 1, 1.0, 1j]
    assert first is not None
    assert first.avals == tuple(caller.token(t) for t in (bool, int, float, complex))


def test_a_subclass_of_a_number_is_abstracted_at_each_call(caller: Caller) -> None:
    class Degrees(float):
        pass

    cache = caller.cache()
    cache.lookup((Degrees(1.0), Degrees(2.0)), {}, None)
    assert caller.abstractified == [1.0, 2.0]
    assert caller.flattened == [1.0, 2.0]


def test_numpy_arrays_are_abstracted_once_for_each_shape_and_dtype(caller: Caller) -> None:
    cache = caller.cache()
    shapes: list[tuple[int, ...]] = [(), (1,), (2,), (1, 2), (2, 1), (0, 5)]
    dtypes = [np.float32, np.float64, np.int32, np.bool_, np.complex64, ml_dtypes.bfloat16]
    arrays = [np.ones(shape, dtype) for shape in shapes for dtype in dtypes]
    first = cache.lookup(tuple(arrays), {}, None)[2]
    second = cache.lookup(tuple(array.copy() for array in arrays), {}, None)[2]
    assert first == second
    assert len(caller.abstractified) == len(arrays)
    assert first is not None
    assert first.avals == tuple(caller.token((a.shape, a.dtype)) for a in arrays)
    assert len(set(first.avals)) == len(arrays)


def test_the_memory_layout_of_a_numpy_array_does_not_matter(caller: Caller) -> None:
    cache = caller.cache()
    array = np.ones((4, 4), np.float32)
    keys = [
        cache.lookup((a,), {}, None)[2] for a in (array, array.T, np.ones((8, 8), "f4")[::2, ::2])
    ]
    assert keys[0] == keys[1] == keys[2]


def test_dtypes_that_are_equal_but_not_identical_share_a_token(caller: Caller) -> None:
    cache = caller.cache()
    other = np.dtype("f4", metadata={"unit": "m"})
    assert other is not np.dtype("f4")
    key = cache.lookup((np.ones(3, "f4"),), {}, None)[2]
    assert cache.lookup((np.ones(3, other),), {}, None)[2] == key
    assert len(caller.abstractified) == 2


@pytest.mark.parametrize(
    "scalar", [np.float32(1), np.float64(1), np.int8(1), np.bool_(True), ml_dtypes.bfloat16(1)]
)
def test_numpy_scalars_are_abstracted_once_for_each_type(caller: Caller, scalar: Any) -> None:
    cache = caller.cache()
    first = cache.lookup((scalar,), {}, None)[2]
    assert cache.lookup((type(scalar)(0),), {}, None)[2] == first
    assert len(caller.abstractified) == 1
    assert caller.flattened == []


def test_numpy_scalars_are_not_taken_for_arrays(caller: Caller) -> None:
    leaves_of(caller, np.float32(1), np.ones((), np.float32))
    assert len(caller.abstractified) == 2


def test_a_subclass_of_ndarray_is_abstracted_at_each_call(caller: Caller) -> None:
    cache = caller.cache()
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    cache.lookup((masked, masked), {}, None)
    assert len(caller.abstractified) == 2


def test_more_shapes_than_are_remembered(caller: Caller) -> None:
    cache = caller.cache()
    for size in range(5000):
        key = cache.lookup((np.broadcast_to(np.float32(0), (size,)),), {}, None)[2]
        assert key is not None
        assert key.avals == (caller.token(((size,), np.dtype("f4"))),)


def test_tokens_are_remembered_for_each_context(caller: Caller) -> None:
    cache = caller.cache()
    call: tuple[Any, ...] = (1.0, np.ones(3), np.float32(1))
    for context in ("x32", "x64", "x32", "x64"):
        cache.lookup(call, {}, context)
    assert len(caller.abstractified) == 2 * len(call)


def test_contexts_are_compared_by_value(caller: Caller) -> None:
    cache = caller.cache()
    for _ in range(3):
        cache.lookup((1.0,), {}, tuple(["x32", None]))
    assert len(caller.abstractified) == 1


def test_more_contexts_than_are_remembered(caller: Caller) -> None:
    cache = caller.cache()
    for context in range(100):
        cache.insert(cache.lookup((1.0,), {}, context)[2], context + 1)
    for context in range(100):
        assert cache.lookup((1.0,), {}, context)[0] == context + 1


# --- Uncached ------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_uncached_leaf_makes_the_call_uncached(caller: Caller, position: int) -> None:
    cache = caller.cache()
    leaves: list[Any] = [FakeArray(object()), 1.0, np.ones(3)]
    leaves[position] = Tracer()
    entry, found, key = cache.lookup(({"a": leaves[0], "b": (leaves[1], leaves[2])},), {}, None)
    assert entry is None
    assert key is None
    assert same_objects(found, leaves)
    assert (cache.hits, cache.misses, cache.size()) == (0, 0, 0)
    # The next call of the same cache is not tainted.
    assert cache.lookup((1.0,), {}, None)[2] is not None


def test_an_array_whose_token_is_uncached(caller: Caller) -> None:
    assert caller.cache().lookup((FakeArray(UNCACHED),), {}, None)[2] is None


def test_uncached_is_not_remembered_for_a_number() -> None:
    answers = [UNCACHED, "float"]
    cache = SignatureCache(lambda leaf: answers.pop(0), lambda node: None, FakeArray)
    assert cache.lookup((1.0,), {}, None)[2] is None
    assert cache.lookup((1.0,), {}, None)[2] is not None
    assert answers == []


def test_uncached_is_not_remembered_for_a_numpy_array() -> None:
    answers = [UNCACHED, "array"]
    cache = SignatureCache(lambda leaf: answers.pop(0), lambda node: None, FakeArray)
    assert cache.lookup((np.ones(3),), {}, None)[2] is None
    assert cache.lookup((np.ones(3),), {}, None)[2] is not None


def test_uncached_has_a_name() -> None:
    assert repr(UNCACHED) == "gnomon._native.UNCACHED"
