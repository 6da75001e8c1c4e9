"""Eager loops and branches trace a function once, and again when what it depends on changes."""

from __future__ import annotations

import functools
import gc
import math
import operator
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon._tracing import region_cache
from gnomon.backends import profiling

FACTOR = 2.0
SETTINGS = SimpleNamespace(factor=2.0)
VALUES = [2.0]


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    gn.clear_caches()


def traces(run: Callable[[], Any]) -> int:
    """The number of functions that a call traces."""
    recorder = profiling.start()
    try:
        run()
    finally:
        profiling.stop()
    return sum(span.name.startswith("trace ") for span in recorder.spans)


def scaled(x: Any) -> Any:
    return x * FACTOR


def by_global(carry: Any, x: Any) -> Any:
    return scaled(carry) + x, carry


FORMS: dict[str, tuple[Callable[[Any], Any], Callable[[float], float]]] = {
    "scan": (lambda x: lax.scan(by_global, x, gnp.ones(3))[0], lambda x: 8 * x + 7),
    "map": (lambda x: lax.map(lambda v: v + 1, x[None])[0], lambda x: x + 1),
    "while": (
        lambda x: lax.while_loop(lambda s: s[1] < 3, lambda s: (scaled(s[0]), s[1] + 1), (x, 0))[0],
        lambda x: 8 * x,
    ),
    "promoted": (
        lambda x: lax.while_loop(lambda s: s < 10, lambda s: s + 1.5, 0) - x,
        lambda x: 10.5 - x,
    ),
    "fori": (lambda x: lax.fori_loop(0, 3, lambda i, v: scaled(v) + i, x), lambda x: 8 * x + 4),
    "cond": (lambda x: lax.cond(x > 2, scaled, lambda v: -v, x), lambda x: 2 * x if x > 2 else -x),
    "switch": (
        lambda x: lax.switch(gnp.int32(x), [lambda v: v, scaled, lambda v: v + 5], x),
        lambda x: [x, 2 * x, x + 5][min(int(x), 2)],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_functions_are_traced_once(name: str) -> None:
    function, expected = FORMS[name]
    assert traces(lambda: function(gnp.float32(1))) > 0
    for value in (1.0, 2.0, 3.0):
        x = gnp.float32(value)
        result = []
        assert traces(lambda x=x, result=result: result.append(function(x))) == 0
        assert float(result[0]) == expected(value)
    region_cache.clear()
    assert traces(lambda: function(gnp.float32(1))) > 0


def test_types_shapes_and_options_are_part_of_the_key() -> None:
    def double(x: Any) -> Any:
        def twice(v: Any) -> Any:
            return {"a": v["a"] * 2} if isinstance(v, dict) else v * 2

        return lax.cond(True, twice, lambda v: v, x)

    for _ in range(2):
        assert double(1).weak_type
        assert not double(gnp.int32(1)).weak_type
        assert double(gnp.ones((2, 3))).shape == (2, 3)
        assert double({"a": 1.0})["a"].dtype == np.float32
        with gn.enable_x64():
            assert double(1.0).dtype == np.float64


def test_changes_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = gnp.arange(8.0)
    power = 1

    def body(carry: Any, x: Any, offset: float = 0.0) -> Any:
        return carry, (scaled(x) + weights.sum()) ** power + offset

    def result() -> float:
        return float(lax.scan(body, 0, gnp.ones(1))[1][0])

    assert [result(), result()] == [30, 30]
    weights = gnp.arange(8.0) * 2
    assert [result(), result()] == [58, 58]
    power = 2
    assert result() == 58**2
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert result() == 59**2
    monkeypatch.setitem(globals(), "scaled", lambda x: x * 4)
    assert result() == 60**2
    body.__defaults__ = (1.0,)
    assert result() == 60**2 + 1


def test_zeros_are_distinguished_by_their_sign() -> None:
    def result(zero: float) -> float:
        return float(lax.map(lambda x: x * zero, gnp.ones(1))[0])

    assert [str(result(z)) for z in (0.0, -0.0, 0.0)] == ["0.0", "-0.0", "0.0"]


def test_objects_that_may_change_unnoticed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def by_list(x: Any) -> Any:
        return x * VALUES[0]

    def by_attribute(x: Any) -> Any:
        return x * SETTINGS.factor

    def with_effect(x: Any) -> Any:
        seen.append(1.0)
        return x

    for factor in (2.0, 3.0):
        VALUES[0] = factor
        monkeypatch.setattr(SETTINGS, "factor", factor)
        for function in (by_list, by_attribute):
            assert lax.map(function, gnp.ones(1)).tolist() == [factor]
        lax.map(with_effect, gnp.ones(1))
    assert len(seen) == 2


def test_the_names_of_default_values_are_part_of_the_key() -> None:
    def body(carry: Any, x: Any, *, one: float = 0.0, ten: float = 0.0) -> Any:
        return carry + x * (one + 10 * ten), None

    def result() -> float:
        return float(lax.scan(body, 0.0, gnp.ones(1))[0])

    body.__kwdefaults__ = {"one": 1.0, "ten": 0.0}
    assert result() == 1
    body.__kwdefaults__ = {"ten": 1.0, "one": 0.0}
    assert result() == 10


def test_globals_of_a_function_that_bears_the_name_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    @functools.wraps(gnp.sin)
    def function(x: Any) -> Any:
        return x * FACTOR

    for factor in (2.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert lax.map(function, gnp.ones(1)).tolist() == [factor]


def times_factor(x: Any, y: Any = 0.0) -> Any:
    return (x + y) * FACTOR


WRAPPED = {
    "Partial": gn.tree_util.Partial(times_factor),
    "np.vectorize": np.vectorize(lambda x: x * FACTOR),
    "np.frompyfunc": np.frompyfunc(times_factor, 1, 1),
    "frompyfunc": gnp.frompyfunc(lambda x, y: (x + y) * FACTOR, 2, 1),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_functions_in_objects_may_read_globals(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = WRAPPED[name]

    def body(x: Any) -> Any:
        return function(x, 0.0) if name == "frompyfunc" else x * float(function(1.0))

    for factor in (2.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert lax.map(body, gnp.ones(1)).tolist() == [factor]


def test_polynomials_of_numpy_may_change() -> None:
    polynomial = np.poly1d([1.0, 2.0])
    for coefficient in (2.0, 3.0):
        polynomial.coeffs[1] = coefficient
        expected = [1 + coefficient]
        assert lax.map(lambda x: x * polynomial(1.0), gnp.ones(1)).tolist() == expected


show = print


def test_builtin_functions_with_effects_by_other_names(capsys: pytest.CaptureFixture[str]) -> None:
    def body(x: Any) -> Any:
        show("traced")
        # Without its large part, two readings differ in f32 too.
        return x * (perf_counter() % 0.01)

    results = {float(lax.map(body, gnp.ones(1))[0]) for _ in range(2)}
    assert len(results) == 2
    assert capsys.readouterr().out.count("traced") >= 2


@pytest.mark.parametrize("function", [math.sin, abs, operator.neg])
def test_builtin_functions_that_compute_are_constants(function: Callable[..., Any]) -> None:
    def call() -> Any:
        return lax.map(lambda x: x * function(2), gnp.ones(1))

    assert traces(call) > 0
    assert traces(call) == 0


def test_types_and_ufuncs_are_constants() -> None:
    def call() -> Any:
        return lax.map(lambda x: gnp.float32(x) + np.sin(np.float32(1)), gnp.ones(1))

    assert traces(call) > 0
    assert traces(call) == 0


class Scaled(NamedTuple):
    value: Any

    @property
    def product(self) -> Any:
        return self.value * FACTOR


class Plain(NamedTuple):
    value: Any


def test_methods_of_named_tuples_may_read_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    for factor in (2.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert lax.map(lambda x: Scaled(x).product, gnp.ones(1)).tolist() == [factor]
    with_plain = lambda: lax.map(lambda x: Plain(x).value, gnp.ones(1))  # noqa: E731
    assert traces(with_plain) > 0
    assert traces(with_plain) == 0


@pytest.mark.parametrize("form", ["np", "numpy.random", "a function of it"])
def test_random_numbers_of_numpy_are_drawn_at_each_call(form: str) -> None:
    def by_module(x: Any) -> Any:
        return x * np.random.uniform(1, 2)

    random, draw = np.random, np.random.uniform
    functions = {
        "np": by_module,
        "numpy.random": lambda x: x * random.uniform(1, 2),
        "a function of it": lambda x: x * draw(1, 2),
    }
    drawn = {float(lax.map(functions[form], gnp.ones(1))[0]) for _ in range(3)}
    assert len(drawn) == 3


def test_files_are_read_at_each_call(tmp_path: Path) -> None:
    path = str(tmp_path / "value.npy")
    for value in (2.0, 3.0):
        np.save(path, value)
        assert lax.map(lambda x: x * float(np.load(path)), gnp.ones(1)).tolist() == [value]


def test_functions_that_draw_by_keys_are_traced_once() -> None:
    def draw() -> Any:
        return lax.map(lambda x: x + gn.random.uniform(gn.random.key(0)), gnp.ones(1))

    assert traces(draw) > 0
    assert traces(draw) == 0


def test_callbacks_are_not_kept() -> None:
    def host(x: Any) -> Any:
        return x + 1

    def body(x: Any) -> Any:
        return gn.pure_callback(host, gn.ShapeDtypeStruct((), np.float32), x)

    for _ in range(2):
        assert lax.map(body, gnp.ones(2)).tolist() == [2, 2]
    assert not region_cache._entries


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


def test_functions_with_custom_derivatives_are_traced_at_each_call() -> None:
    @gn.custom_jvp
    def custom(x: Any) -> Any:
        return x * VALUES[0]

    custom.defjvp(lambda primals, tangents: (custom(*primals), tangents[0]))
    for factor in (2.0, 3.0):
        VALUES[0] = factor
        assert lax.map(lambda x: custom(x), gnp.ones(1)).tolist() == [factor]


def test_trees_with_data_that_cannot_be_hashed() -> None:
    @gn.tree_util.register_dataclass
    @dataclass
    class Model:
        x: Any
        names: Any = field(metadata={"static": True})

    for value in (1.0, 2.0):
        model = Model(gnp.float32(value), ["a"])
        out = lax.cond(True, lambda m: Model(m.x * 2, m.names), lambda m: m, model)
        assert (float(out.x), out.names) == (2 * value, ["a"])
