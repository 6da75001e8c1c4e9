"""Entries, counters, errors during a look-up, re-entrance, and memory use."""

from __future__ import annotations

import collections
import gc
import subprocess
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gnomon._native import Key, SignatureCache
from tests.backends.native.caller import Caller, FakeArray, Pair, Point, Tracer


def miss(cache: SignatureCache, *args: Any, **kwargs: Any) -> Key:
    entry, _, key = cache.lookup(args, kwargs, None)
    assert entry is None
    assert key is not None
    return key


def test_inserted_entries_are_found(caller: Caller) -> None:
    cache = caller.cache()
    key = miss(cache, 1.0)
    assert cache.size() == 0
    entry = object()
    cache.insert(key, entry)
    assert cache.size() == 1
    found, leaves, found_key = cache.lookup((2.0,), {}, None)
    assert found is entry
    assert leaves == [2.0]
    assert found_key is key
    miss(cache, 1)


def test_the_same_key_made_twice_has_one_entry(caller: Caller) -> None:
    cache = caller.cache()
    first, second = miss(cache, 1.0), miss(cache, 1.0)
    cache.insert(first, "first")
    cache.insert(second, "second")
    assert cache.size() == 1
    assert cache.lookup((1.0,), {}, None)[0] == "second"


def test_counters(caller: Caller) -> None:
    cache = caller.cache()
    cache.insert(miss(cache, 1.0), "entry")
    for _ in range(5):
        cache.lookup((1.0,), {}, None)
    miss(cache, 1)
    assert (cache.hits, cache.misses) == (5, 2)
    cache.clear()
    assert (cache.hits, cache.misses, cache.size()) == (0, 0, 0)


def test_clear_forgets_entries_and_leaves(caller: Caller) -> None:
    cache = caller.cache()
    key = miss(cache, 1.0, {"a": 1})
    cache.insert(key, "entry")
    asked = len(caller.abstractified)
    cache.clear()
    miss(cache, 1.0, {"a": 1})
    assert len(caller.abstractified) == 2 * asked
    # A key outlives the cache's memory.
    cache.insert(key, "again")
    assert cache.lookup((1.0, {"a": 1}), {}, None)[0] == "again"


def test_an_entry_must_not_be_none(caller: Caller) -> None:
    cache = caller.cache()
    with pytest.raises(TypeError, match="must not be None"):
        cache.insert(miss(cache), None)
    assert cache.size() == 0


@pytest.mark.parametrize("key", [None, "key", 1])
def test_an_entry_needs_a_key(caller: Caller, key: Any) -> None:
    with pytest.raises(TypeError):
        caller.cache().insert(key, "entry")


@pytest.mark.parametrize(("args", "kwargs"), [([], {}), ((), None), ((), [("a", 1)])])
def test_arguments_of_the_wrong_type(caller: Caller, args: Any, kwargs: Any) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments"):
        caller.cache().lookup(args, kwargs, None)


def test_many_entries(caller: Caller) -> None:
    cache = caller.cache()
    tokens = [object() for _ in range(2000)]
    for i, token in enumerate(tokens):
        cache.insert(miss(cache, [FakeArray(token)]), i + 1)
    assert cache.size() == len(tokens)
    for i, token in enumerate(tokens):
        assert cache.lookup(([FakeArray(token)],), {}, None)[0] == i + 1


# --- Errors --------------------------------------------------------------------------------------


def test_errors_of_abstractify_are_raised_unchanged(caller: Caller) -> None:
    cache = caller.cache()
    for bad in ("text", object(), np.array([None]), {1, 2}):
        for tree in (bad, [1.0, {"a": bad}], Point(1.0, bad)):
            with pytest.raises(TypeError, match="valid argument"):
                cache.lookup((1.0, tree), {}, None)
    # The leaves collected before the error are gone.
    assert cache.lookup((1.0,), {}, None)[1] == [1.0]


@pytest.mark.parametrize("answer", [1, "ab", (1,), (1, 2, 3), [[], None]])
def test_bad_answers_of_flatten_custom(caller: Caller, answer: Any) -> None:
    cache = SignatureCache(caller.abstractify, lambda node: answer, FakeArray)
    with pytest.raises(TypeError, match=r"None for a leaf or a pair \(children, data\)"):
        cache.lookup((object(),), {}, None)


