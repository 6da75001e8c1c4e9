"""Functions and arguments that JAX has since 0.12: beside definitions, and beside JAX if it is new.

What the older version of JAX has not is compared with definitions only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import export, lax, profiler, random
from gnomon.scipy.special import erfcinv, ndtri
from tests.frontend.oracle import checks_in_one_program, sample, weakly
from tests.newest_jax import IS_NEWEST
from tests.tolerance import assert_each_near, assert_near

beside_new_jax = pytest.mark.skipif(not IS_NEWEST, reason="JAX has these names since 0.12")

REAL = ("bool", "int8", "uint8", "int32", "bfloat16", "float16", "float32")


# -------------------------------------------------------------------------------------- logarithms


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_logarithms_of_powers_of_two_are_exact(dtype: str) -> None:
    with gn.enable_x64(True):
        info = gnp.finfo(dtype)
        least = math.frexp(float(info.tiny))[1] - 1
        exponents = np.arange(least, math.frexp(float(info.max))[1])
        powers = gnp.asarray(np.ldexp(1.0, exponents), dtype)
        for f in (lax.log2, gnp.log2, gn.jit(lax.log2)):
            got = np.asarray(f(powers)).astype(float)
            np.testing.assert_array_equal(got, np.asarray(gnp.asarray(exponents, dtype), float))
        # Subnormal numbers, which compiled programs flush.
        small = np.ldexp(1.0, np.arange(least - info.nmant, least))
        got = np.asarray(lax.log2(gnp.asarray(small, dtype))).astype(float)
        np.testing.assert_array_equal(got, np.log2(small).astype(dtype).astype(float))


def test_other_logarithms_to_base_two() -> None:
    x = np.array([0.0, -0.0, -1.0, np.inf, np.nan, 0.3, 1 + 2**-23, 3.0, 1e30], np.float32)
    with np.errstate(all="ignore"):
        expected = np.log2(x.astype(np.float64)).astype(np.float32)
    for f in (lax.log2, gn.jit(lax.log2)):
        assert_each_near(np.asarray(f(x)), expected, 4.0, 1e-7)
    slopes = gn.vmap(gn.grad(lax.log2))(np.array([0.5, 1.0, 3.0, 8.0], np.float32))
    assert_near(np.asarray(slopes), (1 / np.log(2) / np.array([0.5, 1, 3, 8])).astype("f"), 2.0)
    with pytest.raises(TypeError, match="int32"):
        lax.log2(3)


# ------------------------------------------------------------------------------------- polynomials


def _value(x: Any, coefficients: Any) -> Any:
    return sum(c * x**k for k, c in enumerate(coefficients))


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("count", [1, 2, 3, 8, 9, 20])
@pytest.mark.parametrize("unroll", [None, 1])
def test_polynomials_and_their_derivatives(count: int, unroll: int | None) -> None:
    rng = np.random.RandomState(count)
    x = rng.uniform(-1, 1, (3, 2)).astype(np.float32)
    c = rng.randint(-3, 4, count).astype(np.float32)
    exact = np.polynomial.Polynomial(c.astype(float))

    def f(x: Any, *c: Any) -> Any:
        return lax.polynomial(x, c, unroll=unroll)

    assert_near(np.asarray(f(x, *c)), exact(x).astype("f"), 8.0, scale=count)
    assert_near(np.asarray(gn.jit(f)(x, *c)), exact(x).astype("f"), 8.0, scale=count)
    slope = gn.vmap(gn.grad(f), (0, *[None] * count))(x[:, 0], *c)
    assert_near(np.asarray(slope), exact.deriv()(x[:, 0]).astype("f"), 16.0, scale=count**2)
    curve = gn.jit(gn.vmap(gn.grad(gn.grad(f)), (0, *[None] * count)))(x[:, 0], *c)
    assert_near(np.asarray(curve), exact.deriv(2)(x[:, 0]).astype("f"), 32.0, scale=count**3)
    powers = gn.grad(lambda c: gnp.sum(f(x, *c)))(list(c))
    expected = [np.sum(x.astype(float) ** k) for k in range(count)]
    assert_near(np.stack(powers), np.array(expected, "f"), 8.0, scale=6.0)


def test_what_polynomials_take() -> None:
    assert lax.polynomial(gnp.ones((3, 1)), [1, gnp.ones((1, 2))]).shape == (3, 2)
    assert lax.polynomial(gnp.ones(3, "bfloat16"), [1, 2.5]).dtype == gnp.bfloat16
    assert lax.polynomial(3, [1.5, 2]).dtype == np.int32
    assert lax.polynomial(2.0, []).weak_type
    assert lax.polynomial(np.inf, [0.0] * 9 + [1.0]) == np.inf
    with pytest.raises(TypeError, match="number of dimensions"):
        lax.polynomial(gnp.ones(3), [1, gnp.ones((1, 2))])
    with pytest.raises(TypeError, match="complex"):
        lax.polynomial(2.0, [1j, 2])
    with pytest.raises(TypeError, match="bool"):
        lax.polynomial(True, [1, 2])
    with pytest.raises(ValueError, match="unroll"):
        lax.polynomial(2.0, [1, 2], unroll=0)


def test_one_minus_square_is_accurate_next_to_one_and_its_slope_next_to_zero() -> None:
    x = np.array([1 - 2**-24, -1 + 2**-24, 0.3, 2.0], np.float32)
    exact = 1 - x.astype(float) ** 2
    for f in (lax.one_minus_square, gn.jit(lax.one_minus_square)):
        assert_each_near(np.asarray(f(x)), exact.astype("f"), 2.0)
    assert gn.grad(lax.one_minus_square)(1e-30) == np.float32(-2e-30)
    assert gn.jit(gn.grad(gn.grad(lax.one_minus_square)))(3.0) == -2
    assert lax.one_minus_square(np.array([3, 0], np.int32)).tolist() == [-8, 1]
    assert lax.one_minus_square(1j) == 2
    with pytest.raises(TypeError, match="bool"):
        lax.one_minus_square(True)


# ------------------------------------------------------------------------------- minmax and top_k


@pytest.mark.parametrize("dtype", REAL)
def test_minmax_and_top_k_beside_numpy(dtype: str) -> None:
    x = np.random.RandomState(0).randint(0, 4, (3, 5)).astype(gnp.dtype(dtype))
    for f in (gnp.minmax, gn.jit(gnp.minmax, static_argnums=1)):
        low, high = f(x, 1)
        np.testing.assert_array_equal(np.asarray(low), x.min(1))
        np.testing.assert_array_equal(np.asarray(high), x.max(1))
    values, positions = gnp.top_k(x, 2, axis=0, mode="smallest")
    np.testing.assert_array_equal(np.asarray(values), np.sort(x, 0)[:2])
    np.testing.assert_array_equal(np.asarray(positions), np.argsort(x, 0, kind="stable")[:2])
    values, positions = gnp.top_k(x, 5)
    np.testing.assert_array_equal(np.asarray(values), np.sort(x, 1)[:, ::-1])
    np.testing.assert_array_equal(np.take_along_axis(x, np.asarray(positions), 1), values)
    assert positions.dtype == np.int32
    both = [lax.top_k(x, 2, is_stable=stable) for stable in (True, False)]
    np.testing.assert_array_equal(np.asarray(both[0][1]), np.asarray(both[1][1]))


def test_minmax_and_top_k_refuse() -> None:
    with pytest.raises(ValueError, match="no identity"):
        gnp.minmax(gnp.zeros((0, 2)))
    with pytest.raises(ValueError, match="initial"):
        gnp.minmax(gnp.ones(2), where=gnp.array([True, False]))
    with pytest.raises(NotImplementedError, match="out"):
        gnp.minmax(gnp.ones(2), out=0)
    with pytest.raises(ValueError, match="complex"):
        gnp.top_k(1j * gnp.ones(2), 1)
    with pytest.raises(ValueError, match="mode must be"):
        gnp.top_k(gnp.ones(2), 1, mode="least")
    with pytest.raises(ValueError, match="k must"):
        gnp.top_k(gnp.ones(2), 3)


def test_derivatives_of_minmax_and_top_k() -> None:
    x = np.array([3, 1, 3, 2], np.float32)
    slope = gn.grad(lambda x: sum(gnp.minmax(x)))(x)
    assert slope.tolist() == [0.5, 1, 0.5, 0]
    slope = gn.jit(gn.grad(lambda x: gnp.sum(gnp.top_k(x, 2, mode="smallest")[0] ** 2)))(x)
    assert slope.tolist() == [0, 2, 0, 4]
    values, positions = gn.vmap(lambda x: gnp.top_k(x, 1, mode="smallest"))(x.reshape(2, 2))
    assert (values.tolist(), positions.tolist()) == ([[1], [2]], [[1], [1]])


@beside_new_jax
def test_the_new_functions_beside_jax() -> None:
    mask = jnp.array([True, False, True])[:, None]
    with checks_in_one_program() as check:
        for dtype in (*REAL, "complex64"):
            x = sample(dtype, (3, 4))
            for options in (
                {},
                {"axis": (0, 1), "keepdims": True},
                {"axis": 1, "initial": 2},
                {"initial": (1, 2)},
                {"axis": 0, "where": mask, "initial": (5, 0)},
                {"where": mask},
                {"axis": 5},
            ):
                check(gnp.minmax, jnp.minmax, x, **options)
            for options in ({}, {"axis": 0}, {"mode": "smallest"}, {"mode": "no"}, {"axis": 4}):
                for k in (0, 2, 9, -1):
                    check(gnp.top_k, jnp.top_k, x, k, **options)
            ulps = 4 if dtype == "complex64" else 0
            check(lax.one_minus_square, jax.lax.one_minus_square, x, ulps=ulps)
            check(lax.polynomial, jax.lax.polynomial, x, [2, 1])
            check(lax.log2, jax.lax.log2, x, ulps=4, scale=1.0)
        for x in (jnp.zeros((0, 3)), jnp.zeros(()), jnp.array([jnp.nan, 1, -0.0, 0.0])):
            check(gnp.minmax, jnp.minmax, x)
            check(gnp.minmax, jnp.minmax, x, initial=0.0)
            check(gnp.top_k, jnp.top_k, x, 2)
            check(gnp.top_k, jnp.top_k, x, 2, mode="smallest")
        for value in (3.0, 3, weakly(3.0, (2,))):
            check(gnp.minmax, jnp.minmax, value)
            check(lax.one_minus_square, jax.lax.one_minus_square, value)
            check(lax.polynomial, jax.lax.polynomial, value, [1, 2.5])
            check(erfcinv, jax.scipy.special.erfcinv, value)
        check(erfcinv, jax.scipy.special.erfcinv, 1j)


# ----------------------------------------------------------------------------------------- erfcinv


def _exact_erfcinv(y: float) -> Any:
    if y > 1:
        return -_exact_erfcinv(2 - y)
    return mpmath.findroot(
        lambda z: mpmath.log(mpmath.erfc(z)) - mpmath.log(y), math.sqrt(-math.log(y / 2))
    )


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_erfcinv_and_its_slope(dtype: str) -> None:
    info = np.finfo(dtype)
    y = np.array([info.tiny * 4, 1e-30, 1e-9, 0.01, 0.0999, 0.1001, 0.7, 0.99, 1.01, 1.95], dtype)
    y = np.append(y, [np.array(2 - 4 * info.eps, dtype)])
    with mpmath.workprec(200):
        exact = [_exact_erfcinv(float(v)) for v in y]
        slopes = [-mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(z**2) for z in exact]
    with gn.enable_x64(True):
        for f in (erfcinv, gn.jit(erfcinv)):
            assert_each_near(np.asarray(f(y)), np.array([float(z) for z in exact], dtype), 2.0)
            slope = gn.vmap(gn.grad(f))(y)
            expected = np.array([float(s) for s in slopes], dtype)
            assert_each_near(np.asarray(slope), expected, 6.0)


def test_limits_and_dtypes_of_erfcinv() -> None:
    y = np.array([0.0, 1.0, 2.0, -0.5, 2.5, np.nan], np.float32)
    for f in (erfcinv, gn.jit(erfcinv)):
        got = np.asarray(f(y))
        np.testing.assert_array_equal(got, np.array([np.inf, 0, -np.inf, *[np.nan] * 3], "f"))
    # Compiled, these may count as 0.
    subnormal = np.array([1e-323, 2e-320, 2e-310])
    exact = np.array([float(_exact_erfcinv(float(v))) for v in subnormal])
    with gn.enable_x64():
        assert_each_near(erfcinv(subnormal), exact, 2)
        # ndtri(p) is -sqrt(2) erfcinv(2 p).
        assert_each_near(ndtri(subnormal / 2), -math.sqrt(2) * exact, 4)
    assert erfcinv(gnp.array(0.5, "bfloat16")).dtype == gnp.bfloat16
    with pytest.raises(ValueError, match="complex"):
        erfcinv(1j)


# ------------------------------------------------------------------------------------------ random


METHODS: dict[str, Callable[..., Any]] = {
    "gamma": lambda r, k, **kw: r.gamma(k, A, **kw),
    "loggamma": lambda r, k, **kw: r.loggamma(k, A, **kw),
    "beta": lambda r, k, **kw: r.beta(k, A, np.float32(2), **kw),
    "chisquare": lambda r, k, **kw: r.chisquare(k, A, **kw),
    "poisson": lambda r, k, **kw: r.poisson(k, A, **kw),
}
A = np.exp(np.linspace(-5, 6, 1500)).astype(np.float32)


@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("name", METHODS)
def test_methods_of_random_numbers(name: str) -> None:
    draw, key = METHODS[name], random.key(3)
    default = draw(random, key)
    np.testing.assert_array_equal(draw(random, key, method="exact"), default)
    approximate = np.asarray(draw(random, key, method="approximate"))
    assert (approximate.shape, approximate.dtype) == (default.shape, default.dtype)
    jitted = gn.jit(lambda key: draw(random, key, method="approximate"))(key)
    assert_near(np.asarray(jitted), approximate, 64.0)
    # The means of many numbers for one parameter.
    a = {"poisson": 3.0, "chisquare": 6.0}.get(name, 3.0)
    args = (a, 2.0) if name == "beta" else (a,)
    many = [
        np.asarray(getattr(random, name)(key, *args, (20_000,), method=method), float)
        for method in ("exact", "approximate")
    ]
    error = 6 * many[0].std() / math.sqrt(many[0].size)
    assert abs(many[0].mean() - many[1].mean()) < error
    assert abs(many[0].std() / many[1].std() - 1) < 0.06
    with pytest.raises(ValueError, match="'exact' or 'approximate', got 'fast'"):
        draw(random, key, method="fast")


@beside_new_jax
@pytest.mark.parametrize("name", METHODS)
def test_methods_of_random_numbers_beside_jax(name: str) -> None:
    ours = METHODS[name](random, random.key(3), method="approximate")
    theirs = METHODS[name](jax.random, jax.random.key(3), method="approximate")
    if name == "poisson":
        # A number next to a step of the distribution function may fall on its other side.
        assert np.mean(np.asarray(ours) != np.asarray(theirs)) < 0.002
        return
    scale = 1.0 if name == "loggamma" else 0.0
    assert_each_near(np.asarray(ours), np.asarray(theirs), 256.0, scale)


def test_keys_in_annotations() -> None:
    def f(key: random.Key) -> gn.Array:
        return random.uniform(key)

    key = random.key(0)
    assert random.Key(key) is key
    assert 0 <= f(key) < 1


# --------------------------------------------------------------------- shardings, sizes, profiles


def test_out_sharding_of_functions_that_count() -> None:
    ids, P = gnp.array([0, 0, 1, 1]), gn.P
    with gn.set_mesh(gn.make_mesh((1,), ("x",))):
        encoded = gn.nn.one_hot(ids, 4, out_sharding=P("x"))
        assert str(gn.typeof(encoded)) == "float32[4@x,4]"
        for name in ("segment_sum", "segment_prod", "segment_max", "segment_min"):
            segments = getattr(gn.ops, name)

            def f(x: Any, segments: Any = segments) -> Any:
                return segments(x, ids, 2, out_sharding=P("x"))

            x = gnp.arange(4.0)
            for out in (f(x), gn.jit(f)(x)):
                assert str(gn.typeof(out)) == "float32[2@x]"
                np.testing.assert_array_equal(np.asarray(out), np.asarray(segments(x, ids)))
        counts, edges = gnp.histogram(gnp.arange(4.0), 2, out_sharding=P())
        assert (counts.tolist(), edges.tolist()) == ([2, 2], [0, 1.5, 3])
        with pytest.raises(ValueError, match="axis 'y'"):
            gnp.histogram(gnp.arange(4.0), 2, out_sharding=P("y"))


# What communicates over an axis `x`, given an array that it splits.
COMMUNICATING: dict[str, Callable[..., Any]] = {
    "sum": lambda m, x: m.numpy.sum(x, axis=0),
    "reshard": lambda m, x: m.reshard(x, m.P(None, None)),
    "moved": lambda m, x: m.reshard(x, m.P(None, "x")),
    "product": lambda m, x: m.numpy.einsum("ij,ik->jk", x, x, out_sharding=m.P(None, None)),
    "summed": lambda m, x: m.reshard(
        m.numpy.einsum("ij,ik->jk", x, x, out_sharding=m.P(None, None, unreduced={"x"})),
        m.P(None, None),
    ),
    "psum": lambda m, x: m.shard_map(
        lambda x: m.lax.psum(x, "x"), in_specs=m.P("x"), out_specs=m.P()
    )(x),
    "ppermute": lambda m, x: m.shard_map(
        lambda x: m.lax.ppermute(x, "x", [(0, 0)]), in_specs=m.P("x"), out_specs=m.P("x")
    )(x),
}
LOCAL: dict[str, Callable[..., Any]] = {
    "sum": lambda m, x: m.numpy.sum(m.numpy.sin(x), axis=1),
    "unreduced": lambda m, x: m.numpy.einsum(
        "ij,ik->jk", x, x, out_sharding=m.P(None, None, unreduced={"x"})
    ),
    "index": lambda m, x: m.shard_map(
        lambda x: x + m.lax.axis_index("x"), in_specs=m.P("x"), out_specs=m.P("x")
    )(x),
    "split": lambda m, x: m.reshard(m.numpy.ones(4), m.P("x")),
}


def _under_no_collectives(m: Any, f: Callable[..., Any], axes: set[str]) -> Any:
    with m.set_mesh(m.make_mesh((1, 1), ("x", "y"), (m.sharding.AxisType.Explicit,) * 2)):
        x = m.reshard(m.numpy.ones((4, 2)), m.P("x"))
        with m.sharding.no_collectives(axes):
            f(m, x)
            return m.jit(lambda x: f(m, x))(x)


MODULES = [gn, pytest.param(jax, marks=beside_new_jax)]


@pytest.mark.parametrize("module", MODULES, ids=["gnomon", "jax"])
@pytest.mark.parametrize("name", COMMUNICATING)
def test_collectives_can_be_forbidden(name: str, module: Any) -> None:
    f = COMMUNICATING[name]
    _under_no_collectives(module, f, {"y"})
    with pytest.raises(Exception, match="no_collectives") as raised:
        _under_no_collectives(module, f, {"x"})
    assert type(raised.value).__name__ == "ForbiddenCollectiveError"


@pytest.mark.parametrize("module", MODULES, ids=["gnomon", "jax"])
@pytest.mark.parametrize("name", LOCAL)
def test_what_does_not_communicate_is_not_forbidden(name: str, module: Any) -> None:
    _under_no_collectives(module, LOCAL[name], {"x", "y"})


def test_forbidden_axes_are_a_set() -> None:
    with pytest.raises(TypeError, match="a set of axis names, got 'x'"):
        gn.sharding.no_collectives("x").__enter__()


def test_a_traced_program_is_not_reused_where_collectives_are_forbidden() -> None:
    f = gn.jit(gn.vmap(lambda x: lax.psum(x, "i"), axis_name="i"))
    assert f(gnp.ones(3)).tolist() == [3, 3, 3]
    with gn.sharding.no_collectives({"i"}), pytest.raises(gn.errors.ForbiddenCollectiveError):
        f(gnp.ones(3))


def test_bounds_of_symbolic_dimensions() -> None:
    def bounds(text: str, *constraints: str) -> Any:
        (size,) = export.symbolic_shape(text, constraints=constraints)
        return export.symbolic_dim_bounds(size)

    largest = 2**31 - 1
    assert bounds("b") == (1, largest)
    assert bounds("2*b + 3", "b <= 9") == (5, 21)
    assert bounds("mod(b, 5)") == (0, 4)
    assert bounds("floordiv(b, 2)", "b >= 5", "b <= 8") == (2, 4)
    assert bounds("max(b, 7)", "b <= 9") == (7, 9)
    assert export.symbolic_dim_bounds(np.int32(3)) == (3, 3)
    for wrong in (1.5, "b", None):
        with pytest.raises(TypeError, match="symbolic dimension"):
            export.symbolic_dim_bounds(wrong)


def _annotated() -> None:
    with profiler.TraceAnnotation("part"):
        gnp.sin(gnp.ones(3))


def _events(data: profiler.ProfileData) -> list[str]:
    plane = data.find_plane_with_name("/host:CPU")
    assert plane is not None
    return [event.name for line in plane.lines for event in line.events]


def test_profile_sessions_are_kept_in_memory_and_written_later(tmp_path: Path) -> None:
    session = profiler.ProfileSession()
    assert not session.is_running
    with pytest.raises(RuntimeError, match="has not run"):
        session.export_profile_data(tmp_path)
    with session as running:
        assert running is session
        assert session.is_running
        _annotated()
        with pytest.raises(RuntimeError, match="already been started"):
            profiler.ProfileSession().start()
        with pytest.raises(RuntimeError, match="while it is running"):
            profiler.export_profile_data(session, tmp_path)
    data = session.profile_data
    assert data is not None
    assert _events(data) == ["part"]
    assert isinstance(data.planes[0].lines[0], profiler.ProfileLine)
    with pytest.raises(RuntimeError, match="No profile started"):
        session.stop()

    session.export_profile_data(tmp_path, create_perfetto_trace=True, session_id="one")
    folder = tmp_path / "plugins" / "profile" / "one"
    (planes,) = folder.glob("*.xplane.pb")
    assert len(list(folder.iterdir())) == 3
    read = profiler.ProfileData.from_file(str(planes))
    assert _events(read) == ["part"]
    profiler.export_profile_data(read, tmp_path / "again", session_id="two")
    assert len(list((tmp_path / "again" / "plugins" / "profile" / "two").iterdir())) == 1
    with pytest.raises(ValueError, match="no timeline"):
        profiler.export_profile_data(read, tmp_path, create_perfetto_trace=True)
    with pytest.raises(TypeError, match="int"):
        profiler.export_profile_data(3, tmp_path)


def test_traces_give_their_session_and_data(tmp_path: Path) -> None:
    started = profiler.start_trace(tmp_path)
    _annotated()
    assert profiler.stop_trace() is started.profile_data
    with profiler.trace() as session:
        _annotated()
        session.stop()
    assert session.profile_data is not None
    assert _events(session.profile_data) == ["part"]
