"""disable_jit, debug_nans, debug_infs, ensure_compile_time_eval."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax


def here() -> int:
    """The line of the caller."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


# ------------------------------------------------------------------------------------ disable_jit


def test_disable_jit_runs_python() -> None:
    seen: list[Any] = []

    @gn.jit
    def inner(x: Any) -> Any:
        seen.append(float(x))
        return 2 * x

    @gn.jit
    def f(x: Any, n: Any) -> Any:
        y = inner(x) if x > 0 else x  # Python evaluates the condition
        y = lax.fori_loop(0, n, lambda i, c: (seen.append(int(i)), c + inner(x))[1], y)
        y = lax.while_loop(lambda c: c < 40, lambda c: (seen.append(float(c)), c * 2)[1], y)
        _, ys = lax.scan(
            lambda c, v: (seen.append(float(v["a"])) or c, {"b": v["a"] + c}),
            y, {"a": gnp.arange(2.0)}, reverse=True,
        )  # fmt: skip
        z = lax.cond(
            y > 0, lambda v: (seen.append("true"), v)[1], lambda v: (seen.append(1), v)[1], y
        )
        return z, ys, lax.switch(7, [lambda v: v, lambda v: -v], y)

    with gn.disable_jit():
        z, ys, w = f(gnp.float32(3), 2)
    assert (float(z), float(w), ys["b"].tolist()) == (72, -72, [72, 73])
    assert seen == [3, 0, 3, 1, 3, 18, 36, 1, 0, "true"]
    with pytest.raises(gn.errors.TracerBoolConversionError):
        f(gnp.float32(3), 2)
    with gn.disable_jit(False), pytest.raises(gn.errors.ConcretizationTypeError):
        inner(gnp.float32(3))


def test_disable_jit_under_transformations() -> None:
    @gn.jit
    def f(x: Any) -> Any:
        return lax.cond(x.sum() > 0, lambda x: gnp.sum(x**2), lambda x: -gnp.sum(x), x)

    x = gnp.arange(3.0)
    with gn.disable_jit():
        np.testing.assert_array_equal(gn.grad(f)(x), [0, 2, 4])
        np.testing.assert_array_equal(gn.vmap(f)(gnp.stack([x, -x])), [5, 3])  # traced: not known
        np.testing.assert_array_equal(
            gn.vmap(lambda x: lax.while_loop(lambda c: c < 3, lambda c: c + 1, x))(x), [3, 3, 3]
        )
        with pytest.raises(ValueError, match="zero-length scan is not supported"):
            lax.scan(lambda c, x: (c, x), 0.0, gnp.zeros(0))
    gn.config.update("gnomon_disable_jit", True)
    try:
        ran: list[int] = []
        gn.jit(lambda x: (ran.append(1), x)[1])(1)
        gn.jit(lambda x: (ran.append(1), x)[1])(1)
        assert ran == [1, 1]
    finally:
        gn.config.update("gnomon_disable_jit", False)


# ------------------------------------------------------------------------------------- debug_nans


def check_names(call: Callable[[], Any], kind: str, op: str, line: int) -> None:
    with pytest.raises(FloatingPointError) as caught:
        call()
    message = str(caught.value)
    assert message.startswith(f"invalid value ({kind}) encountered in {op} ("), message
    assert message.endswith(f"test_debugging.py:{line})"), message


def test_debug_nans_names_the_op_and_the_line() -> None:
    x = gnp.asarray([1.0, -1.0])
    lines: dict[str, int] = {}

    def f(x: Any) -> Any:
        y = gnp.exp(x) * 2
        z = gnp.log(x)
        return y + z

    def scanned(xs: Any) -> Any:
        return lax.scan(lambda c, v: (c + gnp.sqrt(v), v), 0.0, xs)[0]

    lines["sqrt"] = scanned.__code__.co_firstlineno + 1
    lines["log"] = f.__code__.co_firstlineno + 2
    with gn.debug_nans(True):
        check_names(lambda: f(x), "nan", "log", lines["log"])
        check_names(lambda: gn.jit(f)(x), "nan", "log", lines["log"])
        check_names(lambda: gn.jit(gn.vmap(f))(x), "nan", "log", lines["log"])
        check_names(lambda: scanned(x), "nan", "sqrt", lines["sqrt"])
        check_names(lambda: gn.jit(scanned)(x), "nan", "sqrt", lines["sqrt"])
        # Derivatives of a function without nans among its values.
        lines["grad"] = here() + 1
        bad = lambda x: gnp.where(x > 0, gnp.sqrt(x), 0.0)  # noqa: E731
        with pytest.raises(FloatingPointError, match=rf"test_debugging.py:{lines['grad']}\)"):
            gn.grad(bad)(0.0)
        # Values without nan pass, infinities too; fast paths are checked as well.
        assert gn.jit(lambda x: x + 1)(x).tolist() == [2, 0]
        assert gnp.exp(gnp.float32(1000)) == np.inf
        for call in (
            lambda: x / gnp.zeros(2) - x / gnp.zeros(2),
            lambda: gnp.sum(gnp.asarray([np.inf, 1.0]) * 0),
            lambda: gnp.dot(gnp.asarray([np.inf]), gnp.asarray([0.0])),
        ):
            with pytest.raises(FloatingPointError, match="nan"):
                call()
    assert np.isnan(f(x)[1]) and np.isnan(gn.jit(f)(x)[1])


def test_debug_infs() -> None:
    def f(x: Any) -> Any:
        return 1 / x

    line = f.__code__.co_firstlineno + 1
    with gn.debug_infs(True):
        for call in (lambda: f(gnp.zeros(2)), lambda: gn.jit(f)(gnp.zeros(2))):
            check_names(call, "inf", "div", line)
        assert np.isnan(gnp.log(gnp.float32(-1)))
    donating = gn.jit(f, donate_argnums=0)
    with gn.debug_infs(True), pytest.raises(FloatingPointError, match="jit of f; it donates"):
        donating(gnp.zeros(2))


def test_options_are_part_of_the_cache_key() -> None:
    f = gn.jit(lambda x: gnp.log(x))
    x = gnp.float32(-1)
    assert np.isnan(f(x))
    with gn.debug_nans(True), pytest.raises(FloatingPointError):
        f(x)
    assert np.isnan(f(x))
    with pytest.raises(ValueError, match="takes True or False"):
        gn.config.update("gnomon_debug_nans", "yes")


# --------------------------------------------------------------------------- compile-time values


def test_ensure_compile_time_eval() -> None:
    @gn.jit
    def f(x: Any) -> Any:
        with gn.ensure_compile_time_eval():
            table = gnp.cumsum(gnp.arange(4))
            size = int(table[-1])
            doubled = x * 2  # traced: it depends on the argument
        assert isinstance(table, gn.Array) and size == 6
        return doubled + size + gnp.zeros(size)[0]

    assert f(1.0) == 8
    gn.effects_barrier()