def test_children_of_a_custom_node_must_be_iterable(caller: Caller) -> None:
    cache = SignatureCache(caller.abstractify, lambda node: (1, None), FakeArray)
    with pytest.raises(TypeError, match="not iterable"):
        cache.lookup((object(),), {}, None)


def test_data_of_a_custom_node_must_be_hashable(caller: Caller) -> None:
    cache = SignatureCache(caller.abstractify, lambda node: ((), ["a"]), FakeArray)
    with pytest.raises(
        TypeError, match="static data of a tree node of type Point must be hashable"
    ):
        cache.lookup((Point(1, 2),), {}, None)


def test_an_array_without_the_slot(caller: Caller) -> None:
    class Bare:
        __slots__ = ()

    cache = SignatureCache(caller.abstractify, caller.flatten_custom, Bare)
    with pytest.raises(AttributeError, match="_aval"):
        cache.lookup((Bare(),), {}, None)


def test_cyclic_and_deep_trees_end_in_recursion_error(caller: Caller) -> None:
    cache = caller.cache(argnums=(1,))
    cyclic_list: list[Any] = []
    cyclic_list.append(cyclic_list)
    cyclic_dict: dict[str, Any] = {}
    cyclic_dict["self"] = cyclic_dict
    deep: Any = ()
    for _ in range(100_000):
        deep = (deep,)
    point = Point(None, None)
    point.x = point
    for tree in (cyclic_list, cyclic_dict, deep, point):
        with pytest.raises(RecursionError):
            cache.lookup((tree,), {}, None)
    with pytest.raises(RecursionError):
        cache.lookup((1, deep), {}, None)
    while deep:  # dropping it at once would recurse as deep
        deep = deep[0]


# --- Callbacks that do as they please ------------------------------------------------------------


def test_look_ups_inside_callbacks(caller: Caller) -> None:
    cache: SignatureCache

    def abstractify(leaf: Any) -> object:
        if leaf > 0:
            inner = cache.lookup(([leaf - 1], {"k": leaf - 1}), {}, None)
            assert inner[1] == [leaf - 1, leaf - 1]
        return caller.token("number")

    class Number(float):
        def __sub__(self, other: Any) -> Number:
            return Number(float(self) - other)

    cache = SignatureCache(abstractify, caller.flatten_custom, FakeArray)
    leaf = Number(4)
    assert cache.lookup((leaf, {"a": leaf}), {}, None)[1] == [leaf, leaf]


@pytest.mark.parametrize("container", [list, dict], ids=["list", "dict"])
def test_containers_that_change_while_they_are_walked(caller: Caller, container: type) -> None:
    tree: Any = [object() for _ in range(50)]
    if container is dict:
        tree = dict(enumerate(tree))
    expected = list(tree.values()) if container is dict else list(tree)

    def abstractify(leaf: Any) -> object:
        if tree:
            tree.clear()
            gc.collect()
        return caller.token("leaf")

    cache = SignatureCache(abstractify, caller.flatten_custom, FakeArray)
    _, leaves, _ = cache.lookup((tree,), {}, None)
    assert leaves == expected


def test_a_cache_that_changes_while_it_is_searched() -> None:
    cache: SignatureCache
    disturb: list[Callable[[], None]] = []

    class Disturbing:
        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            if disturb:
                disturb.pop()()
            return True

    cache = SignatureCache(lambda leaf: "token", lambda node: None, FakeArray, (0,))
    cache.insert(cache.lookup((Disturbing(),), {}, None)[2], "entry")

    disturb.append(cache.clear)
    assert cache.lookup((Disturbing(),), {}, None)[0] is None

    def insert_many() -> None:
        for i in range(100):
            cache.insert(cache.lookup((i,), {}, None)[2], "other")

    cache.insert(cache.lookup((Disturbing(),), {}, None)[2], "entry")
    disturb.append(insert_many)
    assert cache.lookup((Disturbing(),), {}, None)[0] == "entry"
    assert cache.size() == 101


