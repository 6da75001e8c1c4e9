"""Eager loops and branches call their functions at each call, as Python does.

Whatever a body reads has the value of now, and whatever it writes is written.
"""

from __future__ import annotations

import builtins
import functools
import gc
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon._tracing import eager_cache
from gnomon.backends.reference import Evaluator

Function = Callable[[Any], Any]

# Each applies a function once to a scalar.
FORMS: dict[str, Callable[[Function, Any], Any]] = {
    "scan": lambda f, x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
    "scan of the function itself": lambda f, x: lax.scan(_pair(f), x, None, length=1)[0],
    "map": lambda f, x: lax.map(f, x[None])[0],
    "map in batches": lambda f, x: lax.map(f, gnp.stack([x, x]), batch_size=1)[0],
    "while_loop": lambda f, x: lax.while_loop(
        lambda s: s[0] < 1, lambda s: (s[0] + 1, f(s[1])), (0, x)
    )[1],
    "fori_loop": lambda f, x: lax.fori_loop(0, 1, lambda i, v: f(v), x),
    "cond": lambda f, x: lax.cond(True, f, lambda v: v, x),
    "switch": lambda f, x: lax.switch(1, [lambda v: v, f], x),
    "associative_scan": lambda f, x: lax.associative_scan(lambda _, b: f(b), gnp.stack([x, x]))[1],
    "checkpoint": lambda f, x: gn.checkpoint(f)(x),
    "a loop in a loop": lambda f, x: lax.fori_loop(
        0, 1, lambda i, v: lax.map(lambda w: lax.cond(i < 1, f, lambda u: u, w), v[None])[0], x
    ),
}

_pairs: weakref.WeakKeyDictionary[Function, Any] = weakref.WeakKeyDictionary()


def _pair(f: Function) -> Any:
    """The body of a scan: the same object for the same function."""
    return _pairs.setdefault(f, lambda c, _: (f(c), None))


# ------------------------------------------------------------------------------ what a body reads

FACTOR = 2.0
SETTINGS = SimpleNamespace(factor=2.0)
VALUES = [2.0]
TABLE = {"factor": 2.0}
MODULE = ModuleType("gnomon_tests_settings")


class WithDefault(NamedTuple):
    factor: float = 2.0


class WithProperty(NamedTuple):
    value: Any

    @property
    def product(self) -> Any:
        return self.value * FACTOR


@dataclass
class Model:
    """A tree whose static data are compared by identity."""

    x: Any
    settings: Any = field(metadata={"static": True})


gn.tree_util.register_dataclass(Model)


def _set_global(value: float) -> None:
    globals()["FACTOR"] = value


def by_global(x: Any) -> Any:
    return x * FACTOR


def by_function(x: Any) -> Any:
    return by_global(x)


def by_list(x: Any) -> Any:
    return x * VALUES[0]


def by_table(x: Any) -> Any:
    return x * TABLE["factor"]


def by_attribute(x: Any) -> Any:
    return x * SETTINGS.factor


def by_getattr(x: Any) -> Any:
    return x * getattr(SETTINGS, "".join(["fac", "tor"]))


def by_import(x: Any) -> Any:
    import gnomon_tests_settings  # type: ignore[import-not-found]

    return x * gnomon_tests_settings.factor


def by_globals(x: Any) -> Any:
    return x * globals()["FACTOR"]


def by_own_attribute(x: Any) -> Any:
    return x * by_own_attribute.factor  # type: ignore[attr-defined]


def by_default(x: Any, factor: float = 2.0) -> Any:
    return x * factor


def by_keyword_default(x: Any, *, factor: float = 2.0) -> Any:
    return x * factor


def by_mutable_default(x: Any, values: list[float] = VALUES) -> Any:
    return x * values[0]


def by_builtins(x: Any) -> Any:
    return x * gnomon_tests_factor  # type: ignore[name-defined]  # noqa: F821


