"""Static values that are equal but not the same do not share a program, at any depth."""

from __future__ import annotations

import collections
import copy
import datetime
import decimal
import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import tree_util
from gnomon._native import strictly_equal


class Level(enum.IntEnum):
    """A member that equals a number."""

    ONE = 1


class Text(str, enum.Enum):
    """A member that equals a string."""

    A = "a"


class Named(NamedTuple):
    value: Any


@dataclass(frozen=True)
class Frozen:
    value: Any
    comment: str = field(default="", compare=False)


class Shifted(tuple[Any, ...]):
    """A subclass of tuple."""


class Fraction(float):
    """A subclass of float."""


UTC = datetime.timezone.utc
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=UTC)
# Equal values that a program can distinguish.
PAIRS: list[tuple[Any, Any]] = [
    (2, 2.0),
    (True, 1),
    (False, 0.0),
    (1, Level.ONE),
    ("a", Text.A),
    (0.0, -0.0),
    (0j, complex(0.0, -0.0)),
    (2.0, np.float64(2)),
    (np.float64(0.0), np.float64(-0.0)),
    (np.float32(2), np.float64(2)),
    (np.int8(2), np.int64(2)),
    (Fraction(0.0), Fraction(-0.0)),
    (2.0, Fraction(2)),
    (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    (range(0), range(1, 1)),
    (NOON, NOON.astimezone(datetime.timezone(datetime.timedelta(hours=1)))),
]
WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "alone": lambda v: v,
    "tuple": lambda v: (1, (v,)),
    "named tuple": Named,
    "subclass of tuple": lambda v: Shifted((v,)),
    "frozenset": lambda v: frozenset({v, "other"}),
    "dataclass": Frozen,
    "nested": lambda v: ((Frozen(frozenset({Named(v)})),),),
    "key of a dictionary": lambda v: {v: 1},
    "value of a dictionary": lambda v: {"a": [v]},
}
VALUES = [(name, wrap(a), wrap(b)) for name, wrap in WRAPPERS.items() for a, b in PAIRS if a == b]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_equality_is_strict(wrapper: str) -> None:
    wrap = WRAPPERS[wrapper]
    for a, b in PAIRS:
        assert a == b
        assert wrap(a) == wrap(b)
        assert not strictly_equal(wrap(a), wrap(b)), (a, b)
        assert not strictly_equal(wrap(b), wrap(a)), (a, b)
        for value in (a, b):
            assert strictly_equal(wrap(value), wrap(copy.deepcopy(value))), value


def test_equality_of_other_objects() -> None:
    nan, other_nan = float("nan"), float("-nan")
    assert strictly_equal((nan,), (float("nan"),))
    assert not strictly_equal((nan,), (other_nan,))
    # Dictionaries are compared with their order.
    assert not strictly_equal({"a": 1, "b": 2}, {"b": 2, "a": 1})
    arrays = [np.zeros(2), np.zeros(2, np.float32), -np.zeros(2), np.zeros((2, 1))]
    for i, a in enumerate(arrays):
        for j, b in enumerate(arrays):
            assert strictly_equal([a.copy()], [b]) == (i == j)
            assert strictly_equal([gnp.asarray(a.astype("f4"))], [gnp.asarray(a.astype("f4"))])
    assert not strictly_equal(np.array([1, None]), np.array([1.0, None]))
    assert strictly_equal(gn.random.key(0), gn.random.key(0))
    assert not strictly_equal(gn.random.key(0), gn.random.key(1))
    # A field that the class does not compare is not compared here either.
    assert strictly_equal(Frozen(1, "a"), Frozen(1, "b"))
    assert strictly_equal(NOON.isoformat, NOON.isoformat)
    structures = [tree_util.tree_structure({"a": Box(0, v)}) for v in (0.0, -0.0, 0, (0.0,))]
    for i, a in enumerate(structures):
        for j, b in enumerate(structures):
            assert strictly_equal((copy.deepcopy(a),), (b,)) == (i == j)
    assert not strictly_equal(None, ())


class Box:
    """A tree with one leaf and static data."""

    def __init__(self, x: Any, data: Any) -> None:
        self.x, self.data = x, data


tree_util.register_pytree_node(Box, lambda b: ((b.x,), b.data), lambda data, c: Box(c[0], data))


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def test_static_arguments_and_data_inside_of_a_trace() -> None:
    seen: list[str] = []

    def note(value: Any) -> None:
        seen.append(repr(value))

    static = gn.jit(lambda x, k: (note(k), x)[1], static_argnums=1)
    named = gn.jit(lambda x, *, k: (note(k), x)[1], static_argnames="k")
    box = gn.jit(lambda b: (note(b.data), b)[1])
    doors: dict[str, Callable[[Any, Any], Any]] = {
        "static_argnums": lambda x, k: static(x, k) if _is_hashable(k) else note(k),
        "static_argnames": lambda x, k: named(x, k=k) if _is_hashable(k) else note(k),
        "data of an argument": lambda x, k: note(box(Box(x, k)).data),
        "eval_shape": lambda x, k: note(box.eval_shape(Box(x, k)).data),
        "grad": lambda x, k: gn.grad(lambda y: box(Box(y, k)).x)(x),
        "vmap": lambda x, k: gn.vmap(lambda y: box(Box(y, k)).x)(gnp.ones(2)),
        "scan": lambda x, k: gn.lax.scan(lambda c, _: (box(c), None), Box(x, k), None, length=1),
        "tree_map": lambda x, k: note(tree_util.tree_map(lambda v: v, Box(x, k)).data),
    }
    for name, door in doors.items():
        box.clear_cache()
        is_cheap = name in ("static_argnums", "data of an argument")
        for wrapper, a, b in VALUES if is_cheap else VALUES[::7]:
            for value in (a, b):
                seen.clear()
                gn.make_jaxpr(lambda x, door=door, value=value: (door(x, value), x)[1])(1.0)
                assert seen, (name, wrapper, value)
                assert set(seen) == {repr(value)}, (name, wrapper)


