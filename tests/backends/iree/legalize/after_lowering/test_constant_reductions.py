"""Reductions of values that the compiler may fold to one number, in every form.

IREE combines such a number once for each vector instead of once for each element. The table is
producers of such values, reductions, lengths around multiples of vectors' widths, dtypes, and
levels of processors: compiled programs against the evaluator.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
import gnomon.scipy.stats
from gnomon import lax, nn
from gnomon.backends.errors import BackendUnavailable
from tests.backends.iree.programs import executable, spec
from tests.tolerance import assert_near

LENGTHS = (1, 3, 5, 7, 9, 15, 17, 31, 33, 63, 65, 100, 255, 1000)
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int32", "uint8", "int64", "int8", "uint32", "int16", "uint16", "uint64")
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")

# Each makes an array like `x` with equal elements in a different way; `s` is a number of its dtype.
PRODUCERS: dict[str, Callable[[Any, Any], Any]] = {
    "negated": lambda x, s: -(gnp.ones_like(x) - gnp.full_like(x, 3)),
    "chosen": lambda x, s: gnp.where((x > 5) | True, gnp.ones_like(x) + 1, x),
    "compared ones": lambda x, s: (gnp.ones_like(x) > 0).astype(x.dtype) + 1,
    "argument": lambda x, s: gnp.broadcast_to(s, x.shape) + 0,
    "ramp": lambda x, s: 2 + gnp.arange(x.size).reshape(x.shape).astype(x.dtype) * 0,
    "unit ramp": lambda x, s: gnp.broadcast_to(gnp.arange(1).astype(x.dtype) + 2, x.shape),
    # Numbers are small, because a product of larger ones may overflow in another order.
    "difference from ramp": lambda x, s: s * gnp.ones_like(x) - gnp.arange(x.size).astype(bool),
    "power": lambda x, s: x**0 + gnp.ones_like(x),
    "loop": lambda x, s: lax.fori_loop(0, 2, lambda i, c: -c, 2 * gnp.ones_like(x)),
    "barrier": lambda x, s: lax.optimization_barrier(gnp.ones_like(x)) + 1,
    "padded": lambda x, s: gnp.pad(gnp.ones(0, x.dtype), (0, x.size), constant_values=2),
}
OF_INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "bits": lambda x, s: (x & 0) | 2,
    "in range": lambda x, s: (x >= np.iinfo(x.dtype).min).astype(x.dtype) * 2,
    "no difference": lambda x, s: x - x + 2,
    "quotient of ramp": lambda x, s: gnp.arange(x.size, dtype=x.dtype) // 1001 + 2,
    "not nan": lambda x, s: gnp.isnan(x).astype(x.dtype) + 2,
}
OF_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "times zero": lambda x, s: x * 0 + 2,
    "of integers": lambda x, s: ((x.astype("int32") & 0) | 2).astype(x.dtype),
    "compared to nan": lambda x, s: gnp.where(x < gnp.nan, 3, gnp.full_like(x, 2)),
}


def _rows(reduce: Callable[..., Any]) -> Callable[[Any], Any]:
    def rows(v: Any) -> Any:
        wide = gnp.broadcast_to(v, (3, v.size))
        return reduce(wide, axis=0), reduce(wide, axis=1), reduce(wide.T, axis=0), reduce(wide)

    return rows


def _total(v: Any) -> Any:
    return gnp.sum(v, dtype=v.dtype)


def _pairs(v: Any) -> Any:
    zero = gnp.zeros((), v.dtype)
    return lax.reduce((v, -v), (zero, zero), lambda a, b: (a[0] + b[0], a[1] + b[1]), (0,))


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": gnp.sum,
    "prod": lambda v: gnp.prod(v - 1),
    "max": gnp.max,
    "argmin": gnp.argmin,
    "sums of rows": _rows(gnp.sum),
    "mean": gnp.mean,
    "count": gnp.count_nonzero,
    "any": lambda v: (gnp.any(v > 1), gnp.all(v > 1), gnp.sum(v > 1)),
    "cumsum": gnp.cumsum,
    "window": lambda v: lax.reduce_window(
        v, gnp.zeros((), v.dtype), lax.add, (min(3, v.size),), (1,), "VALID"
    ),
    "dot": lambda v: v @ (v - 1),
    "product": lambda v: gnp.ones((3, v.size), v.dtype) @ gnp.broadcast_to(v, (4, v.size)).T,
    "trace": lambda v: gnp.trace(gnp.broadcast_to(v[:40], (v[:40].size, v[:40].size))),
    "pairs": _pairs,
    "in a loop": lambda v: lax.fori_loop(0, 3, lambda i, c: c + _total(v + 0 * c), v[0]),
    "in an open loop": lambda v: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + _total(v)), (0, v[0])
    )[1],
    "in a branch": lambda v: lax.cond(gnp.sum(v[:1]) > 1, lambda: _total(v), lambda: _total(-v)),
    "under scan": lambda v: lax.scan(lambda c, e: (c + _total(v), e), _total(v), v)[0],
}
OF_REALS: dict[str, Callable[[Any], Any]] = {
    "var": gnp.var,
    "nanmean": gnp.nanmean,
    "logsumexp": nn.logsumexp,
    "norm": gnp.linalg.norm,
    "softmax": nn.softmax,
}
OF_WHOLE_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "xor": lambda v: lax.reduce_xor(v, (0,)),
    "or": lambda v: (lax.reduce_or(v, (0,)), lax.reduce_and(v, (0,))),
}


def _table(dtype: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if dtype in FLOATS:
        return {**PRODUCERS, **OF_FLOATS}, {**REDUCTIONS, **OF_REALS}
    return {**PRODUCERS, **OF_INTEGERS}, {**REDUCTIONS, **OF_WHOLE_NUMBERS}


def _check(dtype: str, n: int, pairs: list[tuple[str, str]], target: str | None = None) -> None:
    """Compare combinations of producers and reductions, many in one program, with the evaluator."""
    producers, reductions = _table(dtype)
    with gn.enable_x64(True):
        x, s = gnp.asarray(np.arange(n) % 7, dtype), gnp.asarray(2, dtype)

        def program(x: Any, s: Any) -> dict[str, Any]:
            return {f"{p}, {r}": reductions[r](producers[p](x, s)) for p, r in pairs}

        with np.errstate(all="ignore"):
            expected = program(x, s)
        compiled: Any = gn.jit(program)
        if target is not None:
            compiled = compiled.lower(x, s).compile(target=target)
        try:
            found = compiled(x, s)
        except BackendUnavailable:
            pytest.skip("this processor is another one")
        for name, values in expected.items():
            for got, value in zip(gn.tree.leaves(found[name]), gn.tree.leaves(values), strict=True):
                assert got.dtype == value.dtype and got.shape == value.shape, name
                scale = max(1.0, float(np.abs(np.asarray(value, np.float64)).max(initial=0)))
                # Each addition is off by half a unit at most.
                units = 8 + n / 2
                assert_near(got, value, units, scale=scale, message=f"{name} of {n} {dtype}")


def _pairs_of(dtype: str, start: int = 0, step: int = 1) -> list[tuple[str, str]]:
    return list(itertools.product(*_table(dtype)))[start::step]


@pytest.mark.sampled(0.6)
@pytest.mark.parametrize(("dtype", "n"), [("float32", 10), ("int32", 33), ("uint8", 5)])
def test_sums_and_products(dtype: str, n: int) -> None:
    producers, _ = _table(dtype)
    _check(dtype, n, [(p, r) for p in producers for r in ("sum", "prod")])


@pytest.mark.sampled(0.6)
@pytest.mark.parametrize("target", LEVELS)
def test_levels_of_processors(target: str) -> None:
    _check("float32", 17, [("negated", "sums of rows"), ("chosen", "pairs")], target)


def test_every_reduction() -> None:
    _check("float32", 9, [("negated", r) for r in _table("float32")[1]])


@pytest.mark.slow
@pytest.mark.sampled(0.1)
@pytest.mark.parametrize(
    ("dtype", "n", "part"),
    [
        # Each length with a float and an integer, each dtype with several lengths.
        (dtypes[i % len(dtypes)], n, part)
        for dtypes in (FLOATS, INTEGERS)
        for i, n in enumerate(LENGTHS)
        for part in range(4)
    ],
)
def test_the_whole_table(dtype: str, n: int, part: int) -> None:
    _check(dtype, n, _pairs_of(dtype, part, 4))


@pytest.mark.slow
@pytest.mark.sampled(0.15)
@pytest.mark.parametrize("n", [7, 33, 100])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("target", LEVELS)
def test_the_table_on_levels_of_processors(target: str, dtype: str, n: int) -> None:
    # Every part has the first of several reductions, and one of the others in turn.
    producers, reductions = _table(dtype)
    others = itertools.cycle(r for r in reductions if r != "sum")
    _check(dtype, n, [(p, r) for p in producers for r in ("sum", next(others))], target)


BOOLS = np.array([[1, 0, 1, 1], [0, 1, 0, 0]], bool)
WHOLE = np.arange(10, dtype=np.int32)
REAL = np.linspace(-1, 1, 9, dtype=np.float32)
PUBLIC: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sum of bools": (lambda: gnp.sum(gnp.ones(1000, bool)), ()),
    "count_nonzero": (lambda: gnp.count_nonzero(gnp.ones(100)), ()),
    "trace of bools": (lambda: gnp.trace(gnp.ones((9, 9), bool)), ()),
    "gradient": (gn.grad(lambda b: gnp.sum(gnp.arange(10.0) - b)), (1.0,)),
    "hessian": (gn.hessian(lambda m: gnp.sum(-0.5 * (gnp.arange(10.0) - m) ** 2)), (1.0,)),
    "likelihood": (
        gn.grad(lambda s: gnp.sum(-0.5 * (gnp.arange(10.0) / s) ** 2 - gnp.log(s))),
        (2.0,),
    ),
    "mean where": (lambda x: gnp.mean(x, where=gnp.ones(10, bool)), (WHOLE,)),
    "mean where all": (lambda x: gnp.mean(x, where=(x > 5) | True), (REAL,)),
    "nanmean of whole numbers": (gnp.nanmean, (WHOLE,)),
    "nanmean of bools": (lambda x: gnp.nanmean(x, axis=1), (BOOLS,)),
    "nanvar of bools": (lambda x: gnp.nanvar(x, axis=1), (BOOLS,)),
    "nanstd of bools": (lambda x: gnp.nanstd(x, axis=1), (BOOLS,)),
    "of no nan": (lambda x: gnp.sum(~gnp.isnan(x)), (WHOLE,)),
    "of unsigned": (lambda x: gnp.sum(x >= 0), (WHOLE.astype(np.uint8),)),
    "prod": (lambda x: gnp.prod(gnp.where((x > 5) | True, 2.0, 3.0)), (REAL,)),
    "gaussian_kde": (lambda d: gnomon.scipy.stats.gaussian_kde(d)(d[:5]), (REAL,)),
    "logmeanexp": (lambda x: (nn.logmeanexp(x), nn.logmeanexp(0 * x)), (REAL,)),
}


def test_public_functions() -> None:
    arguments = {name: a for name, (_, a) in PUBLIC.items()}
    expected = {name: f(*a) for name, (f, a) in PUBLIC.items()}
    found = gn.jit(lambda a: {name: f(*a[name]) for name, (f, _) in PUBLIC.items()})(arguments)
    for name, value in expected.items():
        assert_near(found[name], value, 32, message=name)


def _is_guarded(f: Callable[..., Any], *args: Any) -> bool:
    return "optimization_barrier" in gn.jit(f).lower(*args).as_text("stablehlo")


def test_varying_values_are_reduced_without_a_cast() -> None:
    x, k = np.ones((4, 9), np.float32), np.ones(9, np.int32)

    def loss(w: Any, x: Any) -> Any:
        return gnp.mean((gnp.tanh(x @ w) - x[:, 0]) ** 2)

    for f, args in (
        (gnp.sum, (x,)),
        (gnp.sum, (k,)),
        (lambda k: gnp.sum(k + 1) + gnp.sum(k[::-1]), (k,)),
        (gnp.mean, (x,)),
        (gnp.var, (x,)),
        (gnp.linalg.norm, (x,)),
        (nn.softmax, (x,)),
        (lambda x: gnp.sum(gnp.exp(x) * 0.0 - 1.0, axis=1), (x,)),
        (loss, (x[0], x)),
        (gn.grad(loss), (x[0], x)),
        (lambda x: gnp.count_nonzero(x > 0) + gnp.sum(gnp.isnan(x)), (x,)),
        (lambda x: gnp.sum(gnp.where(x > 0, x, 0.0)) + gnp.sum(gnp.where(x > 0, 2.0, 1.0)), (x,)),
        (lambda x: gnp.sum(nn.relu(x)) + gnp.mean(gnp.clip(x, -1, 1)), (x,)),
        (lambda x, k: gnp.mean(gnp.argmax(x, axis=0) == k), (x, k)),
        (lambda j, k: gnp.sum(k == 3) + gnp.sum(j * k) + gnp.sum(j != k), (k, k)),
        (lambda m, k: gnp.sum(gnp.where(m, k, 0)) + gnp.sum(m) + gnp.sum(~m), (k > 0, k)),
        (gnp.nanmean, (x,)),
        (lambda x: gnp.sum(gnp.where(x[0] > 0, gnp.arange(9), 9)), (x,)),
        (lambda x: gnp.sum((x > 0) & (x < 2)), (x,)),
        # The zero imaginary parts are a literal, and so is their sum.
        (lambda x: gnp.sum(gnp.imag(x.astype(complex)) + 1), (x,)),
    ):
        assert not _is_guarded(f, *args)
    for f, args in (
        (lambda: gnp.sum(-gnp.ones((9, 7)), axis=1), ()),
        (lambda x: gnp.sum(gnp.full(9, x[0, 0] < gnp.nan)), (x,)),
        (lambda k: gnp.sum((k & 0) | 3), (k,)),
        (lambda k: gnp.sum(k - k), (k,)),
        (lambda x: gnp.sum(x**0), (x,)),
        (lambda k: gnp.sum(k >= 0), (k.astype(np.uint8),)),
        (lambda k: gnp.sum(k.astype(np.float32) > -1), (k.astype(np.uint8),)),
        (lambda k: gnp.sum(gnp.where(k == 2, k, 2)), (k,)),
        (lambda x: gnp.sum(gnp.where(x[0] > 0, gnp.arange(9), 8)), (x,)),
        (lambda k: gnp.sum((k > 1) | (k <= 1)), (k,)),
    ):
        assert _is_guarded(f, *args)


UPSTREAM = Path(__file__).parents[5] / "docs" / "upstream" / "reductions_of_constants.md"


def test_the_compiler_still_needs_it() -> None:
    """If this fails, the compiler has been fixed, and the guard can be removed."""
    (text,) = re.findall(r"```mlir\n(.*?)```", UPSTREAM.read_text(), re.DOTALL)
    body = text.strip().removeprefix("func.func @main() -> tensor<f32> {").removesuffix("}")
    (result,) = executable(body, (), (spec((), np.float32),))([])
    assert float(result.to_numpy()) != -10


def _expression(rng: np.random.Generator, leaves: list[Any], depth: int) -> Any:
    """A random expression of integers and selects, with many parts that simplify to constants."""
    if depth == 0 or rng.random() < 0.1:
        return leaves[rng.integers(len(leaves))]
    a, b = (_expression(rng, leaves, depth - 1) for _ in range(2))
    small = int(rng.choice([0, 1, 2, 3, 127]))
    forms: list[Callable[[], Any]] = [
        lambda: a + b,
        lambda: a - b,
        lambda: a - a + b,
        lambda: a * small,
        lambda: a * b,
        lambda: a & b,
        lambda: (a & small) | (b & 0),
        lambda: a ^ b,
        lambda: -a,
        lambda: gnp.maximum(a, b),
        lambda: gnp.minimum(a, small),
        lambda: gnp.where(a == small, a, small),
        lambda: gnp.where(a < b, a, b),
        lambda: gnp.where((a > small) | (a <= small), b, a),
        lambda: gnp.where(a == b, 2, 3).astype(a.dtype),
        lambda: (a >= np.iinfo(a.dtype).min).astype(a.dtype),
        lambda: a.astype("uint8").astype(a.dtype),
        lambda: (a.astype("uint8").astype("int32") > -1).astype(a.dtype),
        lambda: (a.astype("float32") * small > -0.5).astype(a.dtype),
        lambda: gnp.clip(a, 0, small),
        lambda: gnp.sign(a) * gnp.sign(b),
        lambda: a[::-1],
        lambda: gnp.broadcast_to(a[:1], a.shape),
        lambda: gnp.isfinite(a.astype("float32")).astype(a.dtype) + b,
        lambda: (gnp.abs(a.astype("float32")) * 2).astype(a.dtype),
        lambda: gnp.round(gnp.maximum(a.astype("float32"), small)).astype("int32").astype(a.dtype),
    ]
    return forms[rng.integers(len(forms))]()


@pytest.mark.parametrize(
    "seed",
    [
        0,
        *(
            pytest.param(i, marks=[pytest.mark.slow, pytest.mark.sampled(0.4)])
            for i in range(1, 25)
        ),
    ],
)
def test_random_expressions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.choice([3, 9, 17, 33, 100]))
    dtype = str(rng.choice(["int32", "uint8", "int16", "uint32", "int8"]))
    x, y = (rng.integers(0, 9, n).astype(dtype) for _ in range(2))
    seeds = rng.integers(1 << 30, size=12)

    def program(x: Any, y: Any) -> Any:
        leaves = [x, y, gnp.ones_like(x), gnp.arange(n).astype(dtype), gnp.full_like(x, 3)]
        values = [_expression(np.random.default_rng(s), leaves, 3) for s in seeds]
        return [(gnp.sum(v), gnp.prod(v | 1), lax.reduce_xor(v, (0,))) for v in values]

    with np.errstate(all="ignore"):
        expected = program(gnp.asarray(x), gnp.asarray(y))
    found = gn.jit(program)(x, y)
    for i, (got, values) in enumerate(zip(found, expected, strict=True)):
        for a, b in zip(got, values, strict=True):
            assert np.asarray(a) == np.asarray(b), f"expression {i} of {dtype}[{n}]"
