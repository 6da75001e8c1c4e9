"""Options that check programs do not change what gnomon's own functions do.

Each public function is called under each option. It must return what it returns without the option,
to the last bit. It may raise an error only if JAX raises one for the same call under the option.
"""

from __future__ import annotations

import ast
import functools
import gc
import itertools
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")


import gnomon as gn
import gnomon.experimental.ode
import gnomon.numpy as gnp
import gnomon.scipy.interpolate
import gnomon.scipy.optimize
import gnomon.scipy.sparse.linalg
import gnomon.scipy.spatial.transform
from gnomon import lax
from gnomon.tools.fuzz.running import GNOMON, JAX, Library, value_of
from tests.sample import sample
from tests.tools import compared_samples as samples
from tests.tools.compared_table import PLACES, functions, generic_samples

pytestmark = pytest.mark.iree

# The options, and the message of the warning that counts as an error under it.
OPTIONS: dict[str, dict[str, Any]] = {
    "rank promotion raises": {"numpy_rank_promotion": "raise"},
    "rank promotion warns": {"numpy_rank_promotion": "warn"},
    "strict dtype promotion": {"numpy_dtype_promotion": "strict"},
    "debug_nans": {"debug_nans": True},
    "debug_infs": {"debug_infs": True},
    "check_tracer_leaks": {"check_tracer_leaks": True},
    "no transfers to devices": {"transfer_guard_host_to_device": "disallow"},
    "no transfers to the host": {"transfer_guard_device_to_host": "disallow"},
    "no transfers between devices": {"transfer_guard_device_to_device": "disallow"},
    "disable_jit": {"disable_jit": True},
    "default_matmul_precision": {"default_matmul_precision": "highest"},
}
# Several options at once, which the quick test calls each function under.
TOGETHER: dict[str, dict[str, Any]] = {
    "all checks of operands": {
        "numpy_rank_promotion": "raise",
        "numpy_dtype_promotion": "strict",
        "transfer_guard_device_to_host": "disallow",
        "transfer_guard_device_to_device": "disallow",
        "default_matmul_precision": "highest",
    },
    "all checks of results": {"debug_nans": True, "debug_infs": True},
    "disable_jit": {"disable_jit": True},
    "no transfers to devices": {"transfer_guard_host_to_device": "disallow"},
}
# Whether options refuse a value among the results.
REFUSED_VALUES: dict[str, Callable[[Any], Any]] = {
    "debug_nans": np.isnan,
    "debug_infs": np.isinf,
    "all checks of results": lambda value: ~np.isfinite(value),
}
# Functions whose evaluation takes long, by parts of their names.
LONG = ("hyp1f1", "hyp2f1", "poisson", "binomial", "multinomial", "betainc", "minimize")
# Calls that may be refused where JAX accepts them, or refuses them without the option, too.
KNOWN = {
    "strict dtype promotion": ("stats.norm.isf(B)", "stats.norm.ppf(B)"),
    # A number that is the identity of a known reduction takes no part in JAX's.
    # JAX compiles the function of `frompyfunc`; its numbers are constants of that program.
    "no transfers to devices": (
        "lax.reduce(F, 0.,",
        "lax.reduce(I, 1,",
        "lax.reduce_window(",
        "gnp.frompyfunc(",
    ),
}

