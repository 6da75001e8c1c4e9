"""A jitted function is traced once for each signature, whatever calls it."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax


class Counted:
    """A function that counts how often it is traced."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.traces = function, 0

    def __call__(self, *args: Any) -> Any:
        self.traces += 1
        return self.function(*args)


def counted() -> tuple[Counted, Any]:
    function = Counted(lambda x: gnp.sin(x) * x)
    return function, gn.jit(function)


def test_gradients_trace_once() -> None:
    function, jitted = counted()
    gradients = [float(gn.grad(jitted)(x)) for x in (0.0, 1.0, 2.0)]
    assert function.traces == 1
    assert np.allclose(gradients, [np.sin(x) + x * np.cos(x) for x in (0.0, 1.0, 2.0)])
    gn.jvp(jitted, (1.0,), (1.0,))
    assert function.traces == 1


def test_calls_and_maps_share_a_trace() -> None:
    function, jitted = counted()
    x = gnp.float32(2.0)
    jitted(x)
    gn.vmap(jitted)(gnp.arange(3.0))
    assert function.traces == 1
    twice = gn.jit(lambda x: jitted(x) + jitted(x))(x)
    assert np.isclose(float(twice), 2 * float(jitted(x)))
    assert function.traces == 1
    gn.eval_shape(jitted, x)
    jitted.lower(x)
    assert function.traces == 1


def test_a_function_traced_alone_is_not_traced_again_in_another() -> None:
    function, jitted = counted()
    x = gnp.float32(2.0)
    alone = jitted(x)
    outer = gn.jit(lambda x: jitted(x) + 1)
    assert np.isclose(float(outer(x)), float(alone) + 1)
    assert function.traces == 1


def test_other_signatures_are_traced() -> None:
    function, jitted = counted()
    for x in (1.0, gnp.float32(1.0), gnp.ones(3), gnp.ones(3, gnp.float16)):
        gn.vjp(jitted, x)
        gn.vjp(jitted, x)
    assert function.traces == 4


def test_deeper_differentiation_is_traced() -> None:
    """Rules are traced to the depth at which they can be needed."""

    @gn.custom_jvp
    def cube(x: Any) -> Any:
        return x**3

    @cube.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return cube(x), 3 * x**2 * t

    jitted = gn.jit(cube)
    x = 2.0
    assert float(jitted(x)) == 8
    assert float(gn.grad(jitted)(x)) == 12
    assert float(gn.grad(gn.grad(jitted))(x)) == 12
    assert float(gn.grad(gn.grad(gn.grad(jitted)))(x)) == 6


def test_functions_that_close_over_traced_values_are_traced_again() -> None:
    def outer(x: Any) -> Any:
        return gn.jit(lambda y: x * y)(2.0)

    assert [float(gn.grad(outer)(x)) for x in (1.0, 3.0)] == [2.0, 2.0]

    jitted = gn.jit(lambda y: y * holder[0])
    holder: list[Any] = []

    def with_holder(x: Any) -> Any:
        holder[:] = [x]
        return jitted(2.0)

    assert [float(gn.grad(with_holder)(x)) for x in (1.0, 3.0)] == [2.0, 2.0]


def test_arrays_closed_over_stay() -> None:
    table = gnp.arange(100.0)
    jitted = gn.jit(lambda x: gnp.sum(table * x))
    assert float(gn.grad(jitted)(1.0)) == 4950
    assert float(gn.grad(jitted)(2.0)) == 4950
    assert float(jitted(1.0)) == 4950


def test_configuration_and_axes_count() -> None:
    function, jitted = counted()
    gn.grad(jitted)(1.0)
    with gn.enable_x64(True):
        assert gn.grad(jitted)(1.0).dtype == np.float64
    assert function.traces == 2

    total = gn.jit(lambda x: lax.psum(x, "i"))
    for size in (2, 3):
        mapped = gn.vmap(total, axis_name="i")(gnp.ones(size))
        assert np.array_equal(mapped, np.full(size, size))


def test_functions_with_callbacks_and_inner_functions() -> None:
    seen: list[float] = []
    inner = gn.jit(lambda x: gnp.exp(x) * 2)

    @gn.jit
    def outer(x: Any) -> Any:
        gn.debug.callback(lambda v: seen.append(float(v)), x)
        return lax.cond(x > 0, inner, gnp.cos, x) + inner(x)

    for x in (1.0, 2.0):
        assert np.isclose(float(gn.grad(outer)(x)), 4 * np.exp(x), rtol=1e-5)
        assert np.isclose(float(outer(x)), 4 * np.exp(x), rtol=1e-5)
    gn.effects_barrier()
    assert sorted(seen) == [1.0, 1.0, 2.0, 2.0]


def test_clearing() -> None:
    function, jitted = counted()
    gn.grad(jitted)(1.0)
    jitted.clear_cache()
    gn.grad(jitted)(1.0)
    assert function.traces == 2
    gn.clear_caches()
    gn.grad(jitted)(1.0)
    assert function.traces == 3


def test_traces_do_not_keep_the_function() -> None:
    function, jitted = counted()
    gn.grad(jitted)(1.0)
    known = weakref.ref(function)
    gc.collect()
    gc.disable()
    try:
        del function, jitted
        assert known() is None
    finally:
        gc.enable()


def test_errors_are_not_kept() -> None:
    failing = True

    def run(x: Any) -> Any:
        if failing:
            raise ValueError("not yet")
        return x * 2

    jitted = gn.jit(run)
    with pytest.raises(ValueError, match="not yet"):
        gn.grad(jitted)(1.0)
    failing = False
    assert float(gn.grad(jitted)(1.0)) == 2


def test_threads_share_traces() -> None:
    _, jitted = counted()
    results: list[float] = []

    def work() -> None:
        for _ in range(10):
            results.append(float(gn.grad(jitted)(1.0)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 40
    assert len(set(results)) == 1


def test_a_hundred_levels_of_jit_fit_on_pythons_stack() -> None:
    """In a thread, whose stack is empty at first."""

    def nested(depth: int) -> Any:
        f: Any = gn.jit(gnp.sin)
        for _ in range(depth):
            f = gn.jit(lambda x, inner=f: inner(x) * 2)
        return f

    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(lambda: gn.eval_shape(nested(100), 1.0)).result()
    assert found.shape == ()