def by_named_tuple(x: Any) -> Any:
    return x * WithDefault().factor


def by_property(x: Any) -> Any:
    return WithProperty(x).product


def by_static_data(x: Any) -> Any:
    return lax.fori_loop(
        0, 1, lambda i, m: Model(m.x * m.settings.factor, m.settings), Model(x, SETTINGS)
    ).x


@functools.wraps(gnp.sin)
def by_wrapper(x: Any) -> Any:
    return x * FACTOR


def by_partial() -> Function:
    return gn.tree_util.Partial(by_global)


def by_vectorize() -> Function:
    function = np.vectorize(lambda x: x * FACTOR)
    return lambda x: x * float(function(1.0))


def by_custom_rule() -> Function:
    @gn.custom_jvp
    def custom(x: Any) -> Any:
        return x * FACTOR

    custom.defjvp(lambda primals, tangents: (custom(*primals), tangents[0] * FACTOR))
    return lambda x: custom(x)


class Scaling:
    """A function that equals all others of its class."""

    def __call__(self, x: Any) -> Any:
        return x * FACTOR

    def method(self, x: Any) -> Any:
        return x * FACTOR

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scaling)

    def __hash__(self) -> int:
        return 0


def _changed_cell() -> tuple[Function, Callable[[float], None]]:
    factor = 2.0

    def change(value: float) -> None:
        nonlocal factor
        factor = value

    return lambda x: x * factor, change


def _changed_array() -> tuple[Function, Callable[[float], None]]:
    weights = gnp.full(8, 0.25)

    def change(value: float) -> None:
        nonlocal weights
        weights = gnp.full(8, value / 8)

    return lambda x: x * weights.sum(), change


def _set_default(value: float) -> None:
    by_default.__defaults__ = (value,)


def _set_keyword_default(value: float) -> None:
    by_keyword_default.__kwdefaults__ = {"factor": value}


_cell, _array = _changed_cell(), _changed_array()

# A function that multiplies by a factor, and a function that changes the factor. The functions are
# the same objects at each call.
READS: dict[str, tuple[Function, Callable[[float], None]]] = {
    "a cell": _cell,
    "an array in a cell": _array,
    "a global": (by_global, _set_global),
    "a global of a global function": (by_function, _set_global),
    "a list": (by_list, lambda value: VALUES.__setitem__(0, value)),
    "a dictionary": (by_table, lambda value: TABLE.update(factor=value)),
    "an attribute": (by_attribute, lambda value: setattr(SETTINGS, "factor", value)),
    "getattr": (by_getattr, lambda value: setattr(SETTINGS, "factor", value)),
    "an import": (by_import, lambda value: setattr(MODULE, "factor", value)),
    "globals()": (by_globals, _set_global),
    "its own attribute": (by_own_attribute, lambda v: setattr(by_own_attribute, "factor", v)),
    "a default": (by_default, _set_default),
    "a default of a keyword": (by_keyword_default, _set_keyword_default),
    "a mutable default": (by_mutable_default, lambda value: VALUES.__setitem__(0, value)),
    "builtins": (by_builtins, lambda value: setattr(builtins, "gnomon_tests_factor", value)),
    "a default of a named tuple": (
        by_named_tuple,
        lambda value: setattr(WithDefault.__new__, "__defaults__", (value,)),
    ),
    "a property of a named tuple": (by_property, _set_global),
    "static data of a tree": (by_static_data, lambda v: setattr(SETTINGS, "factor", v)),
    "a wrapper of ours": (by_wrapper, _set_global),
    "Partial": (by_partial(), _set_global),
    "numpy.vectorize": (by_vectorize(), _set_global),
    "a custom rule": (by_custom_rule(), _set_global),
    "an object": (Scaling(), _set_global),
    "a method": (Scaling().method, _set_global),
}