def test_compiled_programs_depend_on_static_values() -> None:
    by_argument = gn.jit(lambda x, k: x / k.value, static_argnums=1)
    by_data = gn.jit(lambda b: b.x / b.data[0])
    for _ in range(2):
        for zero in (0.0, -0.0):
            expected = [np.copysign(np.inf, zero)] * 2
            assert by_argument(gnp.ones(2), Frozen(zero)).tolist() == expected
            assert by_argument(gnp.ones(2), k=Frozen(zero)).tolist() == expected
            assert by_data(Box(gnp.ones(2), (zero,))).tolist() == expected
            assert gn.vmap(by_data)(Box(gnp.ones(2), (zero,))).tolist() == expected
            gradient = gn.grad(lambda x, zero=zero: by_data(Box(x, (zero,))))(1.0)
            assert float(gradient) == expected[0]
    assert by_argument._cache_size() == 2 + 2
    assert by_data._cache_size() == 2


def test_values_that_are_the_same_share_a_program() -> None:
    traces: list[None] = []
    f = gn.jit(lambda x, k: (traces.append(None), x)[1], static_argnums=1)
    for value in [wrap(v) for wrap in WRAPPERS.values() for v in ("new", 0.25)]:
        if not _is_hashable(value):
            continue
        traces.clear()
        for _ in range(2):
            f.eval_shape(1.0, copy.deepcopy(value))
        assert len(traces) == 1, value
    for _ in range(2):
        f(1.0, Frozen((Named(0.5), frozenset({1})), comment="fresh"))
    assert f._cache_size() == 1


class Mutable:
    """A static value that is compared by what it holds now."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mutable) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


def test_static_values_that_have_changed_since() -> None:
    f = gn.jit(lambda x, k: x * k.value, static_argnums=1)
    by_data = gn.jit(lambda b: b.x * b.data.value)
    both = gn.jit(lambda x, k: f(x, k) + by_data(Box(x, k)), static_argnums=1)
    k = Mutable(2.0)
    for _ in range(2):
        for value in (2.0, 3.0):
            k.value = value
            assert float(f(1.0, k)) == value
            assert float(by_data(Box(1.0, k))) == value
            assert float(both(1.0, k)) == 2 * value
            assert float(f(1.0, Mutable(value))) == value


def test_keys_of_dictionaries_that_are_equal_but_not_the_same() -> None:
    for a, b in PAIRS:
        if type(a) is complex:
            continue  # cannot be sorted
        for key in (a, b, a):
            tree = {key: 5}
            for made in (
                tree_util.tree_map(lambda x: x, tree),
                tree_util.tree_unflatten(tree_util.tree_structure(tree), [5]),
                tree_util.tree_map(lambda x: x, {"t": (tree,)})["t"][0],
                tree_util.tree_map(lambda x: x, {"t": collections.OrderedDict(tree)})["t"],
                tree_util.tree_map(lambda x: x, collections.defaultdict(list, tree)),
            ):
                assert [*map(repr, made)] == [repr(key)]
    tree = {"b": {True: 1, False: 2}, "a": 3}
    for _ in range(2):
        assert repr(tree_util.tree_map(lambda x: x, tree)) == "{'a': 3, 'b': {False: 2, True: 1}}"
        assert repr(tree_util.tree_map(lambda x: x, {1: 1, 0: 2})) == "{0: 2, 1: 1}"


def test_partials_and_static_arguments_of_other_transformations() -> None:
    @functools.partial(gn.checkpoint, static_argnums=1)
    def layer(x: Any, k: Any) -> Any:
        return x / k[0]

    @functools.partial(gn.custom_jvp, nondiff_argnums=(1,))
    def custom(x: Any, k: Any) -> Any:
        return x / k[0]

    custom.defjvp(lambda k, primals, tangents: (custom(primals[0], k), tangents[0] / k[0]))
    mapped = gn.pmap(lambda x, k: x / k[0], static_broadcasted_argnums=1)
    for _ in range(2):
        for zero in (0.0, -0.0):
            expected = np.copysign(np.inf, zero)
            for function in (layer, custom):
                assert float(gn.grad(function)(1.0, (zero,))) == expected
            assert mapped(gnp.ones(1), (zero,)).tolist() == [expected]
