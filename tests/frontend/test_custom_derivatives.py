"""custom_jvp, custom_vjp and the functions built on them, compared with JAX; errors."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.errors import UnexpectedTracerError
from tests.frontend.oracle import assert_trees_close, outcomes_in_one_program

jax = pytest.importorskip("jax")
jax_numpy = pytest.importorskip("jax.numpy")

OURS = SimpleNamespace(api=gnomon, np=gnp, lax=gnomon.lax)
THEIRS = SimpleNamespace(api=jax, np=jax_numpy, lax=jax.lax)

Namespace = Any
XS = np.linspace(0.1, 2.0, 4).astype(np.float32)

# The rules below are wrong on purpose (factors 2, 3, 5), which shows which rule was used.


def by_jvp(ns: Namespace) -> Any:
    @ns.api.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return ns.np.sin(x) * y

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), 2 * ns.np.cos(x) * y * dx + ns.np.sin(x) * dy

    return lambda x: f(x, y=x * 2.0)


def loop_in_rule(ns: Namespace) -> Any:
    @ns.api.custom_jvp
    def f(x: Any) -> Any:
        return ns.lax.scan(lambda c, _: (ns.np.sin(c) * x, None), x, None, length=3)[0]

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (dx,) = primals, tangents

        def body(carry: Any, _: Any) -> Any:
            c, dc = carry
            return (ns.np.sin(c) * x, 3 * ns.np.cos(c) * dc * x + ns.np.sin(c) * dx), None

        return ns.lax.scan(body, (x, dx), None, length=3)[0]

    return f


def by_jvps(ns: Namespace) -> Any:
    @ns.api.custom_jvp
    def f(x: Any, n: Any, y: Any) -> Any:
        return {"a": x * n, "b": (x * y, n)}

    f.defjvps(
        lambda t, ans, x, n, y: {
            "a": 7.0 * t,
            "b": (t * y, np.zeros((), ns.api.dtypes.float0)),
        },
        None,
        None,
    )

    def g(x: Any) -> Any:
        out = f(x, 2, ns.np.sin(x))
        return out["a"] * out["b"][0]

    return g


def by_vjp(ns: Namespace) -> Any:
    @ns.api.custom_vjp
    def f(x: Any, n: Any, d: Any) -> Any:
        return ns.np.sin(x) * n * d["a"]

    def fwd(x: Any, n: Any, d: Any) -> Any:
        return f(x, n, d), (x, n, d)

    def bwd(residuals: Any, ct: Any) -> Any:
        x, n, d = residuals
        return 5 * ns.np.cos(x) * n * d["a"] * ct, None, {"a": ns.np.sin(x) * n * ct}

    f.defvjp(fwd, bwd)
    return lambda x: f(x, 3, {"a": x})


def nested(ns: Namespace) -> Any:
    inner, outer = by_jvp(ns), by_vjp(ns)
    return lambda x: outer(inner(x))


def gradient(ns: Namespace) -> Any:
    f = ns.api.custom_gradient(lambda x, y: (x * y, lambda g: (g * y * 2, g * ns.np.sin(x))))
    return lambda x: f(x, ns.np.cos(x))


FAMILIES = [by_jvp, loop_in_rule, by_jvps, by_vjp, nested, gradient]
Nesting = Callable[[Namespace, Any], Any]


def _total(ns: Namespace, h: Any) -> Any:
    return lambda v: ns.np.sum(ns.api.vmap(h)(v))


REVERSE: dict[str, Nesting] = {
    "eval": lambda ns, h: h(0.5),
    "grad": lambda ns, h: ns.api.grad(h)(0.5),
    "grad_of_grad": lambda ns, h: ns.api.grad(ns.api.grad(h))(0.5),
    "vjp": lambda ns, h: ns.api.vjp(h, 0.5)[1](np.float32(2.0)),
    "vmap_of_grad": lambda ns, h: ns.api.vmap(ns.api.grad(h))(XS),
    "grad_of_vmap": lambda ns, h: ns.api.grad(_total(ns, h))(XS),
    "grad_of_vmap_of_grad": lambda ns, h: ns.api.grad(_total(ns, ns.api.grad(h)))(XS),
    "grad_of_scan": lambda ns, h: ns.api.grad(
        lambda x: ns.np.sum(ns.lax.scan(lambda c, _: (h(c), h(c)), x, None, length=3)[1])
    )(0.5),
    "grad_of_cond": lambda ns, h: ns.api.grad(lambda x: ns.lax.cond(x > 0, h, lambda x: x, x))(0.5),
}
FORWARD: dict[str, Nesting] = {
    "jvp": lambda ns, h: ns.api.jvp(h, (0.5,), (1.0,)),
    "jvp_of_jvp": lambda ns, h: ns.api.jvp(
        lambda x: ns.api.jvp(h, (x,), (1.0,))[1], (0.5,), (1.0,)
    ),
    "jvp_of_vmap": lambda ns, h: ns.api.jvp(ns.api.vmap(h), (XS,), (XS,)),
    "linearize": lambda ns, h: ns.api.linearize(h, 0.5)[1](1.0),
    "hessian": lambda ns, h: ns.api.hessian(h)(0.5),
    "jvp_of_scan": lambda ns, h: ns.api.jvp(
        lambda x: ns.lax.scan(lambda c, _: (h(c), h(c)), x, None, length=3)[1], (0.5,), (1.0,)
    ),
}


def close(ours: Any, theirs: Any) -> None:
    assert_trees_close(ours, theirs, 64, scale=1.0)


def check(family: Any, nestings: dict[str, Nesting]) -> None:
    """Compare nestings of a family with JAX, which compiles as one program what it can."""
    ours, theirs = family(OURS), family(THEIRS)
    pairs = outcomes_in_one_program([(n, (THEIRS, theirs), {}) for n in nestings.values()])
    for nesting, (expected, error) in zip(nestings.values(), pairs, strict=True):
        close(nesting(OURS, ours), nesting(THEIRS, theirs) if error else expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_derivatives(family: Any) -> None:
    if family in (by_jvp, loop_in_rule, by_jvps):
        check(family, REVERSE | FORWARD)
        return
    check(family, REVERSE)
    for name, nesting in FORWARD.items():
        if name != "hessian":
            with pytest.raises(TypeError, match="forward-mode autodiff"):
                nesting(OURS, family(OURS))


@pytest.mark.parametrize("family", [loop_in_rule, nested], ids=lambda f: f.__name__)
def test_compiled(family: Any) -> None:
    def program(ns: Namespace, h: Any) -> Any:
        def f(x: Any, v: Any) -> Any:
            g = ns.api.grad(ns.api.jit(h))
            return h(x), g(x), ns.api.grad(g)(x), ns.api.grad(_total(ns, h))(v)

        return ns.api.jit(f)

    close(program(OURS, family(OURS))(0.5, XS), program(THEIRS, family(THEIRS))(0.5, XS))


# -------------------------------------------------------------------------- Python and its values


@pytest.mark.parametrize("x", [2.0, 0.5, -1.0])
def test_control_flow_of_python_in_function_and_rules(x: float) -> None:
    def program(ns: Namespace) -> Any:
        @ns.api.custom_jvp
        def f(x: Any) -> Any:
            return x**2 if x > 0 else -x

        @f.defjvp
        def rule(primals: Any, tangents: Any) -> Any:
            (x,), (t,) = primals, tangents
            return f(x), (10 * x if x > 1 else 100 * x) * t

        @ns.api.custom_vjp
        def g(x: Any) -> Any:
            return x**3

        g.defvjp(
            lambda x: ((x**3 if x > 1 else x), (x, x > 0)),
            lambda r, ct: (ct * (r[0] * 2 if r[1] else r[0]),),
        )
        grad = ns.api.grad
        return [h(x) for h in (grad(f), grad(grad(f)), grad(g), grad(grad(g)))]

    close(program(OURS), program(THEIRS))
    f = gnomon.custom_jvp(lambda x: x if x > 0 else -x)
    f.defjvp(lambda p, t: (f(*p), t[0]))
    with pytest.raises(TypeError, match=r"lax\.cond"):
        gnomon.vmap(f)(XS)


def test_nondifferentiable_arguments_and_methods() -> None:
    def program(ns: Namespace) -> Any:
        apply = ns.api.custom_jvp(lambda f, x, n: f(x) * n, nondiff_argnums=(0, 2))
        apply.defjvp(lambda f, n, p, t: (apply(f, p[0], n), 3 * n * t[0]))
        named = ns.api.custom_vjp(lambda x, f: f(x), nondiff_argnames=("f",))
        named.defvjp(lambda x, f: (f(x), x), lambda f, x, ct: (f(ct) + x,))
        return ns.api.grad(lambda x: apply(ns.np.sin, x, 4))(0.5), ns.api.grad(named)(
            2.0, ns.np.exp
        )

    close(program(OURS), program(THEIRS))

    class Layer:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @functools.partial(gnomon.custom_vjp, nondiff_argnums=(0,))
        def apply(self, x: Any) -> Any:
            return self.scale * x

    Layer.apply.defvjp(lambda self, x: (self.scale * x, None), lambda self, _, ct: (7 * ct,))
    assert float(gnomon.grad(Layer(2.0).apply)(1.0)) == 7.0


def test_symbolic_zeros() -> None:
    seen: list[Any] = []
    f = gnomon.custom_jvp(lambda x, y, n: x * y * n)

    def rule(primals: Any, tangents: Any) -> Any:
        seen.append([type(t).__name__ for t in tangents])
        t = tangents[0]
        return f(*primals), primals[1] * t

    f.defjvp(rule, symbolic_zeros=True)
    assert float(gnomon.grad(lambda x: f(x, 3.0, 2))(1.0)) == 3.0
    assert float(gnomon.jit(gnomon.grad(lambda x, y: f(x, y, 2)))(1.0, 3.0)) == 3.0
    assert seen == [["Tracer", "SymbolicZero", "SymbolicZero"]] * 2

    g = gnomon.custom_vjp(lambda x, y, n: (x * y, 3))
    perturbed = []

    def fwd(x: Any, y: Any, n: Any) -> Any:
        perturbed.append((x.perturbed, y.perturbed, n.perturbed))
        return (x.value * y.value, 3), y.value

    def bwd(y: Any, cts: Any) -> Any:
        assert isinstance(cts[1], gnomon.custom_derivatives.SymbolicZero)
        return cts[0] * y, None, None

    g.defvjp(fwd, bwd, symbolic_zeros=True)
    slope = gnomon.grad(lambda x, n: g(x, 3.0, n)[0], (0, 1), allow_int=True)(1.0, 2)
    assert float(slope[0]) == 3.0 and slope[1].dtype == gnomon.dtypes.float0
    assert perturbed == [(True, False, False)]


def test_closure_convert() -> None:
    def program(ns: Namespace) -> Any:
        def minimize(f: Any, x: Any) -> Any:
            converted, aux = ns.api.closure_convert(f, x)
            return _minimize(converted, x, *aux)

        _minimize = ns.api.custom_vjp(lambda f, x, *aux: f(x, *aux), nondiff_argnums=(0,))
        _minimize.defvjp(
            lambda f, x, *aux: (f(x, *aux), (x, aux)),
            lambda f, r, ct: (ct, *(2.0 * ct for _ in r[1])),
        )
        return ns.api.grad(lambda w: minimize(lambda x: ns.np.sin(x * w), 2.0) * w)(0.5)

    close(program(OURS), program(THEIRS))


def test_rules_are_in_the_program() -> None:
    @gnomon.custom_jvp
    def f(x: Any) -> Any:
        return gnp.sin(x)

    f.defjvp(lambda p, t: (f(*p), gnp.cos(p[0]) * t[0]))
    text = str(gnomon.make_jaxpr(gnomon.grad(f))(1.0))
    assert text.count('"gnomon.custom_jvp"') == 2  # the second is in the rule of the first
    assert '"gnomon.cos"' in text and 'name = "f"' in text
    # Only the function is in the program; its rule is not traced unless it is needed.
    alone = gnomon.jit(f).lower(1.0)
    assert '"gnomon.custom_jvp"' in alone.as_text("traced")
    assert "cos" not in alone.as_text("traced")
    assert "custom_jvp" not in alone.as_text("gnomon")


# ----------------------------------------------------------------------------------------- errors


def _jvp_rule(rule: Any) -> Any:
    f = gnomon.custom_jvp(lambda x: (x, x))
    f.defjvp(rule)
    return gnomon.grad(lambda x: f(x)[0])


def _vjp_rules(fwd: Any, bwd: Any) -> Any:
    f = gnomon.custom_vjp(lambda x, y: x * y["a"])
    f.defvjp(fwd, bwd)
    return gnomon.grad(lambda x: f(x, {"a": x}))


WRONG = {
    "no pair": (_jvp_rule(lambda p, t: p[0]), TypeError, "must produce a pair"),
    "trees differ": (_jvp_rule(lambda p, t: ((p[0], p[0]), t[0])), TypeError, "equal container"),
    "another result": (_jvp_rule(lambda p, t: (p[0], t[0])), TypeError, "represents the primal"),
    "another shape": (
        _jvp_rule(lambda p, t: ((p[0], p[0]), (t[0], gnp.ones(3)))),
        TypeError,
        "corresponding shapes",
    ),
    "primal dtype": (
        _jvp_rule(lambda p, t: ((p[0], 1), (t[0], t[0]))),
        TypeError,
        "with its shapes and dtypes",
    ),
    "the rule raises": (_jvp_rule(lambda p, t: 1 / 0), ZeroDivisionError, "division"),
    "fwd: no pair": (_vjp_rules(lambda x, y: x, lambda r, c: c), TypeError, "fwd rule"),
    "fwd: tree": (_vjp_rules(lambda x, y: ((x, x), x), lambda r, c: c), TypeError, "structure"),
    "bwd: no tuple": (
        _vjp_rules(lambda x, y: (x, x), lambda r, c: c),
        TypeError,
        "tuple of length equal",
    ),
    "bwd: too short": (
        _vjp_rules(lambda x, y: (x, x), lambda r, c: (c,)),
        TypeError,
        "tuple of length equal",
    ),
    "bwd: array for a dict": (
        _vjp_rules(lambda x, y: (x, x), lambda r, c: (c, {"b": c})),
        TypeError,
        "tuple of length equal",
    ),
    "bwd: shape": (
        _vjp_rules(lambda x, y: (x, x), lambda r, c: (c, {"a": gnp.ones(2)})),
        ValueError,
        r"output\[1\]\['a'\]",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_rules(case: str) -> None:
    function, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        function(2.0)


def test_a_rule_raises_only_when_the_derivative_is_computed() -> None:
    f = gnomon.custom_jvp(lambda x: x * 2.0)

    def rule(primals: Any, tangents: Any) -> Any:
        raise NotImplementedError("f has no derivative")

    f.defjvp(rule)
    assert float(gnomon.grad(lambda x: x * f(lax.stop_gradient(x)))(3.0)) == 6.0
    assert float(gnomon.jit(lambda x: gnomon.grad(lambda y: y * f(x))(x))(3.0)) == 6.0
    with pytest.raises(NotImplementedError, match="no derivative"):
        gnomon.jit(gnomon.grad(f))(3.0)


def test_keyword_only_arguments_have_their_defaults() -> None:
    def f(x: Any, y: Any = 2.0, *, scale: Any = 3.0) -> Any:
        return x * y * scale

    by_jvp, by_vjp = gnomon.custom_jvp(f), gnomon.custom_vjp(f)
    by_jvp.defjvp(lambda p, t: (f(*p), 10 * t[0] + t[1]))
    by_vjp.defvjp(lambda x, y: (f(x, y), None), lambda _, ct: (10 * ct, ct))
    for g in (by_jvp, by_vjp):
        assert float(g(1.0)) == 6 and float(g(y=1.0, x=1.0)) == 3
        value, slope = gnomon.value_and_grad(lambda x: g(x, y=x))(1.0)  # noqa: B023
        assert (float(value), float(slope)) == (3, 11)
        with pytest.raises(TypeError, match="could not be resolved"):
            g(1.0, scale=2.0)


def test_errors_of_definition_and_closure() -> None:
    with pytest.raises(AttributeError, match="No JVP defined"):
        gnomon.custom_jvp(lambda x: x)(1.0)
    with pytest.raises(AttributeError, match="No VJP defined"):
        gnomon.custom_vjp(lambda x: x)(1.0)
    with pytest.raises(TypeError, match="nondiff_argnums"):
        gnomon.custom_jvp(lambda x: x, nondiff_argnums=(0,)).defjvps(None)
    with pytest.raises(TypeError, match="could not be resolved"):
        f = gnomon.custom_jvp(lambda x, *, y: x)
        f.defjvp(lambda p, t: (p[0], t[0]))
        f(1.0, y=2.0)

    def closing(w: Any) -> Any:
        f = gnomon.custom_vjp(lambda x: x * w)
        f.defvjp(lambda x: (x * w, w), lambda w, ct: (w * ct,))
        return f(3.0 * w)

    with pytest.raises(TypeError, match="closes over"):
        gnomon.grad(closing)(2.0)
    # A rule may close over a value of jit, because nothing differentiates with respect to it.
    assert float(gnomon.jit(lambda w: gnomon.grad(lambda x: closing(w) * x)(w))(2.0)) == 12.0

    f = gnomon.custom_vjp(lambda x, y: x * y, nondiff_argnums=(1,))
    f.defvjp(lambda x, y: (x * y, None), lambda y, r, ct: (ct * y,))
    with pytest.raises(UnexpectedTracerError, match="nondiff_argnums"):
        gnomon.grad(lambda y: f(2.0, y))(1.0)


def test_nondifferentiable_arguments_have_no_derivative_even_if_they_are_traced() -> None:
    def derivatives(ns: Any, position: int = 1) -> Any:
        @functools.partial(ns.api.custom_jvp, nondiff_argnums=(position,))
        def f(x: Any, n: Any) -> Any:
            return x * n

        @f.defjvp
        def rule(n: Any, primals: Any, tangents: Any) -> Any:
            return f(primals[0], n), tangents[0] * n * 2

        by_both = ns.api.grad(lambda n: f(n, n))
        return ns.api.grad(lambda n: f(1.0, n))(2.0), by_both(2.0)

    expected = [float(d) for d in derivatives(THEIRS)]
    for position in (1, -1):
        assert [float(d) for d in derivatives(OURS, position)] == expected


def test_cotangents_of_python_numbers() -> None:
    @gnomon.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * 2

    f.defvjp(lambda x, y: (x * 2, None), lambda _, ct: (ct, 0))
    assert gnomon.grad(f, 1)(1.0, gnp.float16(2)).dtype == np.float16
    f.defvjp(lambda x, y: (x * 2, None), lambda _, ct: (1j, 0))
    with pytest.raises(ValueError, match="complex64"):
        gnomon.grad(f)(1.0, 2.0)


def test_functions_traced_before_they_are_differentiated() -> None:
    """Functions that are traced separately keep their rules for later differentiation."""

    def run(ns: Namespace) -> Any:
        @ns.api.custom_jvp
        def square(x: Any) -> Any:
            return x * x

        square.defjvps(lambda t, ans, x: 2 * t * x)
        converted, consts = ns.api.closure_convert(lambda x: square(x) * 3.0, np.float32(1))

        def newton(f: Any, x: Any) -> Any:
            return ns.lax.fori_loop(0, 8, lambda i, x: x - f(x) / ns.api.grad(f)(x), x)

        def root(a: Any) -> Any:
            guess = ns.np.ones_like(a)
            return ns.lax.custom_root(
                lambda x: square(x) - a, guess, newton, lambda g, y: y / g(1.0)
            )

        x = ns.np.float32(2)
        twice = ns.api.custom_jvp(lambda x: 2.0 * x)
        twice.defjvps(lambda t, ans, x: 2 * t)
        return (
            ns.api.grad(converted)(x, *consts),
            ns.api.value_and_grad(root)(x),
            ns.api.linear_transpose(twice, x)(x),
        )

    assert_trees_close(run(OURS), run(THEIRS), ulps=64)
    product = gnomon.custom_jvp(lambda x, y: x * y)
    product.defjvps(lambda t, ans, x, y: t * y)
    with pytest.raises(ValueError, match="got 1 rules"):
        gnomon.jvp(product, (1.0, 2.0), (1.0, 1.0))


def test_custom_gradient_in_threads() -> None:
    together = threading.Barrier(2, timeout=30)
    found: dict[float, float] = {}

    @gnomon.custom_gradient
    def scaled(x: Any, factor: Any) -> Any:
        together.wait()
        return x * factor, lambda g: (together.wait(), (g * factor, g))[1]

    def work(factor: float) -> None:
        found[factor] = float(gnomon.grad(scaled)(1.0, factor))

    threads = [threading.Thread(target=work, args=(factor,)) for factor in (2.0, 3.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {2.0: 2.0, 3.0: 3.0}