def test_an_entry_that_uses_the_cache_when_it_is_dropped(caller: Caller) -> None:
    cache = caller.cache()
    seen: list[Any] = []

    class Entry:
        def __del__(self) -> None:
            seen.append(cache.lookup((1.0,), {}, None)[0])

    cache.insert(miss(cache, 1.0), Entry())
    cache.insert(miss(cache, 1), "other")
    cache.insert(cache.lookup((1.0,), {}, None)[2], "replaced")
    assert seen == ["replaced"]
    cache.insert(cache.lookup((1.0,), {}, None)[2], Entry())
    cache.clear()
    assert seen == ["replaced", None]


# --- Memory --------------------------------------------------------------------------------------


def test_references_of_leaves_and_tokens_are_balanced(caller: Caller) -> None:
    token, static, context, name = object(), ("static", 1), ("context",), "".join(["na", "me"])
    leaf = FakeArray(token)
    cache = caller.cache(argnums=(0,))
    objects = (token, static, context, leaf, name)
    before = [sys.getrefcount(o) for o in objects]

    def call() -> Any:
        tree = {name: [leaf], "pair": Pair(leaf, Point(leaf, leaf))}
        return cache.lookup((static, tree), {"k": leaf}, context)

    def all_kinds_of_calls() -> list[int]:
        call()
        with pytest.raises(TypeError):
            cache.lookup((static, {name: [leaf, "bad"]}), {"k": leaf}, context)
        assert cache.lookup((static, [leaf, Tracer(), leaf]), {}, context)[2] is None
        caller.abstractified.clear()
        caller.flattened.clear()
        return [sys.getrefcount(o) for o in objects]

    # The first call fills the caches of the context and of the dictionaries' keys.
    after_misses = all_kinds_of_calls()
    for _ in range(100):
        assert all_kinds_of_calls() == after_misses
    cache.insert(call()[2], "entry")
    after_insert = all_kinds_of_calls()
    for _ in range(100):
        assert all_kinds_of_calls() == after_insert
    cache.clear()
    assert [sys.getrefcount(o) for o in objects] == before


def test_memory_does_not_grow(caller: Caller) -> None:
    cache = caller.cache(argnums=(0,))
    leaf = FakeArray(object())

    def calls() -> None:
        for _ in range(500):
            tree = {"a": [leaf, 1.0], "b": (np.ones(3), None), "c": collections.OrderedDict(x=leaf)}
            _, _, key = cache.lookup(("static", tree), {"k": tree}, None)
            cache.insert(key, "entry")
            cache.lookup(("static", Tracer()), {}, None)
            with pytest.raises(TypeError):
                cache.lookup(([], tree), {}, None)
        caller.abstractified.clear()
        caller.flattened.clear()

    calls()
    tracemalloc.start()
    try:
        calls()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        calls()
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    # 1500 look-ups that lost one object each would show as 24 kB or more.
    assert after - before < 8_000


def test_a_cache_in_a_cycle_is_collected() -> None:
    class Owner:
        """Like a jitted function, owns the cache, whose callbacks and entries refer to it."""

        def __init__(self) -> None:
            self.cache = SignatureCache(self.abstractify, self.flatten, FakeArray, (0,))
            key = self.cache.lookup((self, 1.0), {}, self)[2]
            self.cache.insert(key, self)
            self.key = key

        def abstractify(self, leaf: Any) -> object:
            return self

        def flatten(self, node: Any) -> None:
            return None

    owner = weakref.ref(Owner())
    gc.collect()
    assert owner() is None


def test_a_key_in_a_cycle_is_collected(caller: Caller) -> None:
    class Static:
        key: Any = None

    static = Static()
    static.key = caller.cache(argnums=(0,)).lookup((static,), {}, None)[2]
    alive = weakref.ref(static)
    del static
    gc.collect()
    assert alive() is None


def test_a_cache_that_is_alive_at_exit_prints_nothing() -> None:
    program = """
import builtins
from gnomon._native import SignatureCache
class Array:
    pass
cache = SignatureCache(lambda leaf: 1, lambda node: None, Array)
cache.insert(cache.lookup((1.0,), {}, None)[2], cache)
builtins.cache = cache
builtins.entry = cache.lookup((1.0,), {}, None)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout + result.stderr == ""
