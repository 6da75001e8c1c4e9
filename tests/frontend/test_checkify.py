"""checkify: the messages are JAX's, under every transformation and in compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.experimental.checkify as jax_checkify
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.experimental import checkify
from tests.backends.iree.joined import report
from tests.tolerance import assert_near

OURS = (gn, gnp, lax, checkify)
JAX = (jax, jnp, jax.lax, jax_checkify)


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.asarray(values[0] if len(values) == 1 else values, np.float32)


def positive(c: Any, np_: Any) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        c.check(x > 0, "x must be positive, got {x} {}", x * 2, x=x)
        return np_.log(x)

    return f


def cases(g: Any, n: Any, lax: Any, c: Any) -> dict[str, tuple[Any, str, tuple[Any, ...]]]:
    """Functions, the set of errors, and arguments; of gnomon or of JAX."""
    f = positive(c, n)
    i = np.int32
    row, matrix = f32(1, 2, 3), np.ones((3, 7), np.float32)

    def two(x: Any) -> None:
        c.check(x > 5, "first")
        c.check(x > 3, "second")

    def loop(x: Any) -> Any:
        def cond(x: Any) -> Any:
            c.check(x < 2, "condition at {x}", x=x)
            return x < 4

        def body(x: Any) -> Any:
            c.check(x < 3, "body at {x}", x=x)
            return x + 1

        return lax.while_loop(cond, body, x)

    def inner_error(x: Any) -> None:
        c.check_error(c.checkify(f)(x)[0])

    user, nan, div, index, every = (
        "user_checks", "nan_checks", "div_checks", "index_checks", "all_checks",
    )  # fmt: skip
    return {
        "user": (f, user, (f32(-1),)),
        "passes": (f, user, (f32(1),)),
        "first": (two, user, (f32(2),)),
        "second": (lambda x: c.check(x > 3, "second"), user, (f32(2),)),
        "not asked for": (two, nan, (f32(2),)),
        "nested payload": (
            lambda x: c.check(x > 3, "{a[b]} {0[1]:.2f}", (x, x), a={"b": x + 1}), user, (f32(2),),
        ),
        "debug": (lambda x: c.debug_check(x > 5, "debug"), user, (f32(2),)),
        "of jit": (g.jit(f), user, (f32(-1),)),
        "of vmap": (g.vmap(f), user, (f32(1, -1, 2),)),
        "of grad": (g.grad(f), user, (f32(-1),)),
        "scan": (lambda xs: lax.scan(lambda c, x: (c + f(x), c), 0.0, xs), user, (f32(2, -1, -3),)),
        "while": (loop, user, (f32(0),)),
        "branch": (lambda x: lax.cond(x > -3, f, lambda x: x, x), user, (f32(-2),)),
        "other branch": (lambda x: lax.cond(x > -3, f, lambda x: x, x), user, (f32(-5),)),
        "check_error": (inner_error, user, (f32(-1),)),
        "nan": (lambda x: n.sin(n.log(x)) * 2, nan, (f32(-1),)),
        "nan in a scan": (
            lambda xs: lax.scan(lambda c, x: (c + n.sqrt(x), c), 0.0, xs)[0], nan, (f32(4, -1),),
        ),
        "nan of a product": (lambda x: x @ x, nan, (np.full((2, 2), np.nan, np.float32),)),
        "inf is no nan": (lambda x: n.exp(x), nan, (f32(1000),)),
        "division": (lambda x: 1 / x, div, (f32(1, 0),)),
        "integer division": (lambda x: 1 // x, div, (i(0),)),
        "index": (lambda x, i: x[i], index, (row, i(5))),
        "index of Python": (lambda x, i: x[i], index, (row, 5)),
        "far index of Python": (lambda x, i: x[i], index, (row, 2**30)),
        "set at an index of Python": (lambda x, i: x.at[i].set(1.0), index, (row, -7)),
        "slice at an index of Python": (
            lambda x, i: lax.dynamic_slice(x, (i,), (2,)), index, (row, 2),
        ),
        "index of axis 1": (lambda x, i: x[:, i], index, (matrix, np.array([1, 2, -9], i))),
        "index of rows": (lambda x, i: x[i], index, (matrix, np.array([1, -4, 2], i))),
        "negative index": (lambda x, i: x[i], index, (row, i(-2))),
        "set": (lambda x, i: x.at[i].set(1.0), index, (row, i(5))),
        "add": (lambda x, i: x.at[:, i].add(1.0), index, (matrix, i(9))),
        "slice": (lambda x, i: lax.dynamic_slice(x, (i,), (2,)), index, (row, i(2))),
        "update": (lambda x, i: lax.dynamic_update_slice(x, x[:2], (i,)), index, (row, i(2))),
        "mapped index": (
            lambda x, i: g.vmap(lambda i: x[i])(i), index, (row, np.arange(5, dtype=i)),
        ),
        "index in a loop": (
            lambda x: lax.fori_loop(0, 4, lambda i, s: s + x[i], 0.0), every, (row,),
        ),
        "python values stay": (
            lambda x, flag: n.log(x) if flag else x, every, (f32(-1), True),
        ),
    }  # fmt: skip


def errors(modules: Any) -> dict[str, Any]:
    """The errors that checkify returns for all cases."""
    asarray, c = modules[1].asarray, modules[3]
    found = {}
    for name, (function, kinds, arguments) in cases(*modules).items():
        # JAX does not trace NumPy's arrays.
        given = [a if isinstance(a, int) else asarray(a) for a in arguments]
        found[name], _ = c.checkify(function, errors=getattr(c, kinds))(*given)
    return found


def test_messages_are_those_of_jax() -> None:
    found, problems = errors(OURS), {}
    for name, error in jax.jit(lambda: errors(JAX))().items():
        ours, theirs = found[name].get(), error.get()
        # Ours name the user's line, too.
        text, _, line = (ours or "").partition(" (/")
        lined = "`check` failed" in (ours or "") or "test_checkify.py:" in line
        if ours != theirs if theirs is None else text.rstrip() != theirs.rstrip() or not lined:
            problems[name] = f"{ours!r} instead of {theirs!r}"
    report(problems)


def test_compiled_and_mapped() -> None:
    """Several checked functions in one compiled program."""
    made = cases(*OURS)
    names = ["user", "scan", "while", "branch", "nan in a scan", "index in a loop", "index of rows"]
    checked = {
        n: checkify.checkify(made[n][0], errors=getattr(checkify, made[n][1])) for n in names
    }
    mapped = gn.vmap(gn.vmap(checked["user"]))

    @gn.jit
    def everything(arguments: Any, xs: Any) -> Any:
        return {n: checked[n](*arguments[n]) for n in names}, mapped(xs)

    xs = f32(1, -1, 2, -3).reshape(2, 2)
    out, (errors, values) = everything({n: made[n][2] for n in names}, xs)
    for n in names:
        expected, value = checked[n](*made[n][2])
        assert out[n][0].get() == expected.get() is not None
        for a, b in zip(gn.tree.leaves(out[n][1]), gn.tree.leaves(value), strict=True):
            assert_near(a, b, 4)
    assert errors.get() == (
        "at mapped index 0, 1: x must be positive, got -1.0 -2.0 (`check` failed)\n"
        "at mapped index 1, 1: x must be positive, got -3.0 -6.0 (`check` failed)"
    )
    assert_near(values[:, 0], np.log(xs[:, 0]), 4)
    with pytest.raises(checkify.JaxRuntimeError, match="at mapped index 0, 1: x must be positive"):
        errors.throw()


def test_a_checked_function_is_differentiated() -> None:
    f = checkify.checkify(positive(checkify, gnp))

    def loss(x: Any) -> Any:
        error, y = f(x)
        return y, error

    gradient, error = gn.grad(loss, has_aux=True)(f32(2))
    assert gradient == 0.5 and error.get() is None
    gradient, error = gn.grad(loss, has_aux=True)(f32(-2))
    assert "got -2.0" in error.get()


def test_errors_are_thrown() -> None:
    f = positive(checkify, gnp)
    error, value = checkify.checkify(f)(f32(-1))
    assert np.isnan(value)
    with pytest.raises(ValueError, match=r"x must be positive, got -1.0 -2.0 \(`check` failed\)"):
        error.throw()
    assert isinstance(error.get_exception(), checkify.JaxRuntimeError)
    with pytest.raises(checkify.JaxRuntimeError):
        checkify.check_error(error)
    fine, _ = checkify.checkify(f)(f32(1))
    fine.throw()
    checkify.check_error(fine)
    assert fine.get_exception() is None and checkify.init_error.get() is None
    # Outside of traced functions a check raises at once, in gradients as well.
    f(gnp.float32(1))
    for run in (f, gn.grad(f)):
        with pytest.raises(checkify.JaxRuntimeError, match="x must be positive"):
            run(gnp.float32(-1))
    checkify.debug_check(gnp.float32(1) > 2, "nothing happens")
    assert gn.jit(lambda x: (checkify.debug_check(x > 2, "nothing happens"), x)[1])(1.0) == 1


def test_misuse_is_refused() -> None:
    x = gnp.ones(3)
    with pytest.raises(ValueError, match="not functionalized") as caught:
        gn.jit(positive(checkify, gnp))(gnp.float32(1))
    assert "x must be positive" in str(caught.value)
    with pytest.raises(TypeError, match="scalar pred"):
        checkify.check(x > 0, "v")
    with pytest.raises(TypeError, match="boolean pred"):
        checkify.check(x[0], "v")
    with pytest.raises(TypeError, match="PyTrees of arrays, but got 'b'"):
        checkify.check(x[0] > 0, "{}", "b")
    with pytest.raises(TypeError, match="a string as its message"):
        checkify.check(x[0] > 0, 3)  # type: ignore[arg-type]
    for error, kwargs in ((IndexError, {}), (KeyError, {"b": x})):
        message = "{} {}" if error is IndexError else "{} {a}"
        with pytest.raises(error, match="formats an argument that is not given"):
            checkify.check(x[0] > 0, message, x, **kwargs)
    with pytest.raises(TypeError, match="takes an Error"):
        checkify.check_error(3)  # type: ignore[arg-type]

    def inner(x: Any) -> Any:
        error, _ = checkify.checkify(positive(checkify, gnp))(x)
        assert "traced" in repr(error)
        return error.get()

    with pytest.raises(ValueError, match=r"checkify\.check_error"):
        gn.jit(inner)(gnp.float32(1))