# Calls that the samples of single functions do not make. Arrays are those of `compared_samples`.
MORE = """
gnp.add.outer(F, M)
gnp.frompyfunc(lambda a, b: a * b, 2, 1).outer(M, F)
gnp.frompyfunc(lambda a, b: a * b, 2, 1).accumulate(M, 1)
gnp.add.at(F, I, G, inplace=False)
gnp.add.reduce(M, 1, where=M > 0)
gnp.add.reduceat(F, gnp.array([0, 3, 5]))
[F + 1, 1 - F, F * 2.5, F / 3, F // 2, F % 2, F**2, F**0.5, abs(F), F > 0, divmod(F, 2)]
[I + 1, I // 2, I % 3, I << 1, I >> 1, I & 3, I | 1, I ^ 2, ~I, I**2]
[M.sum(0), M.mean(1), M.var(0), M.std(1), M.cumsum(0), M.argmax(1), M.round(1), M.clip(0, 1)]
[gnp.mean(M, 0, where=B[:5]), gnp.sum(M, where=B[:5]), gnp.var(M, where=B[:5]), gnp.std(X, 0)]
[M[0], M[:, 1], M[..., None], M[I[:3] % 3], M[M > 0], M[gnp.array([0, 1]), 2], M[-1, -1]]
[F.at[I].add(G), M.at[0].multiply(2), M.at[:, 1].set(V[:3]), F.at[I].min(0.0), M.at[:2].set(E[:5])]
[gnp.mgrid[0:3, 0:4], gnp.mgrid[0:1:5j, 0:4], gnp.mgrid[0:3], gnp.mgrid[0:3:0.5, 1:2:3j]]
[gnp.ogrid[0:3, 0:1:4j], gnp.r_[F, 0.0], gnp.r_[0:3, 5], gnp.c_[F, G], gnp.vander(F, 3, True)]
[gnp.polyfit(F, G, 2, cov=True), gnp.polyfit(F, S.ravel()[:14].reshape(7, 2), 1, w=E, full=True)]
[gnp.cov(M), gnp.cov(M, fweights=I[:5] + 1), gnp.cov(M, aweights=E[:5]), gnp.cov(F, G), gnp.cov(X)]
[gnp.cov(M, N, False), gnp.cov(M, fweights=I[:5] + 1, aweights=E[:5]), gnp.corrcoef(X)]
gnp.quantile(M, gnp.array([0.2, 0.7]), axis=0)
gnp.quantile(T, gnp.array([0.2, 0.7]), axis=(0, 2), keepdims=True)
gnp.quantile(M, gnp.array([0.2, 0.7]), axis=1, weights=E[:5], method='inverted_cdf')
[gnp.quantile(M, E, 0, method=m) for m in ('lower', 'higher', 'nearest', 'midpoint')]
[gnp.nanquantile(M, E, 1), gnp.median(M, 1, keepdims=True), gnp.percentile(M, 99 * E, 0)]
gnp.average(M, axis=0, weights=V[:3])
gnp.unique(M, axis=0, size=5, fill_value=0, return_counts=True, return_inverse=True)
[gnp.histogram(F, 4, weights=E), gnp.histogram2d(F, G, 3), gnp.histogramdd(M.T[:, :2], 2)]
[gnp.linspace(V, W, 5), gnp.logspace(V, W, 3), gnp.geomspace(E, Q + 1, 4), gnp.unwrap(M, axis=0)]
gnp.packbits(gnp.broadcast_to(B, (2, 7)), axis=1, bitorder='little')
[gnp.unpackbits(U.reshape(7, 1), axis=1), gnp.interp(M, gnp.sort(F), G), gnp.gradient(M)]
[gnp.where(B[:5], M, N), gnp.where(M > 0, E[:5], 0.0), gnp.select([M > 0], [E[:5]], 7.0)]
gnp.piecewise(F, [F < 0, F > 1], [lambda x: -x, lambda x: x * 2, 5.0])
gnp.vectorize(lambda a, b: a @ b, signature='(n),(n)->()')(M, N)
[gnp.nan_to_num(M, nan=E[:5]), gnp.heaviside(M, E[:5]), gnp.array_equiv(S, V), gnp.isin(M, F)]
[gnp.pad(M, 1, mode) for mode in ('linear_ramp', 'mean', 'median', 'maximum', 'reflect')]
[gnp.linalg.norm(M), gnp.linalg.norm(M, 1, 1), gnp.linalg.norm(M, 'nuc'), gnp.linalg.norm(X, 3, 0)]
[gnp.linalg.lstsq(M.T, N.T)[0], gnp.linalg.pinv(T), gnp.linalg.pinv(X), gnp.linalg.cond(S, 1)]
[slinalg.convolution_matrix(M, 3), slinalg.fiedler_companion(M), slinalg.toeplitz(M)]
[slinalg.hessenberg(T[:, :3, :3], calc_q=True), slinalg.circulant(M), slinalg.lu(T[:, :3, :3])]
nn.dot_product_attention(T[None], T[None], T[None], mask=gnp.ones((1, 1, 2, 2), bool))
nn.dot_product_attention(T, T, T, bias=gnp.ones((3, 2, 2)), is_causal=True, local_window_size=1)
nn.dot_product_attention(T[None], T[None], T[None], query_seq_lengths=I[:1] * 0 + 1)
[nn.softmax(M, where=M > 0), nn.softmax(M, where=B[:5]), nn.standardize(M, 0), nn.logmeanexp(M, 0)]
[nn.softmax(Y), nn.gelu(Y), nn.standardize(Y), nn.elu(Y), nn.celu(Y), nn.log1mexp(Y)]
[random.multivariate_normal(random.key(1), S, P), random.dirichlet(random.key(1), E, (3,))]
[random.choice(random.key(1), F, (4,), p=E / E.sum()), random.permutation(random.key(1), M, 1)]
[random.t(random.key(1), E, (2, 7)), random.beta(random.key(1), E, Q, (2, 7))]
[random.uniform(random.key(1), (2, 7), 'float32', E[None], 2.0), random.ball(random.key(1), 3)]
[special.bessel_jn(M, v=2), special.multigammaln(M + 5, 3), special.logsumexp(M, b=N, axis=0)]
[stats.gaussian_kde(M)(M), stats.gaussian_kde(F, weights=E).integrate_gaussian(0.1, 0.2)]
stats.multivariate_normal.logpdf(S, S, gnp.stack([P, P, P, P]))
[signal.welch(C, nperseg=4, return_onesided=False), signal.welch(M, nperseg=4, average='median')]
[signal.csd(F, G, nperseg=4), signal.csd(F, C, nperseg=4, return_onesided=False)]
[signal.istft(signal.stft(M, nperseg=4)[2], nperseg=4), signal.istft(X, input_onesided=False)]
gn.scipy.linalg.leslie(M, M[:, 1:])
[gn.scipy.sparse.linalg.cg(P, V), gn.scipy.sparse.linalg.bicgstab(S, V)]
gn.scipy.sparse.linalg.cg(X @ X.conj().T + 3 * gnp.eye(3, dtype='complex64'), X[0])
[gn.scipy.sparse.linalg.gmres(X + 3 * gnp.eye(3, dtype='complex64'), X[0], solve_method=m) \
for m in ('batched', 'incremental')]
gn.scipy.spatial.transform.Rotation.from_quat(S)[1:3].inv().apply(V[:3])
(gn.scipy.spatial.transform.Rotation.from_quat(S).inv().as_euler('xyz'))
gn.scipy.spatial.transform.Slerp.init(gnp.arange(4.0), \
gn.scipy.spatial.transform.Rotation.from_quat(S))(E).as_quat()
gn.scipy.interpolate.RegularGridInterpolator((gnp.arange(3.0), gnp.arange(5.0)), M)(E[None, :2])
gn.experimental.ode.odeint(lambda y, t: -y, V, gnp.arange(3.0))
gn.grad(lambda x, i: (x * i.astype('float32')).sum(), (0, 1), allow_int=True)(F, I)
gn.jvp(lambda x, i: (x, i + 1), (F, I), (G, numpy.zeros(I.shape, gn.dtypes.float0)))
gn.vjp(lambda x, i: (x, i + 1), F, I)[1]((G, numpy.zeros(I.shape, gn.dtypes.float0)))
numpy.zeros((3,), gn.dtypes.float0) == numpy.zeros((3,), gn.dtypes.float0)
[gn.hessian(lambda x: (x**3).sum())(V), gn.vmap(lambda a, b: a * b, (0, None))(M, N[0])]
[lax.scan(lambda c, x: (c + x, c * x), 0.0, F), lax.cond(True, gnp.sin, gnp.cos, F)]
[lax.map(gnp.sin, M), lax.associative_scan(gnp.add, M), gn.grad(gn.checkpoint(gnp.linalg.norm))(F)]
""".replace("\\\n", "")


