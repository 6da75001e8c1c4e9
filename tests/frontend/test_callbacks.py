"""Callbacks under every transformation: values as in JAX, effects once each and in order."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.dialects.contract import has_effects
from gnomon.experimental import io_callback
from tests.tolerance import assert_near

F32 = np.dtype(np.float32)


def like(x: Any) -> gn.ShapeDtypeStruct:
    return gn.ShapeDtypeStruct(x.shape, x.dtype)


class Log(list[Any]):
    """A log that effects write to; `take` empties it."""

    def note(self, *values: Any) -> None:
        self.append(tuple(v.tolist() if isinstance(v, gn.Array) else v for v in values))

    def take(self) -> list[Any]:
        taken = list(self)
        self.clear()
        return [t[0] if len(t) == 1 else t for t in taken]


@pytest.fixture
def log() -> Log:
    return Log()


BOTH = pytest.mark.parametrize("run", [lambda f: f, gn.jit], ids=["eager", "jit"])


# ------------------------------------------------------------------------------------ pure_callback


@BOTH
def test_pure_callback_takes_and_returns_pytrees(run: Callable[..., Any]) -> None:
    def host(x: Any, *, factor: int, named: Any) -> Any:
        assert isinstance(x, gn.Array)  # arrays with methods, which NumPy accepts too
        return {"a": np.sin(x) * factor, "b": (named["n"] + 1, np.int32(3))}

    def f(x: Any) -> Any:
        shape = {"a": like(x), "b": (like(x), gn.ShapeDtypeStruct((), np.int32))}
        return gn.pure_callback(host, shape, x, factor=2, named={"n": x, "text": "as it is"})

    x = np.arange(3, dtype=np.float32)
    out = run(f)(x)
    np.testing.assert_array_equal(out["a"], 2 * np.sin(x))
    np.testing.assert_array_equal(out["b"][0], x + 1)
    assert out["b"][1] == 3 and not out["b"][1].weak_type


@pytest.mark.parametrize(
    "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all",
               "legacy_vectorized"]
)  # fmt: skip
def test_vmap_methods_call_with_the_shapes_that_jax_calls_with(method: str) -> None:
    def case(module: Any) -> tuple[Any, list[Any]]:
        shapes: list[Any] = []

        def host(a: Any, b: Any) -> Any:
            shapes.append((a.shape, b.shape))
            return np.asarray(a) + np.asarray(b)

        def f(a: Any, b: Any) -> Any:
            out = module.ShapeDtypeStruct((4,), F32)
            return module.pure_callback(host, out, a, b, vmap_method=method)

        once = module.vmap(f, in_axes=(0, None))
        twice = module.vmap(once, in_axes=(None, 0))
        a, b = (np.arange(n, dtype=np.float32).reshape(-1, 4) for n in (12, 8))
        if method == "legacy_vectorized":  # a callback that does not broadcast
            return module.jit(once)(a, b[0]), sorted(shapes)
        return module.jit(lambda a, b: (once(a, b[0]), twice(a, b)))(a, b), sorted(shapes)

    ours, theirs = case(gn), case(jax)
    assert ours[1] == theirs[1]
    for a, b in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_array_equal(a, b)


def test_unused_pure_callbacks_are_dropped(log: Log) -> None:
    def f(x: Any) -> Any:
        gn.pure_callback(lambda v: (log.note(v), v)[1], like(x), x)
        return x + 1

    gn.jit(f)(gnp.ones(2))
    assert log.take() == []


def test_errors_of_pure_callback() -> None:
    x = gnp.ones(2)

    def call(host: Any, shape: Any = None, **kwargs: Any) -> Any:
        return lambda x: gn.pure_callback(host, shape or like(x), x, **kwargs)

    with pytest.raises(ValueError, match=r"do not support JVP.*custom_jvp"):
        gn.grad(lambda x: call(np.sin)(x).sum())(x)
    with pytest.raises(NotImplementedError, match="Got vmap_method=None"):
        gn.vmap(call(np.sin))(x)
    with pytest.raises(ValueError, match="vmap_method must be one of"):
        call(np.sin, vmap_method="all")(x)
    with pytest.raises(ValueError, match="64-bit types when enable_x64 is off"):
        call(np.sin, gn.ShapeDtypeStruct((2,), np.float64))(x)
    with pytest.raises(AttributeError, match="must be a pytree of objects with shape"):
        call(np.sin, (3,))(x)
    with pytest.raises(NotImplementedError, match="sharding"):
        call(np.sin, sharding=1)(x)
    for run in (lambda f: f, gn.jit):
        with pytest.raises(RuntimeError, match="Incorrect output shape for return value #0"):
            run(call(lambda v: np.zeros(3, F32)))(x)
        with pytest.raises(RuntimeError, match="Incorrect output dtype for return value #0"):
            run(call(lambda v: np.zeros(2, np.int32)))(x)
        with pytest.raises(RuntimeError, match="result_shape_dtypes promised"):
            run(call(lambda v: (v, v)))(x)
        with pytest.raises(ZeroDivisionError):
            run(call(lambda v: 1 / 0))(x)
    # NumPy's default dtype has 64 bits; without 64-bit types, it is converted to the declared one.
    np.testing.assert_array_equal(gn.jit(call(lambda v: np.zeros(2)))(x), np.zeros(2))


def test_a_callback_runs_gnomon_outside_the_trace() -> None:
    inner = gn.jit(gnp.cos)

    @gn.jit
    def f(x: Any) -> Any:
        return gn.pure_callback(lambda v: inner(v) + gnp.sum(v), like(x), x)

    x = gnp.arange(3.0)
    # The trace of an outer function is active when the compiled inner one calls back.
    out = gn.jit(lambda y: y + f(x))(x)
    assert_near(out, np.arange(3) + np.cos(np.arange(3)) + 3, 4)


def test_values_for_gradients_and_custom_rules() -> None:
    @gn.custom_jvp
    def sin(x: Any) -> Any:
        return gn.pure_callback(np.sin, like(x), x, vmap_method="expand_dims")

    @sin.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return sin(x), gnp.cos(x) * t

    x = gnp.arange(3.0)
    out = gn.jit(gn.vmap(gn.grad(lambda x: x * sin(x))))(x)
    assert_near(out, np.sin(x) + x * np.cos(x), 4)


# ---------------------------------------------------------------------------------------- effects


def noted(log: Log) -> Callable[..., Any]:
    """Record ``x`` in a log, and return ``x * x``."""

    def f(x: Any) -> Any:
        gn.debug.callback(log.note, x)
        return x * x

    return f


@BOTH
def test_effects_happen_once_under_transformations(log: Log, run: Callable[..., Any]) -> None:
    f = noted(log)
    g = gn.jit(f)  # the caller keeps its effects

    def everything(x: Any, xs: Any) -> Any:
        return [
            gn.grad(f)(x),
            gn.value_and_grad(f)(x + 1)[1],
            gn.hessian(f)(x + 2),
            gn.jvp(f, (x + 3,), (1.0,))[1],
            gn.vjp(f, x + 4)[1](1.0)[0],
            gn.vmap(gn.grad(f))(xs),
            gn.vmap(lambda x, y: x + f(y), in_axes=(0, None))(xs, x + 5),
            gn.grad(lambda x: g(x) + g(2 * x))(x),
        ]

    out = run(everything)(3.0, gnp.arange(3.0))
    expected = [6, 8, 2, 12, 14, [0, 2, 4], [64, 65, 66], 30]
    assert [v.tolist() for v in out] == expected
    assert log.take() == [3, 4, 5, 6, 7, 0, 1, 2, 8, 3, 6]


def test_effects_in_loops_and_branches(log: Log) -> None:
    f = noted(log)

    def note(*values: Any) -> None:
        gn.debug.callback(log.note, *values)

    def scanned(xs: Any, k: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            # A callback without operands is neither hoisted nor repeated in the linear part.
            note("const")
            return c + f(x) * k, f(k)  # depends on a constant of the loop only

        return lax.scan(step, 0.0, xs)[0]

    xs = gnp.arange(1.0, 3.0)
    each = ["const", 1, 5, "const", 2, 5]
    for run in (lambda f: f, gn.jit):
        assert run(scanned)(xs, 5.0) == 25 and log.take() == each
        assert run(gn.grad(scanned))(xs, 5.0).tolist() == [10, 20] and log.take() == each

    def counted(x: Any, n: Any) -> Any:
        def body(c: Any) -> Any:
            i, y = c
            note("body", i)
            return i + 1, y * x

        def cond(c: Any) -> Any:
            note("cond", c[0])
            return c[0] < n

        return lax.while_loop(cond, body, (0, 1.0))[1]

    order = [("cond", 0), ("body", 0), ("cond", 1), ("body", 1), ("cond", 2)]

    def everything(x: Any, n: Any) -> Any:
        value, tangent = gn.jvp(lambda x: counted(x, n), (x,), (1.0,))
        note("linearize")
        _, linear = gn.linearize(lambda x: counted(x, n), x)
        note("dead")
        counted(x, n)
        note("cond")
        return value, tangent, linear(1.0)

    expected = [*order, "linearize", *order, "dead", *order, "cond"]
    assert [float(v) for v in gn.jit(everything)(3.0, 2)] == [9, 6, 6]
    assert log.take() == expected
    assert [float(v) for v in everything(3.0, 2)] == [9, 6, 6]
    # In eager code the linearized function runs at once, before the next line.
    assert sorted(map(str, log.take())) == sorted(map(str, expected))

    def chosen(x: Any) -> Any:
        return lax.cond(x > 1, f, lambda x: (note("small"), 3 * x)[1], x)

    branchy = gn.jit(lambda x: (chosen(x), gn.grad(chosen)(x)))
    assert [float(v) for v in branchy(2.0)] == [4, 4] and log.take() == [2, 2]
    assert [float(v) for v in branchy(1.0)] == [3, 3] and log.take() == ["small", "small"]
    none = gn.jit(lambda x: lax.cond(x > 1, lambda: note("big"), lambda: note("small")))
    assert none(2.0) is None and log.take() == ["big"]


def test_io_callbacks_are_kept_ordered_and_mapped_in_turn(log: Log) -> None:
    def say(x: Any, ordered: bool = True) -> Any:
        host = lambda v: (log.note(v), np.asarray(v) + 1)[1]  # noqa: E731
        return io_callback(host, like(x), x, ordered=ordered)

    @gn.jit
    def f(x: Any) -> Any:
        say(x)  # unused
        a = say(2 * x)
        b = say(2 * x)  # equal, not merged
        io_callback(lambda: log.note("none"), None)
        return a + b

    assert f(gnp.float32(1)) == 6 and log.take() == [1, 2, 2, "none"]
    mapped = gn.vmap(lambda x: say(x, ordered=False))
    for run in (lambda f: f, gn.jit):
        assert run(mapped)(gnp.arange(3.0)).tolist() == [1, 2, 3] and log.take() == [0, 1, 2]
    with pytest.raises(ValueError, match="Cannot `vmap` ordered IO callback"):
        gn.vmap(say)(gnp.arange(3.0))
    with pytest.raises(ValueError, match="IO callbacks do not support JVP"):
        gn.grad(lambda x: say(x))(gnp.float32(1))
    # Derivatives of a while loop run it twice, but an effect with a used value must happen once.
    with pytest.raises(TypeError, match="would have to run twice"):
        gn.jit(
            lambda x: gn.linearize(
                lambda x: lax.while_loop(
                    lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * say(c[0] * 1.0)), (0, x)
                )[1],
                x,
            )[1](1.0)
        )(1.0)


def test_calls_with_effects_are_marked() -> None:
    f = gn.jit(lambda x: (gn.debug.print("{}", x), x)[1])
    traced = gn.jit(lambda x: f(x) + gnp.sin(x)).trace(1.0)
    marked = [has_effects(op) for op in traced._traced.body.operations]
    assert marked.count(True) == 1 and marked.count(False) >= 2


def test_python_does_not_branch_on_the_value_of_an_effect() -> None:
    value = gn.ShapeDtypeStruct((), F32)

    def f(x: Any) -> Any:
        y = io_callback(lambda v: v, value, lax.stop_gradient(x))
        return x if y > 0 else -x

    with pytest.raises(gn.errors.TracerBoolConversionError):
        gn.grad(f)(1.0)


# ------------------------------------------------------------------------------------------ debug


def test_debug_print(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        gn.debug.print("{} {y:.1f} {z[0]!r} {n}", x, y=x, z=[x], n="text", ordered=True)
        gn.debug.print("plain {{}}")
        return x

    for run in (lambda f: f, gn.jit):
        run(f)(gnp.float32(1.5))
        assert capsys.readouterr().out == ("1.5 1.5 Array(1.5, dtype=float32) text\nplain {}\n")
    gn.jit(gn.vmap(lambda x: gn.debug.print("{}", x)))(gnp.arange(2))
    assert capsys.readouterr().out == "0\n1\n"
    for error, call in (
        (ValueError, lambda: gn.debug.print("{}", 1, 2)),
        (ValueError, lambda: gn.debug.print("{}", 1, a=2)),
        (IndexError, lambda: gn.debug.print("{} {}", 1)),
        (KeyError, lambda: gn.debug.print("{x}", 1)),
        (TypeError, lambda: gn.debug.print(3)),  # type: ignore[arg-type]
    ):
        with pytest.raises(error):
            call()
    gn.debug.print("{}", 1, 2, skip_format_check=True)


def test_a_line_is_printed_by_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of several threads would be mixed otherwise."""
    written: list[str] = []

    class Output(io.StringIO):
        def write(self, text: str) -> int:
            written.append(text)
            return len(text)

    monkeypatch.setattr(sys, "stdout", Output())
    gn.debug.print("{}", gnp.arange(2))
    assert [text for text in written if text] == ["[0 1]\n"]


