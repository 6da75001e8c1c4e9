"""The calls of a jitted function after the first ones, which run without Python code."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.backends import profiling

# The first calls measure the program.
WARM = 5


@gn.jit
def scaled(tree: Any) -> Any:
    """Trees of other structures, weak and strong types, and a result that is an argument."""
    return {"b": tree["x"] * 2, "a": [tree["y"] + 1, None, tree["x"]]}


def warm(function: Any, *args: Any) -> Any:
    for _ in range(WARM):
        result = function(*args)
    return result


def test_structure_values_and_types() -> None:
    x = gnp.arange(4, dtype=gnp.float32)
    for i in range(WARM):
        result = scaled({"x": x, "y": i})
        assert list(result) == ["a", "b"]
        total, nothing, same = result["a"]
        assert nothing is None
        assert total == i + 1
        assert total.weak_type
        np.testing.assert_array_equal(same, np.arange(4, dtype=np.float32))
        np.testing.assert_array_equal(result["b"], 2 * np.arange(4, dtype=np.float32))
        assert not result["b"].weak_type
        x = gnp.asarray(np.arange(4, dtype=np.float32))  # without a buffer at first


def test_numpy_arguments_are_read_at_the_call() -> None:
    x = np.zeros(4, np.float32)
    kept = []
    for i in range(WARM):
        x[:] = i
        kept.append(scaled({"x": x, "y": 0}))
    assert [float(result["a"][2][0]) for result in kept] == list(range(WARM))


def test_results_never_share_the_memory_of_numpy() -> None:
    x = np.arange(20_000, dtype=np.float32)  # large enough to be used in place
    array = gnp.asarray(x)
    function = gn.jit(lambda x: (x, x[None]))
    same, row = warm(function, array)
    assert not np.shares_memory(np.asarray(same), np.asarray(array))
    assert not np.shares_memory(np.asarray(row), np.asarray(array))
    np.testing.assert_array_equal(same, x)


def test_donated_and_deleted_arrays() -> None:
    step = gn.jit(lambda x, y: x + y, donate_argnums=0)
    one = gnp.ones(4)
    x = gnp.zeros(4)
    for _ in range(2 * WARM):
        before, x = x, step(x, one)
        assert before.is_deleted()
        with pytest.raises(RuntimeError, match="deleted or donated"):
            before.block_until_ready()
        with pytest.raises(RuntimeError, match="deleted or donated"):
            np.asarray(before)
    np.testing.assert_array_equal(x, np.full(4, 2.0 * WARM))
    with pytest.raises(RuntimeError, match="another argument of the call"):
        step(x, x)
    with pytest.raises(RuntimeError, match="deleted or donated"):
        step(before, one)
    with pytest.raises(RuntimeError, match="deleted or donated"):
        step(x, before)
    view = np.asarray(step(gnp.zeros(4), one))
    np.testing.assert_array_equal(view, np.ones(4))


def test_arguments_that_cannot_be_passed() -> None:
    warm(scaled, {"x": gnp.zeros(4), "y": 1})
    with pytest.raises(TypeError, match=r"'tree'\['y'\] of jit of scaled"):
        scaled({"x": gnp.zeros(4), "y": "text"})


def test_inside_of_a_trace_and_after_it() -> None:
    x, y = gnp.zeros(4), gnp.zeros(4)
    warm(scaled, {"x": x, "y": 1})
    traced = gn.make_jaxpr(lambda v: scaled({"x": v, "y": 1}))(x)
    assert "gnomon.mul" in str(traced)
    # No operand is traced, but the trace stages the call.
    staged = gn.make_jaxpr(lambda v: scaled({"x": y, "y": 1})["b"] + v)(x)
    assert "gnomon.mul" in str(staged)
    assert float(scaled({"x": x, "y": 1})["a"][0]) == 2
    slope = gn.grad(lambda v: gnp.sum(scaled({"x": v, "y": 1})["b"]))(x)
    np.testing.assert_array_equal(slope, np.full(4, 2.0))


def test_the_options_of_the_moment() -> None:
    x = gnp.zeros(4)
    warm(scaled, {"x": x, "y": 1})
    with gn.debug_nans(True), pytest.raises(FloatingPointError):
        scaled({"x": gnp.full(4, gnp.nan), "y": 1})
    with gn.disable_jit():
        assert float(scaled({"x": x, "y": 1})["a"][0]) == 2
    with gn.transfer_guard("disallow"), pytest.raises(RuntimeError, match="guard"):
        scaled({"x": np.zeros(4, np.float32), "y": 1})
    assert float(scaled({"x": x, "y": 1})["a"][0]) == 2


def test_the_profiler_records_them() -> None:
    warm(scaled, {"x": gnp.zeros(4), "y": 1})
    recorder = profiling.start()
    scaled({"x": gnp.zeros(4), "y": 1})
    profiling.stop()
    assert [span.name for span in recorder.spans if span.name.startswith("call")]


def test_threads() -> None:
    warm(scaled, {"x": gnp.zeros(4), "y": 1})
    wrong: list[Any] = []

    def work(number: int) -> None:
        x = gnp.full(4, number, gnp.float32)
        for i in range(200):
            result = scaled({"x": x, "y": i})
            if result["b"][0] != 2 * number or result["a"][0] != i + 1:
                wrong.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_methods_and_attributes() -> None:
    class Model:
        @gn.jit
        def doubled(self: Any, x: Any) -> Any:
            """Twice x."""
            return x * 2

    gn.tree_util.register_static(Model)
    assert Model.doubled.__doc__ == "Twice x."
    assert Model.doubled.__name__ == "doubled"
    assert float(warm(Model().doubled, 3.0)) == 6.0