MODES: dict[str, Callable[[Function, float], Any]] = {
    "eager": lambda f, x: f(gnp.float32(x)),
    "weakly typed": lambda f, x: f(gnp.asarray(x)),
    "grad": lambda f, x: gn.grad(f)(gnp.float32(1.0)) * x,
    "jvp": lambda f, x: gn.jvp(f, (gnp.float32(1.0),), (gnp.float32(x),))[1],
    "linearize": lambda f, x: gn.linearize(f, gnp.float32(1.0))[1](gnp.float32(x)),
    "vmap": lambda f, x: gn.vmap(f)(gnp.full(3, x, np.float32))[2],
    "vmap of grad": lambda f, x: gn.vmap(gn.grad(f))(gnp.ones(3))[2] * x,
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    gn.clear_caches()
    monkeypatch.setitem(sys.modules, MODULE.__name__, MODULE)
    monkeypatch.setattr(builtins, "gnomon_tests_factor", 2.0, raising=False)


def _combinations() -> Iterator[Any]:
    for form in FORMS:
        for mode in MODES:
            if form == "while_loop" and "grad" in mode:
                continue  # reverse mode is not possible
            is_quick = mode == "eager" or (form in {"scan", "cond"} and mode in {"grad", "vmap"})
            marks = () if is_quick else pytest.mark.slow
            yield pytest.param(form, mode, marks=marks, id=f"{form}-{mode}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("form", "mode"), [*_combinations()])
def test_bodies_read_values_of_now(form: str, mode: str) -> None:
    for name, (function, change) in READS.items():
        results = []
        for factor in (2.0, 3.0, 2.0):
            change(factor)
            results.append(float(MODES[mode](functools.partial(FORMS[form], function), 5.0)))
        assert results == [10, 15, 10], name


def test_bodies_read_values_of_now_when_they_are_compiled() -> None:
    """In one program: all that a body may read, and all forms."""
    pairs = [("scan", function) for function, _ in READS.values()]
    pairs += [(form, by_global) for form in FORMS]
    for factor in (2.0, 3.0):
        for _, change in READS.values():
            change(factor)
        run = gn.jit(lambda x: gnp.stack([FORMS[form](function, x) for form, function in pairs]))
        assert set(run(gnp.float32(5)).tolist()) == {5 * factor}


def test_jitted_functions_are_traced_once_until_their_cache_is_cleared() -> None:
    for form in ("scan", "cond"):
        jitted = gn.jit(lambda x: x * FACTOR)
        results = []
        for factor, is_cleared in ((2.0, True), (3.0, False), (3.0, True)):
            _set_global(factor)
            if is_cleared:
                jitted.clear_cache()
            results.append(float(FORMS[form](jitted, gnp.float32(5))))
        assert results == [10, 10, 15]


@contextmanager
def _drawn() -> Iterator[None]:
    state = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(state[0])
        np.random.set_state(state[1])


def by_random(x: Any) -> Any:
    import random

    return x * random.random()


_draw = np.random.uniform
_numbers = iter(np.arange(1.0, 1e6))
show = print

# Functions that do something else at each call.
CHANGING: dict[str, Function] = {
    "random": by_random,
    "numpy.random": lambda x: x * np.random.uniform(1, 2),
    "a function of numpy.random": lambda x: x * _draw(1, 2),
    # Without its large part, two readings differ in f32 too.
    "time": lambda x: x * (perf_counter() % 0.01),
    "an iterator": lambda x: x * next(_numbers),
}


@pytest.mark.parametrize("form", FORMS)
def test_bodies_are_called_at_each_call(form: str) -> None:
    with _drawn():
        for name, function in CHANGING.items():
            for mode in ("eager", "jvp", "vmap"):
                call = functools.partial(FORMS[form], function)
                results = {float(MODES[mode](call, 1.0)) for _ in range(3)}
                assert len(results) == 3, (name, mode)


# ----------------------------------------------------------------------------- what a body writes

COUNT = 0


class Counter:
    """Counts the calls of functions that write in different ways; each sets `count` to 1 more."""

    def __init__(self) -> None:
        self.count = 0
        self.items: list[int] = []

    def attribute(self, x: Any) -> Any:
        self.count += 1
        return x

    def by_setattr(self, x: Any) -> Any:
        setattr(self, "count", self.count + 1)  # noqa: B010
        return x

    def by_list(self, x: Any) -> Any:
        self.items.append(1)
        self.count = len(self.items)
        return x

    def by_global(self, x: Any) -> Any:
        global COUNT  # noqa: PLW0603
        COUNT += 1
        self.count += 1
        return x

    def by_print(self, x: Any) -> Any:
        show("called", end=" ")
        self.count += 1
        return x


@pytest.mark.parametrize("form", FORMS)
def test_bodies_write_at_each_call(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    counter = Counter()
    for method in ("attribute", "by_setattr", "by_list", "by_global", "by_print"):
        for mode in ("eager", "jvp", "vmap"):
            counter.__init__()  # type: ignore[misc]
            counts = []
            for _ in range(3):
                MODES[mode](functools.partial(FORMS[form], getattr(counter, method)), 1.0)
                counts.append(counter.count)
            calls = counts[0]
            assert calls >= 1
            assert counts == [calls, 2 * calls, 3 * calls], (method, mode)
    assert capsys.readouterr().out.count("called") >= 9


def test_what_a_body_writes_is_read_after_the_loop() -> None:
    def run(x: Any) -> Any:
        tree: Any = None

        def body(carry: Any, _: Any) -> Any:
            nonlocal tree
            leaves, tree = gn.tree_util.tree_flatten({"a": carry, "b": (carry * 2,)})
            return carry + 1, leaves

        _, ys = lax.scan(body, x, None, length=2)
        return gn.tree_util.tree_unflatten(tree, ys)

    for _ in range(2):
        for x in (1.0, gnp.float32(1)):
            result = run(x)
            assert (result["a"].tolist(), result["b"][0].tolist()) == ([1, 2], [2, 4])
    assert gn.vmap(run)(gnp.arange(2.0))["b"][0].tolist() == [[0, 2], [2, 4]]


def test_static_data_that_are_equal_but_not_the_same() -> None:
    """The result has the data of this call, not those of an earlier one."""
    for value in (2, 2.0, True, 1.0, 1, 0.0, -0.0, (0.0,), (-0.0,), ["a"], ["b"]):
        model = Model(gnp.float32(1), value)
        out = lax.cond(True, lambda m: Model(m.x * 2, m.settings), lambda m: m, model)
        assert repr(out.settings) == repr(value)
        out = lax.fori_loop(0, 2, lambda i, m: gn.tree_util.tree_map(gnp.sin, m), model)
        assert repr(out.settings) == repr(value)


# ------------------------------------------------------------------------------- what is prepared


def test_equal_bodies_are_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[Any] = []
    prepare = Evaluator._prepare

    def recorded(self: Evaluator, body: Any) -> Any:
        prepared.append(body)
        return prepare(self, body)

    monkeypatch.setattr(Evaluator, "_prepare", recorded)
    step = gn.jit(lambda c, x: (c * x, c))

    def run(x: Any, scale: float) -> Any:
        def body(carry: Any, y: Any) -> Any:
            slope = gn.grad(lambda v: (v * carry).sum() * scale)(y)
            return step(carry + slope, y)

        return lax.scan(body, x, gnp.ones(3))[0]

    first = run(gnp.float32(1), 2.0)
    assert prepared
    for x in (1.0, 2.0):
        prepared.clear()
        assert float(run(gnp.float32(x), 2.0)) == x * float(first)
        assert not prepared
    run(gnp.float32(1), 3.0)
    assert prepared
    gn.clear_caches()
    prepared.clear()
    run(gnp.float32(1), 2.0)
    assert prepared


def test_types_shapes_and_options_are_distinguished() -> None:
    def double(x: Any) -> Any:
        def twice(v: Any) -> Any:
            return {"a": v["a"] * 2} if isinstance(v, dict) else v * 2

        return lax.cond(True, twice, lambda v: v, x)

    for _ in range(2):
        assert double(1).weak_type
        assert not double(gnp.int32(1)).weak_type
        assert double(gnp.ones((2, 3))).shape == (2, 3)
        assert double(gnp.ones((0, 3), np.int8)).shape == (0, 3)
        assert double(gnp.ones((1,) * 6, np.complex64)).tolist() == [[[[[[2]]]]]]
        assert double({"a": 1.0})["a"].dtype == np.float32
        with gn.enable_x64():
            assert double(1.0).dtype == np.float64


def test_constants_are_distinguished_bit_by_bit() -> None:
    def bits(value: float) -> int:
        result = lax.map(lambda x: lax.select(x > 0, gnp.float32(value), x), gnp.ones(1))
        return int(np.asarray(result).view(np.uint32)[0])

    for _ in range(2):
        for value in (0.0, -0.0, 1.0, np.nextafter(np.float32(1), np.float32(2)), np.nan, -np.nan):
            assert bits(value) == int(np.float32(value).view(np.uint32))


def test_callbacks_are_not_kept() -> None:
    def host(x: Any) -> Any:
        return x + 1

    def body(x: Any) -> Any:
        return gn.pure_callback(host, gn.ShapeDtypeStruct((), np.float32), x)

    for _ in range(2):
        assert lax.map(body, gnp.ones(2)).tolist() == [2, 2]
    assert not eager_cache._runs


def test_arrays_are_not_kept_alive() -> None:
    def run() -> weakref.ref[Any]:
        weights = gnp.arange(100.0)
        own = np.arange(5.0, dtype=np.float32)
        for _ in range(2):
            y = lax.map(lambda x: (x * weights).sum() + gnp.asarray(own).sum(), gnp.ones(2))
        assert y.tolist() == [4960, 4960]
        return weakref.ref(weights)

    array = run()
    gc.collect()
    assert array() is None


def test_deleted_arrays() -> None:
    weights = gnp.arange(100.0)

    def total() -> float:
        return float(lax.map(lambda x: (x * weights).sum(), gnp.ones(1))[0])

    assert total() == 4950
    weights.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        total()


def test_inside_of_traces_and_on_committed_arrays() -> None:
    def double(x: Any) -> Any:
        return lax.map(lambda v: v * 2, x)

    x = gnp.ones(2)
    committed = gn.device_put(x, gn.devices()[0])
    for _ in range(2):
        assert double(x).tolist() == [2, 2]
        assert double(committed).tolist() == [2, 2]
        assert gn.jit(double)(x).tolist() == [2, 2]
        assert gn.vmap(double)(x[None]).tolist() == [[2, 2]]
        assert gn.grad(lambda v: double(v).sum())(x).tolist() == [2, 2]


def test_recursion_and_threads() -> None:
    def power(x: Any, n: int) -> Any:
        return x if n == 0 else lax.cond(True, lambda v: v * 2, lambda v: v, power(x, n - 1))

    wrong: list[Any] = []

    def work(start: float) -> None:
        for i in range(20):
            if float(power(gnp.float32(start + i), 3)) != 8 * (start + i):
                wrong.append(start + i)

    threads = [threading.Thread(target=work, args=(float(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_errors_are_raised_each_time() -> None:
    def body(carry: Any, x: Any) -> Any:
        return gnp.ones(2), x

    for _ in range(2):
        with pytest.raises(TypeError, match="carry"):
            lax.scan(body, gnp.float32(1), gnp.ones(2))
        with pytest.raises(TypeError, match="boolean scalar"):
            lax.while_loop(lambda x: x, lambda x: x, 1.0)
        with gn.debug_nans(True), pytest.raises(FloatingPointError):
            lax.map(lambda x: x / x, gnp.zeros(2))
