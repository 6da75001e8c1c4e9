"""A second eager transformation of a function uses the derived function of the first."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon._tracing import eager_cache
from gnomon.passes.differentiate import Differentiator
from gnomon.passes.vectorize import Vectorizer


@pytest.fixture(autouse=True)
def derivations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods by which passes have derived functions since the test began."""
    gn.clear_caches()
    found: list[str] = []
    for owner, method in ((Differentiator, "vjp"), (Differentiator, "jvp"), (Vectorizer, "vmap")):
        original = getattr(owner, method)

        def recorded(
            self: Any, *args: Any, _method: str = method, _original: Any = original, **kwargs: Any
        ) -> Any:
            found.append(_method)
            return _original(self, *args, **kwargs)

        monkeypatch.setattr(owner, method, recorded)
    return found


def test_a_gradient_is_derived_once(derivations: list[str]) -> None:
    f = gn.jit(lambda x: gnp.sin(x) * x)
    for i in range(5):
        x = float(i)
        expected = np.sin(x) + x * np.cos(x)
        assert np.isclose(gn.grad(f)(x), expected, rtol=1e-5)
        assert np.isclose(gn.grad(lambda x: f(x) + 1)(x), expected, rtol=1e-5)
    # one for each of the two functions
    assert derivations.count("vjp") == 2
    gn.clear_caches()
    gn.grad(f)(1.0)
    assert derivations.count("vjp") == 3


def test_each_transformation_and_type_is_its_own(derivations: list[str]) -> None:
    f = gn.jit(lambda x: x * x)
    for _ in range(2):
        assert gn.grad(f)(3.0).item() == 6
        assert gn.jvp(f, (3.0,), (2.0,))[1].item() == 12
        assert gn.vmap(f)(gnp.arange(3.0)).tolist() == [0, 1, 4]
        assert gn.vmap(f)(gnp.arange(4.0)).tolist() == [0, 1, 4, 9]
        assert gn.vmap(f)(gnp.arange(4)).tolist() == [0, 1, 4, 9]
        assert gn.vmap(gn.grad(f))(gnp.arange(3.0)).tolist() == [0, 2, 4]
        assert gn.vmap(f, out_axes=1)(gnp.ones((2, 3))).shape == (3, 2)
    with gn.enable_x64():
        assert gn.grad(f)(np.float64(3)).dtype == np.float64


def test_closures_count_with_their_values_of_now() -> None:
    """Python runs at each call, and then reads the current arrays, of whatever size."""
    scale: dict[str, Any] = {}
    gradient = gn.grad(lambda x: (x * scale["small"] * scale["large"]).sum())
    for small, large in ((2.0, np.ones(100)), (3.0, np.ones(100)), (3.0, np.full(100, 5.0))):
        scale.update(small=small, large=gnp.asarray(large))
        assert gradient(1.0).item() == small * large.sum()
    # A jitted function keeps the values that it read when it was traced, as in JAX.
    factor = [2.0]
    jitted = gn.jit(lambda x: x * factor[0])
    assert gn.grad(jitted)(1.0).item() == 2
    factor[0] = 3.0
    assert gn.grad(jitted)(1.0).item() == 2


def test_functions_of_one_name_are_distinguished() -> None:
    def make(power: int) -> Any:
        @gn.jit
        def f(x: Any) -> Any:
            return x**power

        return f

    for _ in range(2):
        assert [gn.grad(make(n))(1.0).item() for n in (1, 2, 3)] == [1, 2, 3]


def test_branches_of_python_in_a_gradient() -> None:
    def f(x: Any) -> Any:
        return x * x if x > 0 else -x

    for _ in range(2):
        assert [gn.grad(f)(x).item() for x in (3.0, -3.0)] == [6, -1]


def test_custom_rules(derivations: list[str]) -> None:
    def with_rule(slope: float) -> Any:
        @gn.custom_vjp
        def f(x: Any) -> Any:
            return x

        f.defvjp(lambda x: (x, None), lambda _, ct: (ct * slope,))
        return f

    for _ in range(2):
        assert [gn.grad(with_rule(s))(1.0).item() for s in (2.0, 3.0)] == [2, 3]


def test_values_that_are_being_traced_belong_to_their_trace() -> None:
    inner = gn.jit(lambda x, y: x * y)

    def outer(y: Any) -> Any:
        return gn.grad(lambda x: inner(x, y))(1.0) * y

    for y in (2.0, 3.0):
        assert gn.grad(outer)(y).item() == 2 * y
        assert gn.jit(gn.grad(outer))(y).item() == 2 * y
        assert gn.vmap(outer)(gnp.full(2, y)).tolist() == [y * y] * 2


def test_control_flow_inside(derivations: list[str]) -> None:
    def f(x: Any, n: int) -> Any:
        return lax.scan(lambda c, _: (c * x, None), 1.0, None, length=n)[0]

    for _ in range(3):
        assert [gn.grad(f)(2.0, n).item() for n in (2, 3)] == [4, 12]


def test_the_cache_does_not_keep_callbacks_alive() -> None:
    class Big:
        """An object that the callback refers to."""

    def use() -> weakref.ref[Big]:
        big = Big()

        def call(x: Any, held: Any = big) -> Any:
            return np.float32(x)

        shape = gn.ShapeDtypeStruct((), np.float32)
        gn.vmap(lambda x: gn.pure_callback(call, shape, x, vmap_method="sequential"))(gnp.ones(2))
        return weakref.ref(big)

    reference = use()
    gc.collect()
    assert reference() is None


def test_the_cache_does_not_keep_arrays_alive() -> None:
    def use() -> weakref.ref[Any]:
        captured = gnp.ones(1000)
        gn.grad(lambda x: (x * captured).sum())(1.0)
        return weakref.ref(captured)

    reference = use()
    gc.collect()
    assert reference() is None


def test_the_cache_is_bounded() -> None:
    for i in range(eager_cache._MAX_RUNS + 20):
        gn.grad(lambda x, i=i: x * float(i + 0.5))(1.0)
    assert len(eager_cache._runs) == eager_cache._MAX_RUNS
    gn.clear_caches()
    assert not eager_cache._runs


def test_threads_do_not_share_an_evaluation() -> None:
    f = gn.jit(lambda x: gnp.sum(gnp.sin(x)))
    found: list[bool] = []

    def work(seed: int) -> None:
        for i in range(20):
            x = gnp.full(3, seed + 0.01 * i)
            found.append(bool(np.allclose(gn.grad(f)(x), np.cos(np.asarray(x)), rtol=1e-5)))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 80


def test_errors_are_not_cached() -> None:
    f = gn.jit(lambda x: lax.while_loop(lambda v: v < 10, lambda v: v * 2, x))
    for _ in range(2):
        with pytest.raises(ValueError, match="while_loop"):
            gn.grad(f)(1.0)
    assert not eager_cache._runs
