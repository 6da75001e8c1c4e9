"""`custom_vmap`, `sequential_vmap` and `linear_call`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.custom_batching
import jax.custom_derivatives
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.custom_batching import custom_vmap, sequential_vmap
from gnomon.custom_derivatives import linear_call
from tests.frontend.oracle import check

X = np.arange(6, dtype=np.float32).reshape(3, 2)
Y = np.linspace(1, 2, 2, dtype=np.float32)


def same(ours: Callable[..., Any], theirs: Callable[..., Any]) -> None:
    """Compare the leaves of both results, to a few units in the last place."""
    expected = [jax.numpy.asarray(leaf) for leaf in jax.tree.leaves(theirs())]
    check(lambda: gn.tree.leaves(ours()), lambda: expected, ulps=4.0, weak=False, scale=1.0)


def _pair(library: Any, asked: list[Any]) -> Any:
    """A function of a dict and an array, with a rule that computes something else."""
    numpy = library.numpy

    @library.custom_batching.custom_vmap
    def f(x: Any, y: Any) -> Any:
        return {"sum": x["a"] + y, "y": y}

    @f.def_vmap
    def rule(size: int, batched: Any, x: Any, y: Any) -> Any:
        asked.append((size, batched))
        a = x["a"] if batched[0]["a"] else numpy.stack([x["a"]] * size)
        return {"sum": numpy.sin(a) * y, "y": y}, {"sum": True, "y": batched[1]}

    return f


def _transformed(library: Any, f: Any) -> dict[str, Callable[..., Any]]:
    args = ({"a": X}, X), ({"a": X}, Y), ({"a": Y}, X)
    vmap, jit, jvp = library.vmap, library.jit, library.jvp
    return {
        "plain": lambda: f(*args[0]),
        "both": lambda: vmap(f)(*args[0]),
        "first": lambda: vmap(f, (0, None), {"sum": 0, "y": None})(*args[1]),
        "second": lambda: vmap(f, (None, 0))(*args[2]),
        "jitted": lambda: jit(vmap(jit(f)))(*args[0]),
        "twice": lambda: vmap(vmap(f))(*args[0]),
        "jvp of vmap": lambda: jvp(vmap(f), args[0], args[0]),
        "vmap of jvp": lambda: vmap(lambda x, y: jvp(f, (x, y), (x, y)))(*args[0]),
        "scan": lambda: vmap(lambda x: library.lax.map(lambda y: f({"a": y}, y)["sum"], x))(X),
        "gradient of vmap": lambda: library.grad(lambda x: vmap(f)({"a": x}, X)["sum"].sum())(X),
        "reverse": lambda: library.grad(lambda x: f({"a": x}, 1.0)["sum"])(1.0),
        "keywords": lambda: f(y=Y, x={"a": Y}),
    }


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", list(_transformed(gn, None)))
def test_custom_vmap(case: str) -> None:
    ours: list[Any] = []
    theirs: list[Any] = []
    mine = _transformed(gn, _pair(gn, ours))[case]
    if case == "reverse":
        with pytest.raises(ValueError, match="no reverse mode"):
            mine()
        return
    same(mine, _transformed(jax, _pair(jax, theirs))[case])
    # A rule may be called once more, to find out which results are mapped.
    assert {*map(repr, ours)} == {*map(repr, theirs)}


def test_jvp_of_a_rule_where_tangents_alone_are_mapped() -> None:
    @custom_vmap
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.def_vmap(lambda size, batched, x, y: (10 * x * y, True))
    found = gn.vmap(lambda t: gn.jvp(lambda x: f(x, 3.0), (2.0,), (t,))[1])(gnp.arange(3.0))
    np.testing.assert_array_equal(np.asarray(found), [0.0, 30.0, 60.0])


def test_custom_vmap_inside_custom_vjp() -> None:
    @gn.custom_vjp
    @custom_vmap
    def f(x: Any) -> Any:
        return gnp.sin(x)

    f.fun.def_vmap(lambda size, batched, x: (gnp.cos(x), True))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (3 * ct,))
    np.testing.assert_array_equal(np.asarray(gn.vmap(f)(gnp.zeros(2))), [1.0, 1.0])
    np.testing.assert_array_equal(np.asarray(gn.vmap(gn.grad(f))(gnp.zeros(2))), [3.0, 3.0])


def test_a_rule_with_rules_of_its_own_and_transformations() -> None:
    f = custom_vmap(lambda x: x)
    f.def_vmap(lambda size, batched, x: (gn.vmap(gn.grad(gn.nn.relu))(x) * gn.nn.relu(x), True))
    found = gn.grad(lambda x: gn.vmap(f)(x).sum())(gnp.array([1.0, -1.0]))
    np.testing.assert_array_equal(np.asarray(found), [1.0, 0.0])


def test_errors_of_custom_vmap() -> None:
    f = custom_vmap(lambda x: x)
    with pytest.raises(AttributeError, match="No batching rule defined"):
        f(1.0)
    x = gnp.arange(3.0)
    for rule, error, text in (
        (lambda size, batched, x: x, TypeError, "pair"),
        (lambda size, batched, x: ((x, x), True), ValueError, "do not match"),
        (lambda size, batched, x: ([x], [True]), ValueError, "does not match that of original"),
        (lambda size, batched, x: (x, False), ValueError, r"float32\[\] was expected"),
        (lambda size, batched, x: (x > 0, True), ValueError, r"float32\[3\] was expected"),
    ):
        f.def_vmap(rule)
        with pytest.raises(error, match=text):
            gn.vmap(f)(x)
    with pytest.raises(TypeError, match="closes over"):
        gn.vmap(lambda y: _closure(y)(y))(x)
    with pytest.raises(gn.errors.UnexpectedTracerError, match="argument 'y'"):
        gn.jit(lambda y: gn.vmap(_rule_closure(y))(x))(x)


def _closure(y: Any) -> Any:
    f = custom_vmap(lambda x: x * y)
    f.def_vmap(lambda size, batched, x: (x, True))
    return f


def _rule_closure(y: Any) -> Any:
    f = custom_vmap(lambda x: x)
    f.def_vmap(lambda size, batched, x: (x * y, True))
    return f


def test_sequential_vmap() -> None:
    def on(library: Any) -> Any:
        @library.custom_batching.sequential_vmap
        def f(x: Any, c: Any) -> Any:
            return {"y": x["a"] * c, "c": c}

        return (
            library.vmap(f, (0, None))({"a": X}, Y),
            library.jit(library.vmap(f))({"a": X}, X),
            library.vmap(library.vmap(f, (None, 0)), (0, None))({"a": X}, X),
            library.jvp(library.vmap(f), ({"a": X}, X), ({"a": X}, X)),
        )

    same(lambda: on(gn), lambda: on(jax))
    assert isinstance(sequential_vmap(abs), custom_vmap)


def _division(library: Any) -> dict[str, Callable[..., Any]]:
    call = library.custom_derivatives.linear_call

    def divide(r: Any, x: Any) -> Any:
        f = partial(call, lambda r, x: {"q": x / r}, lambda r, ct: 100 * ct["q"] / r)
        return x + f(r, x)["q"]

    x, r = np.float32(18), np.float32(3)
    transpose, grad, jit = library.linear_transpose, library.grad, library.jit
    return {
        "plain": lambda: divide(r, x),
        "transpose": lambda: transpose(partial(divide, r), x)(x),
        "twice": lambda: transpose(lambda ct: transpose(partial(divide, r), x)(ct)[0], x)(x),
        "gradient": lambda: jit(grad(divide, 1))(r, x),
        "forward": lambda: library.jvp(partial(divide, r), (x,), (x,)),
        "second": lambda: grad(grad(lambda x: divide(r, x) ** 3))(x),
    }


def test_devices_run_the_function_itself() -> None:
    """The rule is for `vmap`: each device of a `pmap` or `shard_map` runs the function."""

    def tripled(library: Any) -> Any:
        @library.custom_batching.custom_vmap
        def f(x: Any) -> Any:
            return 2 * x

        f.def_vmap(lambda size, batched, x: (3 * x, True))
        return f

    np.testing.assert_array_equal(jax.pmap(tripled(jax))(Y[None])[0], 2 * Y)
    f = tripled(gn)
    np.testing.assert_array_equal(gn.pmap(f)(Y[None])[0], 2 * Y)
    mesh = gn.make_mesh((1,), ("i",))
    for inside, factor in ((f, 2), (gn.vmap(f), 3)):
        over_mesh = gn.shard_map(inside, mesh=mesh, in_specs=gn.P("i"), out_specs=gn.P("i"))
        np.testing.assert_array_equal(over_mesh(Y), factor * Y)


def test_programs_with_rules_hold_no_traced_values() -> None:
    f = custom_vmap(lambda x: 2 * x)
    f.def_vmap(lambda size, batched, x: (3 * x, True))
    with gn.checking_leaks():
        np.testing.assert_array_equal(np.asarray(gn.jit(lambda x: f(x) + 1)(Y)), 2 * Y + 1)


@pytest.mark.parametrize("case", list(_division(gn)))
def test_linear_call(case: str) -> None:
    same(_division(gn)[case], _division(jax)[case])


def test_linear_call_where_jax_has_no_rule() -> None:
    def divide(r: Any, x: Any) -> Any:
        return linear_call(lambda r, x: x / r, lambda r, ct: 100 * ct / r, r, x)

    r, x = gnp.array([1.0, 2.0]), gnp.array([3.0, 4.0])
    np.testing.assert_array_equal(np.asarray(gn.vmap(gn.grad(divide))(r, x)), [-3.0, -1.0])
    found = gn.vmap(gn.grad(divide, 1), (0, None))(r, 1.0)
    np.testing.assert_array_equal(np.asarray(found), [100.0, 50.0])


def test_errors_of_linear_call() -> None:
    def f(transpose: Callable[..., Any]) -> Any:
        return lambda x: linear_call(lambda r, x: x / r, transpose, 2.0, x)

    # An error in the transpose is raised only when the transpose is needed.
    assert gn.jit(f(lambda r, ct: (ct, ct)))(4.0) == 2.0
    with pytest.raises(TypeError, match="must match that of linear inputs"):
        gn.grad(f(lambda r, ct: (ct, ct)))(1.0)
    with pytest.raises(TypeError, match="of the types of the linear arguments"):
        gn.grad(f(lambda r, ct: gnp.stack([ct, ct])))(1.0)
    with pytest.raises(ZeroDivisionError):
        gn.grad(f(lambda r, ct: 1 // 0))(1.0)