def _expressions(text: str) -> Iterator[str]:
    """The calls in lines of Python; the elements of a list are separate calls."""
    for line in ast.parse(text).body:
        assert isinstance(line, ast.Expr)
        value = line.value
        yield from map(ast.unparse, value.elts if isinstance(value, ast.List) else [value])


@functools.cache
def scope(library: Library) -> dict[str, Any]:
    """The names that samples use."""
    found = dict(library.namespace)
    arrays = samples.ARRAYS.items()
    return found | {name: library.array(value_of(array)) for name, array in arrays}


@contextmanager
def options(library: Library, values: dict[str, Any]) -> Iterator[None]:
    with ExitStack() as stack, np.errstate(all="ignore"):
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message=".*rank promotion")
        for name, value in values.items():
            stack.enter_context(getattr(library.package, name)(value))
        yield


def call(library: Library, text: str, values: dict[str, Any]) -> Any:
    """The result of a call under options, or its exception."""
    try:
        with options(library, values):
            return eval(text, scope(library))
    except Exception as error:
        return error


def described(result: Any) -> list[Any]:
    """The types and bytes of the arrays in a result; Python numbers become arrays."""
    found = []
    for leaf in gn.tree.leaves(result):
        if isinstance(leaf, gn.Array) and gn.dtypes.issubdtype(leaf.dtype, gn.dtypes.extended):
            leaf = gn.random.key_data(leaf)
        array = leaf if hasattr(leaf, "dtype") else gnp.asarray(leaf)
        value = np.asarray(array)
        found.append((value.dtype, value.shape, getattr(array, "weak_type", None), value.tobytes()))
    return found


