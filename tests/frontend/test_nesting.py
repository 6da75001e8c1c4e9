"""The nesting matrix: every family of ops under every transformation and nesting, against JAX.

The pairs are a matrix, of which each commit runs a sample; see `groups`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.lax
import gnomon.numpy as gnp
import gnomon.random
from tests.frontend.oracle import Pair, assert_trees_close, outcome, outcomes_in_one_program
from tests.sample import sample

jax = pytest.importorskip("jax")
jax_numpy = pytest.importorskip("jax.numpy")

OURS = SimpleNamespace(api=gnomon, np=gnp, lax=gnomon.lax, random=gnomon.random)
THEIRS = SimpleNamespace(api=jax, np=jax_numpy, lax=jax.lax, random=jax.random)

X = np.array([0.3, -0.7, 1.1, 0.5], np.float32)
V = np.array([1.0, 0.5, -0.25, 2.0], np.float32)
BATCH = np.stack([X, X[::-1] * 0.5, X + 0.25])
# Where nestings evaluate functions; they find these points in their namespace.
DATA = {"x": X, "v": V, "batch": BATCH, "grid": np.stack([BATCH, BATCH * 0.9])}

Namespace = Any
Function = Callable[[Namespace, Any], Any]


def elementwise(ns: Namespace, x: Any) -> Any:
    return ns.np.sum(ns.np.tanh(x) * ns.np.exp(-x) + x**3 / (1.0 + x * x))


def selection(ns: Namespace, x: Any) -> Any:
    return ns.np.sum(ns.np.where(x > 0, ns.np.sin(x), x * x) + ns.np.maximum(x, 0.4) * x)


def reduction(ns: Namespace, x: Any) -> Any:
    return ns.np.max(x) * ns.np.mean(x * x) + ns.np.prod(x) - ns.np.min(x)


def contraction(ns: Namespace, x: Any) -> Any:
    outer = x[:, None] * x[None, :]
    return ns.np.trace(outer @ ns.np.sin(outer)) + ns.np.einsum("i,ij,j->", x, outer, x)


def shapes(ns: Namespace, x: Any) -> Any:
    y = ns.np.concatenate([x[::-1], 2.0 * x[1:3]]).reshape(2, 3).T
    return ns.np.sum(ns.np.pad(y, ((1, 0), (0, 1))) * ns.np.cos(ns.np.arange(12.0).reshape(4, 3)))


def indexing(ns: Namespace, x: Any) -> Any:
    picked = x[np.array([3, 0, 0, 1])]
    updated = (x * x).at[np.array([1, 1, 2])].add(ns.np.sin(picked[:3]))
    return ns.np.sum(updated * picked) + ns.np.sum(x.at[2].set(x[0] * x[1]) ** 2)


def dynamic(ns: Namespace, x: Any) -> Any:
    i = ns.np.argmax(x)
    window = ns.lax.dynamic_slice(x, (i - 1,), (2,))
    return ns.np.sum(ns.lax.dynamic_update_slice(x * x, ns.np.sin(window), (1,)) * x)


def cumulative(ns: Namespace, x: Any) -> Any:
    return ns.np.sum(ns.np.cumsum(x * x) * x) + ns.np.sum(ns.np.cumprod(x))


def branches(ns: Namespace, x: Any) -> Any:
    y = ns.lax.cond(x[0] > 0, lambda v: ns.np.sum(v * v), lambda v: ns.np.sin(v[1]), x)
    z = ns.lax.switch(
        ns.np.argmin(x), [lambda v: v[0], lambda v: v[1] * v[2], lambda v: ns.np.sum(v**3)], x
    )
    return y * z


def scan(ns: Namespace, x: Any) -> Any:
    def body(carry: Any, element: Any) -> Any:
        state, count = carry
        state = ns.np.tanh(state * x[1] + element)
        return (state, count + 1), state * element

    (state, count), ys = ns.lax.scan(body, (x[0], 0), x)
    return ns.np.sum(ys * ys) + state * count


def cond_in_scan(ns: Namespace, x: Any) -> Any:
    def body(carry: Any, element: Any) -> Any:
        carry = ns.lax.cond(
            element > carry,
            lambda c, e: c * e + x[3],
            lambda c, e: ns.np.sin(c - e),
            carry,
            element,
        )
        return carry, carry

    return ns.np.sum(ns.lax.scan(body, x[0] * 1.0, x, reverse=True)[1])


def fori(ns: Namespace, x: Any) -> Any:
    return ns.np.sum(ns.lax.fori_loop(0, 3, lambda i, v: ns.np.sin(v) * x + i * v, x))


def nested_call(ns: Namespace, x: Any) -> Any:
    inner = ns.api.jit(lambda v: ns.np.sin(v) * x)
    return ns.np.sum(inner(inner(x) + x))


def custom_jvp(ns: Namespace, x: Any) -> Any:
    @ns.api.custom_jvp
    def f(v: Any, w: Any) -> Any:
        return ns.np.sin(v) * w

    @f.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (v, w), (dv, dw) = primals, tangents
        return f(v, w), 2.0 * ns.np.cos(v) * w * dv + f(v, dw)

    return ns.np.sum(f(x, x * x) * f(x[0], 3.0))


def custom_vjp(ns: Namespace, x: Any) -> Any:
    f = ns.api.custom_vjp(lambda v, w: ns.np.sin(v) * w)
    f.defvjp(
        lambda v, w: (ns.np.sin(v) * w, (v, w)),
        lambda r, ct: (2.0 * ns.np.cos(r[0]) * r[1] * ct, ns.np.sum(ns.np.sin(r[0]) * ct)),
    )
    return ns.np.sum(f(x, x[1] * x[2]))


def convolution(ns: Namespace, x: Any) -> Any:
    image, kernel = x[:, None] * ns.np.sin(x)[None, :], x.reshape(1, 1, 2, 2)
    y = ns.lax.conv_general_dilated(image[None, None], kernel, (1, 1), "SAME", rhs_dilation=(1, 2))
    return ns.np.sum(y * y)


def linear_algebra(ns: Namespace, x: Any) -> Any:
    spread = ns.np.diag(ns.np.arange(2.0, 6.0)) + 0.2 * x[:, None] * x[None, :]
    factor = ns.np.linalg.cholesky(spread)
    values, vectors = ns.np.linalg.eigh(spread)
    solved = ns.np.linalg.solve(factor + ns.np.diag(2.0 + ns.np.cos(x)), x)
    return ns.np.sum(solved * values) + ns.np.sum(vectors[0] ** 4) + ns.np.linalg.slogdet(spread)[1]


def fourier(ns: Namespace, x: Any) -> Any:
    y, z = ns.np.fft.rfft(x[:3]), ns.np.fft.ifft(ns.np.fft.fft(x) * ns.np.exp(1j * x))
    return ns.np.sum(y.real**3 * y.imag) + ns.np.sum(z.real * z.imag * x)


def sorting(ns: Namespace, x: Any) -> Any:
    largest, places = ns.lax.top_k(x * x, 2)
    weights = ns.np.arange(1.0, 5.0)
    ordered = ns.np.sort(ns.np.sin(x)) * weights + x[ns.np.argsort(x * weights)]
    return ns.np.sum(ordered**2) * largest[0] * x[places[1]]


def windows(ns: Namespace, x: Any) -> Any:
    largest = ns.lax.reduce_window(ns.np.sin(x), -np.inf, ns.lax.max, (2,), (1,), "VALID")
    sums = ns.lax.reduce_window(x * x, 0.0, ns.lax.add, (3,), (2,), ((1, 2),))
    return ns.np.sum(largest**2) * ns.np.sum(sums * sums)


def scatters(ns: Namespace, x: Any) -> Any:
    y = x.at[np.array([2, 0])].multiply(ns.np.cos(x[1:3]), unique_indices=True)
    z = (x * x).at[np.array([1, 1, 3])].max(ns.np.sin(x[:3]))
    return ns.np.sum(y * z) + ns.np.sum(y.at[np.array([5, 1])].add(z[:2], mode="drop") ** 2)


def special_functions(ns: Namespace, x: Any) -> Any:
    lax = ns.lax
    smooth = lax.lgamma(x + 3.0) + lax.erf(x) * lax.bessel_i0e(x) + lax.digamma(x + 2.5)
    return ns.np.sum(smooth * lax.erf_inv(0.5 * ns.np.tanh(x)))


def collectives(ns: Namespace, x: Any) -> Any:
    def member(v: Any) -> Any:
        total, mean = ns.lax.psum(v * v, "i"), ns.lax.pmean(ns.np.sin(v), "i")
        others = ns.lax.all_gather(v, "i")
        shifted = ns.lax.ppermute(v, "i", [(k, (k + 1) % 4) for k in range(4)])
        return v * mean / total + others[ns.lax.axis_index("i") // 2] * shifted

    return ns.np.sum(ns.api.vmap(member, axis_name="i")(x) ** 2)


def callbacks(ns: Namespace, x: Any) -> Any:
    @ns.api.custom_jvp
    def sine(v: Any) -> Any:
        return ns.api.pure_callback(np.sin, v, v, vmap_method="broadcast_all")

    @sine.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (v,), (dv,) = primals, tangents
        return sine(v), sine(v + np.float32(np.pi / 2)) * dv

    return ns.np.sum(sine(x) * sine(x * x[0]))


def random_numbers(ns: Namespace, x: Any) -> Any:
    first, second = ns.random.split(ns.random.key(3))
    noise = ns.random.normal(first, (4,)) * ns.np.exp(x)
    kept = ns.random.bernoulli(second, ns.np.abs(ns.np.tanh(x)))
    return ns.np.sum(ns.np.where(kept, noise, x * x) * ns.random.uniform(second, (4,)))


def associative_scans(ns: Namespace, x: Any) -> Any:
    def combine(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    products, sums = ns.lax.associative_scan(combine, (ns.np.sin(x), x * x))
    return ns.np.sum(products * sums) + ns.np.sum(ns.lax.cumlogsumexp(x) ** 2)


MORE: list[Function] = [
    convolution,
    linear_algebra,
    fourier,
    sorting,
    windows,
    scatters,
    special_functions,
    collectives,
    callbacks,
    random_numbers,
    associative_scans,
]
FAMILIES: list[Function] = [
    elementwise,
    selection,
    reduction,
    contraction,
    shapes,
    indexing,
    dynamic,
    cumulative,
    branches,
    scan,
    cond_in_scan,
    fori,
    nested_call,
    custom_jvp,
    custom_vjp,
]


def _along(ns: Namespace, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A family restricted to a line, as a function of one number."""
    return lambda t: f(t * ns.v + ns.x)