def test_debug_print_in_two_calls(capsys: pytest.CaptureFixture[str]) -> None:
    show = gn.debug.print(ordered=True)
    gn.jit(lambda x: show("{ordered} {fmt} {}", x, ordered=x + 1, fmt=x + 2))(1)
    assert capsys.readouterr().out == "2 3 1\n"
    with pytest.raises(TypeError, match="takes options only, got values"):
        gn.debug.print(x=3)


def test_debug_callback_as_a_decorator(log: Log) -> None:
    @gn.debug.callback(ordered=True)
    def note(x: Any, text: str) -> None:
        log.note(x, text)

    gn.jit(lambda x: note(x, text="t"))(1)
    assert log.take() == [(1, "t")]
    with pytest.raises(TypeError, match="takes a callable"):
        gn.debug.callback(3)  # type: ignore[arg-type]


def test_breakpoint_shows_local_variables(monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    import sys

    def hook() -> None:
        variables = sys._getframe(1).f_locals["variables"]
        log.note(sorted(variables), variables["y"])

    monkeypatch.setattr(sys, "breakpointhook", hook)

    def f(x: Any, text: str = "kept out") -> Any:
        y = 2 * x
        gn.debug.breakpoint()
        return y

    gn.jit(f)(gnp.float32(2))
    assert log == [(["x", "y"], 4.0)]


def test_functions_are_let_go_with_their_programs() -> None:
    import gc
    import weakref

    class Host:
        def __call__(self, x: Any) -> Any:
            return x

    def made() -> Any:
        host = Host()
        gn.jit(lambda x: gn.pure_callback(host, like(x), x))(gnp.ones(2))
        gn.grad(lambda x: (gn.debug.callback(host, x), x)[1])(1.0)
        return weakref.ref(host)

    host = made()
    gc.collect()
    assert host() is None
