"""`lax.scan` in all its forms against JAX: unrolled, reversed, empty, of trees; derivatives."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import gnomon as gn
from tests.tolerance import assert_near

RNG = np.random.default_rng(0)
C = RNG.uniform(0.5, 1.0, 2).astype(np.float32)
XS = RNG.uniform(-1.0, 1.0, (5, 2)).astype(np.float32)


@dataclasses.dataclass
class State:
    """A carry with a field that is not an array."""

    position: Any
    momentum: Any
    label: str = "state"


for package in (gn, jax):
    package.tree_util.register_dataclass(
        State, data_fields=["position", "momentum"], meta_fields=["label"]
    )


def unrolled(ns: Any, c: Any, xs: Any) -> Any:
    """Every way to unroll, forwards and backwards."""

    def step(c: Any, x: Any) -> Any:
        c = ns.numpy.sin(c) * x + c
        return c, c * x

    return [
        ns.lax.scan(step, c, xs, unroll=unroll, reverse=reverse)
        for unroll, reverse in ((2, False), (3, True), (True, True))
    ]


def short(ns: Any, c: Any, xs: Any) -> Any:
    """No iteration, and one."""

    def step(c: Any, x: Any) -> Any:
        return c * x, ns.numpy.stack([c, x])

    return [
        ns.lax.scan(step, c, xs[:length], length=length, reverse=reverse, unroll=unroll)
        for length in (0, 1)
        for reverse, unroll in ((False, 1), (True, 2))
    ] + [ns.lax.scan(step, c, xs[:length], unroll=True) for length in (0, 1)]


def without_inputs(ns: Any, c: Any, xs: Any) -> Any:
    """Missing inputs and missing results."""
    double = ns.lax.scan(lambda c, _: (c * c, None), c, None, length=3)
    powers = ns.lax.scan(lambda c, _: (c * xs[0], c), c, length=4, reverse=True, unroll=3)
    nothing = ns.lax.scan(lambda _, x: (None, x * c), None, xs)
    return double, powers, nothing


def trees(ns: Any, c: Any, xs: Any) -> Any:
    """Trees with None and dataclasses as carry, inputs and results."""

    def step(state: Any, slices: Any) -> Any:
        (x, none), more = slices["pair"], slices["more"]
        assert none is None
        assert state.label == "orbit"
        momentum = {"m": state.momentum["m"] - 0.1 * state.position[0] * x, "none": None}
        position = (state.position[0] + more[0] * momentum["m"], None)
        moved = dataclasses.replace(state, position=position, momentum=momentum)
        return moved, (moved, None, [x * position[0]])

    start = State((c, None), {"m": c + 1, "none": None}, "orbit")
    return ns.lax.scan(step, start, {"pair": (xs, None), "more": [xs**2]}, unroll=2)


PROGRAMS = [unrolled, short, without_inputs, trees]
# The others take JAX long to compile.
QUICK = without_inputs


def total(ns: Any, program: Callable[..., Any]) -> Callable[..., Any]:
    """A scalar that depends on all results of a program."""

    def f(c: Any, xs: Any) -> Any:
        leaves = ns.tree_util.tree_leaves(program(ns, c, xs))
        return sum((k + 1) * ns.numpy.sum(ns.numpy.cos(x)) for k, x in enumerate(leaves))

    return f


def everything(ns: Any, program: Callable[..., Any]) -> Callable[..., Any]:
    """Values, vmap, and derivatives of a program."""

    def f(c: Any, xs: Any) -> dict[str, Any]:
        number = total(ns, program)
        value = lambda c, xs: program(ns, c, xs)  # noqa: E731
        many = ns.numpy.stack([c, c + 0.5, -c])
        gradient = ns.grad(number, (0, 1))
        along = lambda c: ns.numpy.vdot(gradient(c, xs)[1], xs)  # noqa: E731
        return {
            "value": value(c, xs),
            "carry mapped": ns.vmap(value, (0, None))(many, xs),
            "inputs mapped": ns.vmap(value, (None, 1))(c[0], xs),
            "grad": gradient(c, xs),
            "jvp": ns.jvp(number, (c, xs), (c, xs)),
            "second order": ns.grad(along)(c),
            "hessian": ns.jacfwd(ns.grad(number))(c, xs),
            "grad mapped": ns.vmap(ns.grad(number), (0, None))(many, xs),
        }

    return f


def assert_equal(found: Any, wanted: Any) -> None:
    """Check that trees have equal structures, dtypes, shapes, weak types, and values."""
    mine, tree = gn.tree_util.tree_flatten(found)
    theirs, other = jax.tree_util.tree_flatten(wanted)
    assert len(mine) == len(theirs)
    assert gn.tree_util.tree_structure(gn.tree_util.tree_map(lambda _: 0, found)) == tree
    assert str(tree).count("None") == str(other).count("None")
    for x, y in zip(mine, theirs, strict=True):
        assert (x.shape, x.dtype, x.weak_type) == (y.shape, y.dtype, y.weak_type)
        # Five steps of a few roundings, in sums of terms with weights up to eight.
        assert_near(x, y, 16, scale=8.0)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(f, id=f.__name__, marks=() if f is QUICK else pytest.mark.slow)
        for f in PROGRAMS
    ],
)
def test_evaluated(program: Callable[..., Any]) -> None:
    wanted = jax.jit(everything(jax, program))(C, XS)
    found = everything(gn, program)(gn.numpy.asarray(C), gn.numpy.asarray(XS))
    for name in wanted:
        assert_equal(found[name], wanted[name])


@pytest.mark.slow
def test_compiled() -> None:
    """Values and gradients of all forms, in one program."""

    def f(ns: Any) -> Callable[..., Any]:
        return lambda c, xs: [
            (program(ns, c, xs), ns.grad(total(ns, program), (0, 1))(c, xs)) for program in PROGRAMS
        ]

    assert_equal(gn.jit(f(gn))(C, XS), jax.jit(f(jax))(C, XS))


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"xs": None}, ValueError),
        ({"xs": XS, "length": 4}, ValueError),
        ({"xs": XS, "unroll": -1}, ValueError),
        ({"xs": {"a": XS, "b": XS[:3]}}, ValueError),
    ],
)
def test_calls_that_jax_refuses_are_refused(
    arguments: dict[str, Any], kind: type[Exception]
) -> None:
    for ns in (gn, jax):
        with pytest.raises(kind):
            ns.lax.scan(lambda c, x: (c, c), ns.numpy.ones(2), **arguments)