def _third(ns: Namespace, f: Callable[[Any], Any]) -> Any:
    g = _along(ns, f)
    for _ in range(3):
        g = ns.api.grad(g)
    return g(0.1)


def _in_scan(ns: Namespace, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: ns.np.sum(ns.lax.scan(lambda c, v: (c + f(v), f(v * c)), 0.1, x)[1])


def _in_cond(ns: Namespace, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: ns.lax.cond(x[2] > 0, f, lambda v: v[0] * f(v), x)


def _in_while(ns: Namespace, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def loop(x: Any) -> Any:
        out = ns.lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + f(s[1]) * 0.1), (0, x)
        )
        return ns.np.sum(out[1])

    return loop


Nesting = Callable[[Namespace, Callable[[Any], Any]], Any]

EAGER: dict[str, Nesting] = {
    "eval": lambda ns, f: f(ns.x),
    "grad": lambda ns, f: ns.api.grad(f)(ns.x),
    "value_and_grad": lambda ns, f: ns.api.value_and_grad(f)(ns.x),
    "jvp": lambda ns, f: ns.api.jvp(f, (ns.x,), (ns.v,)),
    "linearize": lambda ns, f: ns.api.linearize(f, ns.x)[1](ns.v),
    "vjp": lambda ns, f: ns.api.vjp(f, ns.x)[1](np.float32(2.0)),
    "vmap": lambda ns, f: ns.api.vmap(f)(ns.batch),
    "vmap_axis_1": lambda ns, f: ns.api.vmap(f, in_axes=1)(ns.batch.T),
    "vmap_of_vmap": lambda ns, f: ns.api.vmap(ns.api.vmap(f))(ns.grid),
    "vmap_of_grad": lambda ns, f: ns.api.vmap(ns.api.grad(f))(ns.batch),
    "grad_of_vmap": lambda ns, f: ns.api.grad(lambda b: ns.np.sum(ns.api.vmap(f)(b) ** 2))(
        ns.batch
    ),
    "grad_of_jit": lambda ns, f: ns.api.grad(ns.api.jit(f))(ns.x),
    "hessian": lambda ns, f: ns.api.hessian(f)(ns.x),
    "jacrev_of_jacfwd": lambda ns, f: ns.api.jacrev(ns.api.jacfwd(f))(ns.x),
    "jvp_of_grad": lambda ns, f: ns.api.jvp(ns.api.grad(f), (ns.x,), (ns.v,)),
    "third": _third,
    "jvp_of_vmap": lambda ns, f: ns.api.jvp(ns.api.vmap(f), (ns.batch,), (ns.batch * 0.5,)),
    "grad_of_scan_body": lambda ns, f: ns.api.grad(_in_scan(ns, f))(ns.batch),
    "grad_of_cond_branch": lambda ns, f: ns.api.grad(_in_cond(ns, f))(ns.x),
    "grad_of_checkpoint": lambda ns, f: ns.api.grad(ns.api.checkpoint(f))(ns.x),
    "jvp_of_checkpoint": lambda ns, f: ns.api.jvp(ns.api.checkpoint(f), (ns.x,), (ns.v,)),
    "hessian_of_checkpoint": lambda ns, f: ns.api.hessian(ns.api.checkpoint(f))(ns.x),
    "grad_of_vmap_of_checkpoint": lambda ns, f: ns.api.grad(
        lambda b: ns.np.sum(ns.api.vmap(ns.api.checkpoint(f))(b) ** 2)
    )(ns.batch),
    "grad_of_checkpoint_of_scan_body": lambda ns, f: ns.api.grad(
        ns.api.checkpoint(_in_scan(ns, ns.api.checkpoint(f)))
    )(ns.batch),
    "jvp_of_while_body": lambda ns, f: ns.api.jvp(_in_while(ns, f), (ns.x,), (ns.v,)),
    "vmap_of_while_body": lambda ns, f: ns.api.vmap(_in_while(ns, f))(ns.batch),
}

# Nestings that need tangents of the function, which a custom_vjp function does not have.
FORWARD = {
    "jvp",
    "linearize",
    "jacrev_of_jacfwd",
    "jvp_of_vmap",
    "jvp_of_checkpoint",
    "jvp_of_while_body",
    "jit_of_jvp_of_while_body",
}

COMPILED: dict[str, Nesting] = {
    "jit": lambda ns, f: ns.api.jit(f)(ns.x),
    "jit_of_grad": lambda ns, f: ns.api.jit(ns.api.grad(f))(ns.x),
    "jit_of_vmap_of_grad": lambda ns, f: ns.api.jit(ns.api.vmap(ns.api.grad(f)))(ns.batch),
    "jit_of_hessian": lambda ns, f: ns.api.jit(ns.api.hessian(f))(ns.x),
    "jit_of_vmap_of_hessian": lambda ns, f: ns.api.jit(ns.api.vmap(ns.api.hessian(f)))(ns.batch),
    "jit_of_grad_of_vmap_of_jit": lambda ns, f: ns.api.jit(
        ns.api.grad(lambda b: ns.np.sum(ns.api.vmap(ns.api.jit(f))(b)))
    )(ns.batch),
    "jit_of_grad_of_scan_body": lambda ns, f: ns.api.jit(ns.api.grad(_in_scan(ns, f)))(ns.batch),
    "jit_of_vmap_of_grad_of_cond": lambda ns, f: ns.api.jit(
        ns.api.vmap(ns.api.grad(_in_cond(ns, f)))
    )(ns.batch),
    "jit_of_grad_of_checkpoint": lambda ns, f: ns.api.jit(ns.api.grad(ns.api.checkpoint(f)))(ns.x),
    "jit_of_jvp_of_while_body": lambda ns, f: ns.api.jit(
        lambda x: ns.api.jvp(_in_while(ns, f), (x,), (ns.v,))
    )(ns.x),
}


def _under(nesting: str, family: Function, modules: Any, data: dict[str, Any]) -> Any:
    """A family under a nesting, with a library, at points that may be traced."""
    ns = SimpleNamespace(**vars(modules), **data)
    return {**EAGER, **COMPILED}[nesting](ns, lambda x: family(ns, ns.np.asarray(x)))


def _expected(family: Function, nestings: list[str]) -> list[Pair]:
    # JAX compiles all nestings as one program, except for rules of the user on literals, which it
    # refuses: op by op, it takes several times as long.
    data = {name: jax_numpy.asarray(x) for name, x in DATA.items()}
    pairs = outcomes_in_one_program([(_under, (n, family, THEIRS, data), {}) for n in nestings])
    return [
        outcome(_under, (n, family, THEIRS, DATA), {}) if pair[1] else pair
        for n, pair in zip(nestings, pairs, strict=True)
    ]


def check(family: Function, nestings: list[str]) -> None:
    """Compare a family under several nestings with JAX; those that compile are one program."""
    if family is custom_vjp:
        for nesting in FORWARD.intersection(nestings):
            with pytest.raises(TypeError, match="forward-mode autodiff"):
                _under(nesting, family, OURS, DATA)
        nestings = [n for n in nestings if n not in FORWARD]

    @gnomon.jit
    def compiled(data: Any) -> dict[str, Any]:
        return {n: _under(n, family, OURS, data) for n in nestings if n in COMPILED}

    found: dict[str, Any] = {} if EAGER.keys() >= set(nestings) else compiled(DATA)
    failures = []
    for nesting, (expected, error) in zip(nestings, _expected(family, nestings), strict=True):
        try:
            assert error is None, f"JAX raises {error!r}"
            if nesting in EAGER:
                found[nesting] = _under(nesting, family, OURS, DATA)
            # Both libraries round every intermediate value.
            assert_trees_close(found[nesting], expected, 300, scale=1.0)
        except Exception as raised:
            failures.append(f"{nesting}: {type(raised).__name__}: {raised}")
    assert not failures, "\n".join(failures)


def groups() -> Any:
    """Parametrize a test with all families, and the nestings of each that a commit runs.

    By default, core families run under one eager and one compiled nesting, and the others under an
    eager one. Two fifths of the rest are slow tests.
    """
    found = []
    for f in (*FAMILIES, *MORE):
        counts = 1, f in FAMILIES or f in (convolution, sorting)
        quick, slow = [], []
        for nestings, count in zip((EAGER, COMPILED), counts, strict=True):
            chosen = sample(nestings, count, f.__name__)
            rest = [n for n in nestings if n not in chosen]
            quick += chosen
            slow += sample(rest, 2 * len(rest) // 5, f"{f.__name__}, more")
        found.append(pytest.param(f, quick, id=f.__name__))
        found.append(pytest.param(f, slow, id=f"{f.__name__}, more", marks=pytest.mark.slow))
    return pytest.mark.parametrize(("family", "nestings"), found)


@groups()
def test_equals_jax(family: Function, nestings: list[str]) -> None:
    check(family, nestings)
