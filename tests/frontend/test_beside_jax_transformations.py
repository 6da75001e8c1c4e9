"""Programs of transformations that must behave as in JAX."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp
from gnomon.errors import UnexpectedTracerError
from tests.frontend.beside_jax import OURS, THEIRS, Program, check_program, check_programs
from tests.sample import HALVES, half_of


def _by_vjp(ns: Any, backward: Any, forward: Any = None, function: Any = None) -> Any:
    h = ns.api.custom_vjp(function or ns.np.sin)
    h.defvjp(forward or (lambda x: (h(x), ())), backward)
    return h


def _by_jvp(ns: Any, rule: Any, function: Any = None) -> Any:
    h = ns.api.custom_jvp(function or ns.np.sin)
    h.defjvp(lambda primals, tangents: (h(*primals), rule(tangents[0])))
    return h


# Rules close over `y`. They are wrong on purpose, which shows that they are used.


def _in_backward(ns: Any) -> Any:
    return lambda y: ns.api.grad(_by_vjp(ns, lambda _, g: (2 * ns.np.cos(y) * g,)))(1.0)


def _as_residual(ns: Any) -> Any:
    def f(y: Any) -> Any:
        forward = lambda x: (ns.np.sin(x), y)  # noqa: E731
        return ns.api.grad(_by_vjp(ns, lambda y, g: (2 * ns.np.cos(y) * g,), forward))(1.0)

    return f


def _in_forward(ns: Any) -> Any:
    def f(y: Any) -> Any:
        forward = lambda x: (ns.np.sin(x) * y, ())  # noqa: E731
        return ns.api.vjp(_by_vjp(ns, lambda _, g: (g,), forward), 1.0)[0]

    return f


def _in_tangents(ns: Any) -> Any:
    return lambda y: ns.api.grad(_by_jvp(ns, lambda t: t * y * y))(1.0)


OUTER: dict[str, Any] = {
    "grad": lambda api, f: api.grad(f),
    "jit of grad": lambda api, f: api.jit(api.grad(f)),
    "grad of jit": lambda api, f: api.grad(api.jit(f)),
    "second grad": lambda api, f: api.grad(api.grad(f)),
    "jvp": lambda api, f: lambda y: api.jvp(f, (y,), (1.0,)),
    "vmap of grad": lambda api, f: lambda y: api.vmap(api.grad(f))(np.float32([y])),
}
RULES: dict[str, Any] = {
    "a backward rule that closes over it": _in_backward,
    "a forward rule that gives it as residual": _as_residual,
    "a forward rule that closes over it": _in_forward,
    "a jvp rule that closes over it": _in_tangents,
}
CASES: dict[str, Program] = {
    f"{outer} of {rule}": lambda ns, outer=outer, rule=rule: OUTER[outer](ns.api, RULES[rule](ns))(
        4.0
    )
    for outer in OUTER
    for rule in RULES
}

# Functions that close over the variable with respect to which they are differentiated.
READERS: dict[str, Any] = {
    "custom_vjp": lambda ns, y: _by_vjp(ns, lambda _, g: (g,), None, lambda x: ns.np.sin(x) * y),
    "custom_jvp": lambda ns, y: _by_jvp(ns, lambda t: t, lambda x: ns.np.sin(x) * y),
}
USES: dict[str, Any] = {
    "at a constant": lambda ns, y, h: h(1.0),
    "at the value": lambda ns, y, h: h(y),
    "in a gradient": lambda ns, y, h: ns.api.grad(h)(1.0) + h(1.0),
    "in a loop": lambda ns, y, h: ns.lax.fori_loop(0, 2, lambda i, c: h(c), 1.0),
}
CASES |= {
    f"{kind} that closes over what it is differentiated by, {use}": (
        lambda ns, kind=kind, use=use: ns.api.grad(
            lambda y: USES[use](ns, y, READERS[kind](ns, y))
        )(4.0)
    )
    for kind in READERS
    for use in USES
    # There, JAX's error is not of a built-in class.
    if (kind, use) != ("custom_vjp", "in a loop")
}


def _silent(ns: Any) -> Any:
    called = []
    f = ns.api.custom_vjp(lambda x: None)
    f.defvjp(lambda x: (None, ()), lambda _, g: (called.append(1), 1.0)[1:])
    return ns.api.vjp(f, 1.0)[1](None), called


def _checked_for_leaks(ns: Any) -> Any:
    f = _by_vjp(ns, lambda r, g: (g * ns.np.cos(r),), lambda x: (ns.np.sin(x), x))
    loop = lambda x: ns.lax.scan(lambda c, _: (f(c), c), x, None, length=2)[0]  # noqa: E731
    with ns.api.checking_leaks():
        return [
            ns.api.grad(ns.api.jit(f))(0.5),
            ns.api.grad(loop)(0.5),
            ns.api.jit(ns.api.grad(f))(0.5),
            ns.checkify.checkify(ns.api.grad(f))(0.5)[1],
        ]


CASES |= {
    "custom_vjp without results": _silent,
    "custom_vjp, checked for leaks": _checked_for_leaks,
}


class _Duck:
    shape, dtype = (2, 3), np.dtype(np.float32)


class _Bag:
    """A node whose auxiliary data is the structure of its content."""

    def __init__(self, content: Any) -> None:
        self.content = content


for _namespace in (OURS, THEIRS):
    _namespace.tree_util.register_pytree_node(
        _Bag,
        lambda bag, ns=_namespace: ns.tree_util.tree_flatten(bag.content),
        lambda structure, leaves, ns=_namespace: _Bag(structure.unflatten(leaves)),
    )


def _transposed_bag(ns: Any) -> Any:
    tree = ns.api.tree
    pairs = tree.map(lambda x: [x, x + 1], _Bag([1, 2]))
    found = tree.transpose(tree.structure(_Bag([0, 0])), tree.structure([0, 0]), pairs)
    return [bag.content for bag in found]


class _Color(enum.Enum):
    RED = 0
    BLUE = 1


def _total(x: Any) -> Any:
    return (x + 1).sum()


CASES |= {
    "arguments that have a shape and a dtype": lambda ns: [
        (out.shape, out.dtype)
        for out in (
            ns.api.eval_shape(_total, _Duck()),
            ns.api.jit(_total).lower(_Duck()).out_info,
            ns.api.jit(_total).eval_shape(_Duck()),
            ns.api.linear_transpose(lambda x: 2 * x, _Duck())(ns.np.ones((2, 3)))[0],
        )
    ],
    "positions beyond variadic arguments": lambda ns: [
        ns.api.jit(lambda a, *rest: a, static_argnums=(0, 999))(1),
        ns.api.jit(lambda a, *rest: a, donate_argnums=(0, -999))(1.0),
    ],
    "transpose of a tree with structure in its nodes": _transposed_bag,
    "keys that cannot be sorted": lambda ns: ns.api.jit(lambda x: x)(
        {_Color.RED: 1.0, _Color.BLUE: 2.0}
    ),
}


def _ordered_callback(ns: Any) -> Any:
    seen: list[float] = []
    ns.api.debug.callback(ordered=True)(lambda x: seen.append(float(x)), 1.0)
    return seen


def _generator(x: Any) -> Any:
    yield x


def _flattened(ns: Any, *flat: Any) -> Any:
    node = type("Node", (), {})
    ns.tree_util.register_pytree_node(node, lambda _: flat, lambda _, __: node())
    return ns.api.tree.leaves(node())


CASES |= {
    "metadata of static fields": lambda ns: [
        dict(ns.api.tree.static(**given).metadata)
        for given in ({}, {"metadata": {"static": False, "a": 1}})
    ],
    "debug.callback in two calls": _ordered_callback,
    "jit of a generator": lambda ns: ns.api.jit(_generator),
    "jit of a staticmethod": lambda ns: ns.api.jit(staticmethod(_total)),
    "donated names without a signature": lambda ns: ns.api.jit(max, donate_argnames="x"),
    "a node without children": lambda ns: _flattened(ns, 0, "x"),
    "a node of three parts": lambda ns: _flattened(ns, (), "x", 3),
}


# ------------------------------------------------------------ values of traces that are set aside


NESTINGS: dict[str, Any] = {
    "jit": lambda api, f: api.jit(f)(np.float32(1.1)),
    "vmap": lambda api, f: api.vmap(f)(np.float32([1.1, 2.0])),
    "grad": lambda api, f: api.grad(f)(np.float32(1.1)),
    "jit of grad": lambda api, f: api.jit(api.grad(f))(np.float32(1.1)),
    "vmap of jit": lambda api, f: api.vmap(api.jit(f))(np.float32([1.1, 2.0])),
    "vmap of grad": lambda api, f: api.vmap(api.grad(f))(np.float32([1.1, 2.0])),
    "grad of grad": lambda api, f: api.grad(api.grad(lambda s: f(s) * s))(np.float32(1.1)),
}

# Functions that close over the traced value `s` and are only inspected.
INSPECTIONS: dict[str, Any] = {
    "eval_shape": lambda ns, s, r: ns.api.eval_shape(lambda x: x * s, r),
    "make_jaxpr": lambda ns, s, r: ns.api.make_jaxpr(lambda x: x * s)(r),
    "trace": lambda ns, s, r: ns.api.jit(lambda x: x * s).trace(r),
    "eval_shape in itself": lambda ns, s, r: ns.api.eval_shape(
        lambda x: x * ns.api.eval_shape(lambda y: x * y * s, r).shape[0] * s, r
    ),
    "grad": lambda ns, s, r: ns.api.eval_shape(
        lambda x: ns.api.grad(lambda y: (x * y * s).sum())(2.0), r
    ),
    "scan": lambda ns, s, r: ns.api.eval_shape(
        lambda x: ns.lax.scan(lambda c, y: (c * s + y, y * s), s, x), r
    ),
    "psum": lambda ns, s, r: ns.api.eval_shape(
        ns.api.vmap(lambda x: ns.lax.psum(x * s, "i"), axis_name="i"), r
    ),
    "custom rule": lambda ns, s, r: ns.api.eval_shape(
        lambda x: _by_jvp(ns, lambda t: 2 * t)(x * s), r
    ),
}


@pytest.mark.sampled(0.6)
@pytest.mark.parametrize("nesting", ["jit of grad", "vmap of jit", "vmap of grad"])
@pytest.mark.parametrize("case", INSPECTIONS)
def test_inspected_functions_close_over_traced_values(case: str, nesting: str) -> None:
    def program(ns: Any) -> Any:
        def f(s: Any) -> Any:
            INSPECTIONS[case](ns, s, ns.np.arange(4.0))
            return s * s

        return NESTINGS[nesting](ns.api, f)

    check_program(program)


def _constants(ns: Any, s: Any, r: Any) -> Any:
    """Values that are known, of which Python asks the numbers."""
    values = (
        ns.np.ones(3).sum(),
        ns.api.jit(ns.np.sum)(r),
        ns.api.grad(lambda x: x * x)(2.0),
        ns.api.vmap(lambda x: x * 2)(r)[1],
        ns.lax.scan(lambda c, x: (c + x, c), 0.0, r)[0],
        ns.lax.cond(True, lambda x: x, lambda x: x * 2, 3.0),
    )
    return s * sum(map(float, values))


COMPILE_TIME: dict[str, Any] = {
    "constants": _constants,
    "jit": lambda ns, s, r: ns.api.jit(lambda x: (x * 2).sum())(s * r),
    "jit of a closure": lambda ns, s, r: ns.api.jit(lambda x: (x * s).sum())(r),
    "grad": lambda ns, s, r: ns.api.grad(lambda x: (x * x).sum())(s * r).sum(),
    "vmap of a closure": lambda ns, s, r: ns.api.vmap(lambda x: x * s)(r).sum(),
    "vjp": lambda ns, s, r: ns.api.vjp(lambda x: ns.np.sin(x) * s, s)[1](2.0)[0],
    "cond": lambda ns, s, r: ns.lax.cond(s > 1, lambda x: x * s, lambda x: x - s, s * 3),
    "scan": lambda ns, s, r: ns.lax.scan(lambda c, x: (c + x * s, c), s, r)[0],
    "custom rule": lambda ns, s, r: _by_jvp(ns, lambda t: 2 * t)(s * 3.0),
    "psum": lambda ns, s, r: ns.api.vmap(lambda x: ns.lax.psum(x * s, "i"), axis_name="i")(r)[0],
}


@pytest.mark.sampled(0.3)
@pytest.mark.parametrize("nesting", NESTINGS)
@pytest.mark.parametrize("case", COMPILE_TIME)
def test_traced_values_in_ensure_compile_time_eval(case: str, nesting: str) -> None:
    def program(ns: Any) -> Any:
        def f(s: Any) -> Any:
            with ns.api.ensure_compile_time_eval():
                return COMPILE_TIME[case](ns, s, ns.np.arange(4.0))

        return NESTINGS[nesting](ns.api, f)

    check_program(program)


class _Numbered:
    """A callable whose name is not a string."""

    __name__ = 3

    def __call__(self, x: Any) -> Any:
        return x * x


CASES |= {
    f"{name} of a callable with a number as its name": lambda ns, name=name: getattr(ns.api, name)(
        _Numbered()
    )(ns.np.float32(1.5))
    for name in ("grad", "value_and_grad", "jacfwd", "jacrev", "hessian", "checkpoint")
}
CASES["vmap of a callable with a number as its name"] = lambda ns: ns.api.vmap(_Numbered())(
    ns.np.ones(3)
)


@pytest.mark.parametrize("half", HALVES)
def test_equals_jax(half: int) -> None:
    check_programs(dict(half_of(CASES.items(), half, __name__)))


def test_closing_over_a_differentiated_value_is_a_named_error() -> None:
    f = lambda y: _by_jvp(OURS, lambda t: t, lambda x: x * y)(1.0)  # noqa: E731
    with pytest.raises(UnexpectedTracerError, match="closes over"):
        gnomon.grad(f)(3.0)
    with pytest.raises(UnexpectedTracerError, match="closes over"):
        gnomon.jit(gnomon.grad(f))(3.0)


@pytest.mark.parametrize("primal", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("cotangent", ["bfloat16", "float32"])
def test_cotangents_are_given_in_the_dtype_of_the_argument(primal: str, cotangent: str) -> None:
    f = _by_vjp(OURS, lambda _, g: (2 * g.astype(cotangent),))
    x = gnp.ones(3, primal)
    for gradient in (
        gnomon.grad(lambda x: f(x).sum())(x),
        gnomon.jit(gnomon.grad(lambda x: f(1 * x).sum()))(x),
    ):
        assert gradient.dtype == primal
        np.testing.assert_array_equal(np.asarray(gradient, np.float32), 2)


def _compiled() -> Any:
    return gnomon.jit(lambda x, y: x).lower(1.0, {"a": 1.0}).compile()


def _undefined() -> Any:
    f = gnomon.custom_jvp(lambda x, y: x)
    f.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    return f(1.0)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (TypeError, r"'y'\['a'\] of jit", lambda: gnomon.jit(lambda x, y: x)(1.0, {"a": "b"})),
        (OverflowError, r"'y'\['a'\]", lambda: gnomon.jit(lambda x, y: x)(1.0, {"a": 2**31})),
        (TypeError, r"'y'\['a'\], called", lambda: _compiled()(1.0, {"a": np.int8(1)})),
        (TypeError, "one argument, a cotangent", lambda: gnomon.vjp(gnp.sin, 1.0)[1](1.0, 2.0)),
        (TypeError, "lambda.*missing a required argument: 'y'", _undefined),
        (ValueError, "flatten function of .*Node", lambda: _flattened(OURS, (), 1, 2)),
    ],
)
def test_errors_name_the_argument(error: Any, message: str, call: Any) -> None:
    with pytest.raises(error, match=message):
        call()


def test_transformed_functions_have_names_and_docs() -> None:
    def f(x: Any) -> Any:
        """Twice."""
        return 2 * x

    for transform in (
        gnomon.grad,
        gnomon.vmap,
        gnomon.value_and_grad,
        gnomon.jacfwd,
        gnomon.jacrev,
    ):
        found = transform(f)
        assert found.__name__ == "f"
        assert found.__doc__.startswith("The ") and "Twice." in found.__doc__
