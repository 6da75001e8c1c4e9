"""Calls with equal keys share a program; others do not."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any

import pytest

from gnomon._native import Key, NonHashableStaticArgumentError, SignatureCache
from tests.backends.native.caller import Caller, FakeArray, Pair, Point

KeyOf = Callable[..., Key]

AVAL = ("f32", (3,))


def array() -> FakeArray:
    return FakeArray(AVAL)


STRUCTURES: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((None,), {}),
    ((None, None), {}),
    (((),), {}),
    (([],), {}),
    (({},), {}),
    ((((),),), {}),
    ((array(),), {}),
    (((array(),),), {}),
    (([array()],), {}),
    (({"a": array()},), {}),
    (({"b": array()},), {}),
    (({1: array()},), {}),
    (({True: array()},), {}),
    (({1.0: array()},), {}),
    (({(1,): array()},), {}),
    (({(True,): array()},), {}),
    (({"a": array(), "b": array()},), {}),
    (({"a": array(), "b": None},), {}),
    (({"a": {"b": array()}},), {}),
    ((array(), array()), {}),
    (([array(), array()],), {}),
    (([[array()], array()],), {}),
    (([array(), [array()]],), {}),
    (([array(), None],), {}),
    (([None, array()],), {}),
    ((), {"a": array()}),
    ((), {"b": array()}),
    ((array(),), {"a": array()}),
    ((array(),), {"a": None}),
    ((Pair(array(), array()),), {}),
    ((Point(array(), array()),), {}),
    ((Point(array(), array(), "label"),), {}),
]


def test_different_structures_have_different_keys(key_of: KeyOf) -> None:
    keys = [key_of(*args, **kwargs) for args, kwargs in STRUCTURES]
    again = [key_of(*args, **kwargs) for args, kwargs in STRUCTURES]
    for i, key in enumerate(keys):
        for j, other in enumerate(again):
            assert (key == other) == (i == j), (STRUCTURES[i], STRUCTURES[j])
            if i == j:
                assert hash(key) == hash(other)
    assert len(set(keys + again)) == len(STRUCTURES)


def test_tokens_are_compared_by_identity(key_of: KeyOf) -> None:
    aval, equal_aval = tuple([1, 2]), tuple([1, 2])
    assert aval is not equal_aval
    assert key_of(FakeArray(aval)) == key_of(FakeArray(aval))
    assert key_of(FakeArray(aval)) != key_of(FakeArray(equal_aval))


def test_the_order_of_leaves_matters(key_of: KeyOf) -> None:
    a, b = FakeArray("a"), FakeArray("b")
    assert key_of(a, b) != key_of(b, a)
    assert key_of((a, b)) != key_of((b, a))


def test_the_order_of_keyword_arguments_does_not_matter(key_of: KeyOf) -> None:
    a, b = FakeArray("a"), FakeArray("b")
    assert key_of(x=a, y=b) == key_of(y=b, x=a)
    assert key_of(x=a, y=b) != key_of(x=b, y=a)


def test_a_key_equals_no_other_object(key_of: KeyOf) -> None:
    assert key_of() != "key"
    assert key_of() is not None
    assert (key_of() == None) is False  # noqa: E711


def test_the_context_is_part_of_the_key(caller: Caller) -> None:
    cache = caller.cache()
    keys = [cache.lookup((array(),), {}, context)[2] for context in (None, 0, False, 0.0, -0.0, "")]
    assert len(set(keys)) == len(keys)


def test_a_context_that_cannot_be_hashed(caller: Caller) -> None:
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        caller.cache().lookup((), {}, [])


# --- Static arguments ----------------------------------------------------------------------------


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


STATICS: list[Any] = [
    None,
    0,
    1,
    False,
    True,
    0.0,
    -0.0,
    1.0,
    math.inf,
    0j,
    complex(0.0, -0.0),
    complex(-0.0, 0.0),
    1 + 0j,
    "",
    "1",
    b"1",
    (),
    (1,),
    (True,),
    (1.0,),
    (0.0,),
    (-0.0,),
    ((1,),),
    Mode.FAST,
    Mode.SLOW,
    int,
    len,
    frozenset({1}),
    ...,
]


def test_static_values_are_compared_by_type_and_value(caller: Caller) -> None:
    cache = caller.cache(argnums=(0,))
    for i, value in enumerate(STATICS):
        cache.insert(cache.lookup((value, array()), {}, None)[2], f"entry {i}")
    for i, value in enumerate(STATICS):
        assert cache.lookup((value, array()), {}, None)[0] == f"entry {i}", value
    assert cache.size() == len(STATICS)


def test_equal_static_values_need_not_be_identical(caller: Caller) -> None:
    cache = caller.cache(argnums=(0,))
    make_values: list[Callable[[], Any]] = [
        lambda: 10**20 + len([]),
        lambda: "".join(["a", "b"]),
        lambda: tuple([1, (2.5 + len([]),)]),
        lambda: frozenset({10**20 + len([])}),
    ]
    for make in make_values:
        assert make() is not make()
        assert cache.lookup((make(),), {}, None)[2] == cache.lookup((make(),), {}, None)[2]


def test_a_static_nan_is_found_again(caller: Caller) -> None:
    cache = caller.cache(argnums=(0,))
    nan, other_nan = float("nan"), float("nan")
    cache.insert(cache.lookup(((nan, 1),), {}, None)[2], "entry")
    assert cache.lookup(((other_nan, 1),), {}, None)[0] == "entry"


def test_static_arguments_are_not_leaves(caller: Caller) -> None:
    cache = caller.cache(argnums=(1,), argnames=("mode",))
    x = array()
    _, leaves, key = cache.lookup((x, ("static", x)), {"mode": (x,), "y": x}, None)
    assert len(leaves) == 2
    assert key is not None
    assert key.avals == (AVAL, AVAL)
    assert caller.abstractified == caller.flattened == []


def test_a_static_argument_differs_from_a_dynamic_one(caller: Caller) -> None:
    dynamic = caller.cache()
    static = caller.cache(argnums=(0,))
    by_name = caller.cache(argnames=("x",))
    assert dynamic.lookup((1,), {}, None)[2] != static.lookup((1,), {}, None)[2]
    assert dynamic.lookup((), {"x": 1}, None)[2] != by_name.lookup((), {"x": 1}, None)[2]


def test_static_names_apply_to_keywords_and_positions_to_positions(caller: Caller) -> None:
    cache = caller.cache(argnums=(0,), argnames=("axis",))
    assert cache.lookup((1,), {}, None)[1] == []
    assert cache.lookup((), {"x": 1}, None)[1] == [1]
    assert cache.lookup((), {"axis": 1}, None)[1] == []
    assert cache.lookup((), {"".join(["ax", "is"]): 1}, None)[1] == []


def test_static_positions_that_a_call_does_not_have(caller: Caller) -> None:
    cache = caller.cache(argnums=(1, 70))
    assert cache.lookup((), {}, None)[1] == []
    assert cache.lookup((1,), {}, None)[1] == [1]
    assert cache.lookup((1, 2), {}, None)[1] == [1]
    assert cache.lookup((1, 2, 3), {}, None)[1] == [1, 3]


def test_static_values_at_different_names(caller: Caller) -> None:
    cache = caller.cache(argnames=("a", "b"))
    assert cache.lookup((), {"a": 1}, None)[2] != cache.lookup((), {"b": 1}, None)[2]
    assert (
        cache.lookup((), {"a": 1, "b": 2}, None)[2] == cache.lookup((), {"b": 2, "a": 1}, None)[2]
    )


@pytest.mark.parametrize("error", [NonHashableStaticArgumentError, TypeError, ValueError])
def test_a_static_position_that_cannot_be_hashed(caller: Caller, error: type[Exception]) -> None:
    cache = caller.cache(argnums=(1,))
    message = (
        r"static arguments must be hashable, but the value of static argument 1 is of type list, "
        r"which is not: pass a hashable value"
    )
    with pytest.raises(error, match=message) as caught:
        cache.lookup((1, [2]), {}, None)
    assert "unhashable type: 'list'" in str(caught.value.__cause__)


def test_a_static_name_that_cannot_be_hashed(caller: Caller) -> None:
    cache = caller.cache(argnames=("axes",))
    with pytest.raises(NonHashableStaticArgumentError, match="argument 'axes' is of type dict"):
        cache.lookup((), {"axes": {}}, None)


def test_a_static_tuple_that_cannot_be_hashed(caller: Caller) -> None:
    cache = caller.cache(argnums=(0,))
    with pytest.raises(NonHashableStaticArgumentError, match="argument 0 is of type tuple"):
        cache.lookup(((1, [2]),), {}, None)


class Moody:
    def __init__(self, mood: str) -> None:
        self.mood = mood

    def __hash__(self) -> int:
        if self.mood == "no hash":
            raise RuntimeError("no hash today")
        return 1

    def __eq__(self, other: object) -> bool:
        if self.mood == "no equality":
            raise RuntimeError("no equality today")
        return self is other


def test_other_errors_of_a_static_value_are_raised_unchanged(caller: Caller) -> None:
    cache = caller.cache(argnums=(0,))
    cache.insert(cache.lookup((Moody("fine"),), {}, None)[2], "entry")
    with pytest.raises(RuntimeError, match="no hash today"):
        cache.lookup((Moody("no hash"),), {}, None)
    with pytest.raises(RuntimeError, match="no equality today"):
        # Python asks the left operand, which is the one in the cache.
        moody = Moody("fine")
        cache.insert(cache.lookup((moody,), {}, None)[2], "other")
        moody.mood = "no equality"
        cache.lookup((Moody("fine"),), {}, None)


def test_hash_collisions_are_distinguished(caller: Caller) -> None:
    cache = caller.cache(argnums=(0,))
    values = [Moody("fine") for _ in range(50)]
    for i, value in enumerate(values):
        cache.insert(cache.lookup((value,), {}, None)[2], i + 1)
    assert [cache.lookup((value,), {}, None)[0] for value in values] == list(range(1, 51))


# --- Bad constructions ---------------------------------------------------------------------------


def no_op(leaf: object) -> None:
    return None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1, no_op, FakeArray), TypeError, "abstractify must be callable"),
        ((no_op, None, FakeArray), TypeError, "flatten_custom must be callable"),
        ((no_op, no_op, "array"), TypeError, "incompatible function arguments"),
        ((no_op, no_op, FakeArray, (-1,)), ValueError, "count from the first argument.* got -1"),
        ((no_op, no_op, FakeArray, (1 << 20,)), ValueError, "at most 65535, got 1048576"),
        ((no_op, no_op, FakeArray, ("x",)), TypeError, "tuple of ints, .* of type str"),
        ((no_op, no_op, FakeArray, (True,)), TypeError, "tuple of ints, .* of type bool"),
        ((no_op, no_op, FakeArray, (), (1,)), TypeError, "tuple of strings, .* of type int"),
        ((no_op, no_op, FakeArray, [0]), TypeError, "incompatible function arguments"),
    ],
)
def test_bad_constructions(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        SignatureCache(*arguments)