@functools.cache
def calls(place: str, count: int) -> Sequence[str]:
    """Up to ``count`` calls that gnomon accepts, of each of a sample of a module's functions."""
    if place == "more":
        return list(_expressions(MORE))
    found = []
    named = list(functions(place))
    for name, function in sample(named, -(-len(named) * min(count, 2) // 4), place):
        if name in samples.LEFT_OUT:
            continue
        texts = samples.SPECIAL.get(name) or generic_samples(name, function)
        texts = [t[1:] if t.startswith("@") else f"{name}({t})" for t in texts]
        accepted = (t for t in texts if not isinstance(call(GNOMON, t, {}), Exception))
        found += itertools.islice(accepted, count)
    return found


def changes(text: str, expected: Sequence[Any], option: str) -> str | None:
    """Describe how a call changes under an option; None if it does not, or as in JAX."""
    values = OPTIONS.get(option) or TOGETHER[option]
    found = call(GNOMON, text, values)
    if not isinstance(found, Exception):
        return None if described(found) == expected else f"{option}: {text}: another result"
    if any(text.startswith(known) for known in KNOWN.get(option, ())):
        return None
    if option in REFUSED_VALUES:
        if isinstance(found, FloatingPointError) and has_refused_value(option, expected):
            return None
    elif not isinstance(call(JAX, text, {}), Exception):
        theirs = call(JAX, text, values)
        if isinstance(theirs, Exception):
            return None
    return f"{option}: {text}: {type(found).__name__}: {found}"


def has_refused_value(option: str, results: Sequence[Any]) -> bool:
    """Whether results, as `described`, have a value that an option refuses."""
    arrays = (np.frombuffer(data, dtype) for dtype, _, _, data in results)
    return any(
        REFUSED_VALUES[option](a).any() for a in arrays if gnp.issubdtype(a.dtype, gnp.inexact)
    )


def check(texts: Sequence[str], names: Sequence[str]) -> None:
    wrong = []
    for text in texts:
        expected = call(GNOMON, text, {})
        if isinstance(expected, Exception):
            raise expected
        expected = described(expected)
        wrong += [found for name in names if (found := changes(text, expected, name))]
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def frozen_garbage() -> Iterator[None]:
    """Leave existing objects out of garbage collections: leak checks collect after each trace."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("place", [*PLACES, "more"])
def test_options_change_no_function(place: str) -> None:
    """One short call of each function, under several options at once."""
    texts = [text for text in calls(place, 1) if not any(part in text for part in LONG)]
    # Numbers in a call would be implicit transfers.
    guarded = [text for text in texts if not re.search(r"\d", text)]
    check(texts, [name for name in TOGETHER if name != "no transfers to devices"])
    check(guarded, ["no transfers to devices"])


@pytest.mark.slow
@pytest.mark.usefixtures("frozen_garbage")
@pytest.mark.parametrize("option", OPTIONS)
def test_options_change_no_sample(option: str) -> None:
    """Up to three calls of each function, under each option."""
    check([text for place in [*PLACES, "more"] for text in calls(place, 3)], [option])


# ---------------------------------------------------------------------- what the options do check


def test_callables_of_the_user_are_checked() -> None:
    """Functions that gnomon calls back are the user's programs, at any depth."""
    m, v = gnp.ones((2, 3)), gnp.ones(3)

    def body(x: Any) -> Any:
        return (x[:, None] * m + v).sum()

    with_rule = gn.custom_jvp(body)
    with_rule.defjvp(lambda primals, tangents: (body(*primals), tangents[0].sum()))
    programs: list[Callable[[], Any]] = [
        lambda: gn.grad(body)(v[:2]),
        lambda: gn.make_jaxpr(body)(v[:2]),
        lambda: gn.vmap(body)(gnp.ones((4, 2))),
        lambda: gnp.vectorize(body, signature="(n)->()")(gnp.ones((4, 2))),
        lambda: gnp.piecewise(m, [m > 0], [lambda x: x * v]),
        lambda: gnp.apply_along_axis(lambda x: m + v, 0, v[:2]),
        lambda: lax.scan(lambda c, x: (c, m + v), 0.0, v),
        lambda: lax.cond(True, lambda x: m + v, lambda x: m, v),
        lambda: gn.checkpoint(body)(v[:2]),
        lambda: with_rule(v[:2]),
        lambda: gn.scipy.optimize.minimize(body, v[:2], method="BFGS"),
        lambda: gn.scipy.sparse.linalg.cg(lambda x: (m + v)[0] * x, v),
    ]
    for program in programs:
        with gn.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="numpy_rank_prom"):
            program()
    for program in programs[:5]:
        with (
            gn.numpy_rank_promotion("warn"),
            pytest.warns(UserWarning, match="rank promotion") as caught,
        ):
            program()
        assert {Path(w.filename).name for w in caught} == {Path(__file__).name}


def test_operands_of_a_function_are_checked() -> None:
    """Functions that combine their operands elementwise refuse other ranks, as in JAX."""
    names = (
        "gnp.add gnp.hypot gnp.ldexp gnp.isclose gnp.clip gnp.vecdot gnp.linspace special.xlogy "
        "special.betaln special.gammainc stats.norm.pdf stats.t.logpdf"
    )
    for name in names.split():
        text = f"{name}(S, {'I[:4]' if name == 'gnp.ldexp' else 'V'})"
        assert not isinstance(call(GNOMON, text, {}), Exception)
        for library in (GNOMON, JAX):
            refused = call(library, text, OPTIONS["rank promotion raises"])
            assert isinstance(refused, ValueError), f"{library.name}: {text}: {refused!r}"


# Under disable_jit and the guards, programs like these differ or are refused.
CHECKS = [
    *("rank promotion raises", "rank promotion warns", "strict dtype promotion", "debug_nans"),
    *("debug_infs", "check_tracer_leaks", "no transfers between devices"),
]


@pytest.mark.parametrize("option", CHECKS)
def test_a_check_is_no_trace(option: str, devices: list[Any]) -> None:
    """What asks whether a function is being traced is not told so by an option."""
    mesh = gn.make_mesh((8,), ("a",), (gn.sharding.AxisType.Auto,))
    explicit = gn.make_mesh((8,), ("a",), (gn.sharding.AxisType.Explicit,))
    x = gn.device_put(np.arange(8, dtype=np.float32), gn.NamedSharding(mesh, gn.P("a")))
    traced: list[bool] = []

    def function(v: Any) -> Any:
        traced.append(isinstance(v, gn.core.Tracer))
        return v * v

    jvp, vjp = gn.custom_jvp(function), gn.custom_vjp(function)
    jvp.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    vjp.defvjp(lambda v: (v, None), lambda _, cotangent: (cotangent,))
    with options(GNOMON, OPTIONS[option]):
        with gn.set_mesh(mesh):
            assert gn.sharding.get_mesh() == mesh
            whole = lax.with_sharding_constraint(x, gn.P())
        assert whole.sharding.is_fully_replicated and gnp.zeros_like(x).sharding == x.sharding
        with gn.set_mesh(explicit):
            split = gn.sharding.reshard(whole, gn.P("a"))
        assert not split.sharding.is_fully_replicated
        jvp(1.0), vjp(1.0), gn.checkpoint(function)(1.0)
    assert traced == [False] * 3


def test_results_are_checked_where_they_are_returned() -> None:
    """Values that a function, loop or branch does not return may be nan or infinite."""
    with gn.debug_nans(True):
        assert gn.scipy.special.xlogy(0.0, 0.0) == gn.scipy.special.entr(0.0) == 0
    x = gnp.array([0.0, 1.0])

    def step(c: Any, x: Any) -> Any:
        return c + gnp.where(x > 0, 1 / x, 0.0), c

    def run() -> float:
        return float(lax.scan(step, 0.0, x)[0])

    assert run() == 1
    with gn.debug_infs(True):
        assert run() == 1
        assert float(lax.cond(True, lambda v: gnp.where(v > 0, 1 / v, 2.0), gnp.sin, x[0])) == 2
        with pytest.raises(FloatingPointError, match=r"invalid value \(inf\) encountered in div"):
            lax.scan(lambda c, x: (c + 1 / x, c), 0.0, x)
    # The loop that was checked is not checked afterwards.
    assert float(lax.scan(lambda c, x: (c + 1 / x, c), 0.0, x)[0]) == np.inf
