"""Programs of `numpy`, `nn`, `lax` and `scipy` that must behave as in JAX."""

from __future__ import annotations

import collections.abc
import pickle
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import gnomon as gn
import gnomon.nn as gnn
import gnomon.numpy as gnp
from tests.frontend.beside_jax import Program, check_program, check_programs
from tests.newest_jax import IS_NEWEST
from tests.sample import HALVES, half_of
from tests.tolerance import assert_each_near

NAN, INF = float("nan"), float("inf")
MASKED = np.ma.masked_array([1, 2], [False, True])
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def _border(row: Any, width: tuple[int, int], axis: int, _: Any) -> Any:
    return row.at[: width[0]].set(axis + 5)


def _in_all(name: str, *arguments: Any, **options: Any) -> Program:
    """All functions of a distribution at the same arguments."""
    functions = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf")
    return lambda ns: [
        getattr(getattr(ns.stats, name), f)(*arguments, **options) for f in functions
    ]


def _second(function: str, *arguments: float) -> Program:
    def program(ns: Any) -> Any:
        both = ns.api.jacfwd(ns.api.jacfwd(getattr(ns.lax, function), (0, 1)), (0, 1))
        return both(*arguments)

    return program


ENDS = np.array([0.0, 0.5, 1.0], np.float32)

CASES: dict[str, Program] = {
    "pad by a function, rank 3": lambda ns: ns.np.pad(CUBE, 1, _border),
    "pad by a function, rank 4": lambda ns: ns.np.pad(CUBE[..., None], (1, 2), _border),
    "apply_along_axis": lambda ns: [
        ns.np.apply_along_axis(lambda v: v[:2].sum() * v[:1], axis, CUBE) for axis in range(3)
    ],
    "softplus at nan": lambda ns: ns.api.grad(ns.nn.softplus)(NAN),
    "logaddexp at nan": lambda ns: [
        ns.api.grad(f, (0, 1))(*at)
        for f in (ns.np.logaddexp, ns.np.logaddexp2)
        for at in ((NAN, 0.0), (0.0, NAN), (NAN, NAN), (INF, -INF), (1.0, 1.0))
    ],
    "logaddexp, infinite tangents": lambda ns: [
        ns.api.jvp(f, at, tangents)
        for f in (ns.np.logaddexp, ns.np.logaddexp2)
        for at in ((0.0, 0.0), (1.0, -1.0), (-1.0, 1.0), (0.0, -INF))
        for tangents in ((INF, 0.0), (INF, 1.0), (INF, INF), (-INF, INF))
    ],
    "softplus, infinite tangents": lambda ns: [
        ns.api.jvp(ns.nn.softplus, (x,), (t,)) for x in (0.0, -1.0, 1000.0) for t in (INF, -INF)
    ],
    "logaddexp values": lambda ns: ns.np.logaddexp(
        np.float32([INF, -INF, INF, NAN, NAN, 1]), np.float32([INF, -INF, -INF, INF, 0, 1])
    ),
    "signbit of Python numbers": lambda ns: [ns.np.signbit(v) for v in (1, -1.5, True)],
    "igamma and igammac by a at 0": lambda ns: [
        ns.api.grad(f)(0.0, x) for f in (ns.lax.igamma, ns.lax.igammac) for x in (0.0, 0.5, 2.0)
    ],
    "square of large complex numbers": lambda ns: [
        square(np.array([2e20 + 1e20j, 2e38 + 2e38j, 2e38 - 2e38j, complex(INF, 1), 3e38], "F"))
        for square in (ns.lax.square, ns.np.square, ns.api.jit(ns.lax.square))
    ],
    "pow twice at exponent 0": _second("pow", 4.0, 0.0),
    "pow twice at base and exponent": _second("pow", 2.5, 1.5),
    "truncnorm without an interval": _in_all("truncnorm", ENDS, 2.0, 1.0),
    "truncnorm of one point": _in_all("truncnorm", ENDS, 1.0, 1.0),
    "truncnorm": _in_all("truncnorm", ENDS, -1.0, 1.0),
    "beta without a": lambda ns: ns.stats.beta.logpdf(ENDS, 0.0, 1.0),
    "beta of negative a, b": lambda ns: ns.stats.beta.pdf(ENDS, -1.1, -1.1),
    "r_ and c_ by letters": lambda ns: [
        joined[letter, [1, 2, 3], [4, 5, 6]] for joined in (ns.np.r_, ns.np.c_) for letter in "rc"
    ],
    "r_ by letters, matrices": lambda ns: ns.np.r_["c", np.ones((2, 2)), np.zeros((1, 2))],
}

CASES |= {
    "einsum of sizes one": lambda ns: [
        ns.np.einsum(subscripts, *(np.ones(shape, np.float32) for shape in shapes))
        for subscripts, *shapes in (
            ("ij,jk->ik", (3, 1), (4, 2)),
            ("bij,bjk->bik", (1, 2, 3), (3, 3, 2)),
            ("ijk,ijlk->ijl", (2, 4, 3), (2, 1, 5, 3)),
            ("ij,ij->", (3, 1), (3, 4)),
            ("ij,ij->ij", (3, 1), (1, 4)),
            ("ij,jk,kl->il", (3, 1), (4, 2), (1, 5)),
            ("...ij,...jk->...ik", (1, 3, 4), (5, 4, 2)),
            ("aij,aij->a", (1, 3, 1), (5, 1, 2)),
            ("ij,j->i", (1, 1), (1,)),
        )
    ],
    "einsum of other sizes": lambda ns: ns.np.einsum("ij,jk", np.ones((3, 2)), np.ones((4, 2))),
    "reduceat of traced indices": lambda ns: [
        ns.api.jit(f.reduceat)(ns.np.arange(6.0), np.array(indices))
        for f in (
            ns.np.add,
            ns.np.multiply,
            ns.np.subtract,
            ns.np.frompyfunc(lambda a, b: a * 2 + b, 2, 1),
        )
        for indices in ([0, 2, 4], [3, 1, 4])
    ],
    "reduceat of traced indices, axis": lambda ns: ns.api.jit(
        lambda x, i: ns.np.maximum.reduceat(x, i, axis=1)
    )(CUBE, np.array([0, 2])),
    "vectorize, results with dimensions": lambda ns: [
        ns.np.vectorize(lambda x: x + ns.np.linspace(-1.0, 1.0, 5))(ns.np.ones(3)),
        ns.np.vectorize(lambda x, y: (x + ns.np.ones((2, 1)), y))(CUBE[0], CUBE[:, :1]),
    ],
    "vectorize of None": lambda ns: ns.np.vectorize(lambda x, y: x, signature="(k),(k)->(k)")(
        ns.np.ones(3), None
    ),
    "average by weights of several axes": lambda ns: [
        ns.np.average(CUBE, (0, 1), np.arange(6.0).reshape(2, 3), returned=True),
        ns.np.average(CUBE, (1, 0), np.arange(6.0).reshape(3, 2), keepdims=True),
        ns.np.average(CUBE, (0, -1), np.ones((2, 4))),
    ],
    "average by weights of another shape": lambda ns: ns.np.average(CUBE, (0, 2), np.ones((2, 3))),
    "average by weights without an axis": lambda ns: ns.np.average(CUBE, None, np.ones((2, 3))),
    "roll by arrays": lambda ns: [
        ns.np.roll(CUBE, np.array(2)),
        ns.np.roll(CUBE, np.array([1, 2]), np.array([0, 1])),
        ns.np.roll(CUBE, np.array([1, 2]), 1),
        ns.np.roll(CUBE, ns.np.array(1), (0, 2)),
        ns.api.jit(lambda x, s: ns.np.roll(x, s, (0, 2)))(CUBE, np.array([1, 2])),
    ],
    "size along axes": lambda ns: [ns.np.size(CUBE, axis) for axis in ((0, 2), -1, ())],
    "size along an axis twice": lambda ns: ns.np.size(CUBE, (0, 0)),
    "size along no axis": lambda ns: ns.np.size(CUBE, 3),
    "shapes of lists": lambda ns: [f([1, 2, 3]) for f in (ns.np.shape, ns.np.ndim, ns.np.size)],
    # JAX takes further arguments only by name since 0.12.
    "arguments of array by position": lambda ns: (
        ns.np.array([1], np.float32, copy=True, order="K", ndmin=2)
        if IS_NEWEST
        else ns.np.array([1], np.float32, True, "K", 2)
    ),
    "slices without an end": lambda ns: [
        ns.np.mgrid[:],
        ns.np.ogrid[:],
        ns.np.r_[:],
        ns.np.mgrid[:, :2],
        ns.np.ogrid[:, :2],
        ns.np.r_[2:],
    ],
    "eye far off": lambda ns: [ns.np.eye(2, k=k) for k in (-(2**40), 2**40)],
    "complex nan as an integer": lambda ns: ns.lax.convert_element_type(complex(NAN, 0), np.int32),
    "complex number as an integer": lambda ns: ns.lax.convert_element_type(3 + 1j, np.int32),
    "array of a masked array": lambda ns: ns.np.array(MASKED),
    "array of a list of masked arrays": lambda ns: ns.np.array([MASKED, MASKED]),
    **{
        f"masked array: {name}": program
        for name, program in {
            "asarray": lambda ns: ns.np.asarray(MASKED),
            "jit": lambda ns: ns.api.jit(lambda x: x)(MASKED),
            "add": lambda ns: ns.np.add(MASKED, 1),
            "operator": lambda ns: ns.np.ones(2) + MASKED,
            "index": lambda ns: ns.np.ones(2)[MASKED],
            "device_put": lambda ns: ns.api.device_put(MASKED),
            "update": lambda ns: ns.np.ones(2).at[:].set(MASKED),
            "lax": lambda ns: ns.lax.add(MASKED, np.array([1, 2])),
            "vmap": lambda ns: ns.api.vmap(lambda x: x)(MASKED),
            "grad": lambda ns: ns.api.grad(lambda x: x.sum())(MASKED.astype(np.float32)),
            "scan": lambda ns: ns.lax.scan(lambda c, x: (c, x), 0, MASKED),
        }.items()
    },
}


class Unit(NamedTuple):
    """A tuple with its own multiplication by arrays."""

    scale: int

    def __rmul__(self, other: Any) -> str:
        return f"times {self.scale}"


class Row(list):  # type: ignore[type-arg]
    def __radd__(self, other: Any) -> str:
        return "a row"


CASES |= {
    "operators of containers": lambda ns: [ns.np.ones(2) * Unit(3), ns.np.ones(2) + Row([1])],
    "operators that a container lacks": lambda ns: ns.np.ones(2) - Row([1]),
    "operators of lists": lambda ns: ns.np.ones(2) * [1, 2],
}


def _checked(infinite: bool, function: Program) -> Program:
    """A program under `debug_infs` or `debug_nans` that returns whether all results are finite."""

    def program(ns: Any) -> Any:
        with (ns.api.debug_infs if infinite else ns.api.debug_nans)(True):
            return [bool(np.isfinite(np.asarray(x)).all()) for x in function(ns)]

    return program


# Calls whose results have no nan (and no infinity), but whose intermediate values have.
FINITE: dict[str, Program] = {
    "where": lambda ns: [ns.np.where(ns.np.ones(3) > 0, ns.np.ones(3), ns.np.nan)],
    "special functions": lambda ns: [
        ns.special.expi(1.0),
        ns.special.exp1(1.0),
        ns.special.spence(0.5),
        ns.special.hyp1f1(1.0, 2.0, 0.3),
        ns.special.poch(1.0, 2.0),
        ns.special.ndtri(0.5),
    ],
    "at singular points": lambda ns: [ns.np.sinc(0.0), ns.np.linalg.norm(ns.np.zeros(3))],
    "gradients": lambda ns: [
        ns.api.grad(ns.special.ndtri)(0.5),
        ns.api.grad(ns.special.logsumexp)(np.ones(3, np.float32)),
        ns.api.grad(lambda x: ns.np.where(x > 0, x, ns.np.nan))(1.0),
    ],
}
# Calls whose results are nan or infinite.
INVALID: dict[str, Program] = {
    "log": lambda ns: [ns.np.log(-1.0)],
    "log of lax": lambda ns: [ns.lax.log(np.float32(-1.0)) * 0],
    "nan at the start": lambda ns: [ns.np.full(3, NAN)],
    "array of nan": lambda ns: [ns.np.array(NAN)],
    "power": lambda ns: [ns.np.array([-1.0, 1.0]) ** 0.5],
    "sum": lambda ns: [ns.np.sum(ns.np.log(np.float32([-1.0, 1.0])))],
    "update": lambda ns: [ns.np.zeros(2).at[0].set(NAN)],
    "gradient": lambda ns: [ns.api.grad(ns.np.sqrt)(-1.0)],
    "vmap": lambda ns: [ns.api.vmap(ns.np.log)(np.float32([-1.0, 1.0]))],
    "softmax": lambda ns: [ns.nn.softmax(np.float32([-INF, -INF]))],
}
CASES |= {
    f"{'debug_infs' if infinite else 'debug_nans'}, {name}": _checked(infinite, program)
    for infinite, programs in ((False, FINITE | INVALID), (True, {"where": FINITE["where"]}))
    for name, program in programs.items()
}
CASES |= {
    "debug_infs, ndtri": _checked(True, lambda ns: [ns.special.ndtri(0.5)]),
    "debug_infs, quotient": _checked(True, lambda ns: [ns.np.ones(1) / 0.0]),
    "image of complex numbers, strict": lambda ns: _strictly(
        ns,
        lambda: ns.image.scale_and_translate(
            np.ones((3, 3), np.complex64), (4, 4), (0, 1), np.ones(2), np.zeros(2), "linear"
        ),
    ),
    "logsumexp of complex numbers, strict": lambda ns: _strictly(
        ns,
        lambda: [
            ns.special.logsumexp(np.ones(3, np.complex64), return_sign=sign)
            for sign in (False, True)
        ],
    ),
    "slopes of a variance that is not defined": lambda ns: [
        ns.api.jvp(partial(ns.np.var, ddof=ddof), (ns.np.arange(2.0),), (ns.np.ones(2),))
        for ddof in (1, 2, 3)
    ],
    "zeta by its exponent": lambda ns: [
        ns.api.grad(ns.special.zeta)(2.0, 1.0),
        ns.api.vmap(ns.api.grad(ns.special.zeta))(
            np.float32([1.5, 3.0, 8.0]), np.float32([0.3, 2.5, 10.0])
        ),
        ns.api.jit(ns.api.grad(ns.special.zeta))(3.0, 2.5),
    ],
    "resize by PyTorch's cubic": lambda ns: [
        ns.image.resize(CUBE, shape, "bicubic-pytorch", antialias)
        for shape in ((2, 6, 9), (2, 2, 3))
        for antialias in (True, False)
    ],
    "resize to a broken size": lambda ns: ns.image.resize(CUBE, (2, 3.5, 4), "linear"),
}

CASES |= {
    "names": lambda ns: [getattr(ns.np, name).__name__ for name in ALIASES],
    "keys compared": lambda ns: [
        f(ns.random.key(0), ns.random.key(0)) for f in (ns.np.isclose, ns.np.allclose)
    ],
    "keys and numbers": lambda ns: ns.np.add(ns.random.key(0), 1),
    "a negative key": lambda ns: -ns.random.key(0),
    "a sum of keys": lambda ns: ns.random.key(0) + ns.random.key(0),
    "a key as a number": lambda ns: ns.lax.convert_element_type(ns.random.key(0), int),
    "shapes, negative": lambda ns: ns.lax.broadcast_shapes((-1,)),
    "shapes, a text": lambda ns: ns.lax.broadcast_shapes("hello"),
    "shapes, broken": lambda ns: ns.lax.broadcast_shapes((1.5,)),
    "top_k of too many": lambda ns: ns.api.eval_shape(
        lambda x: ns.lax.top_k(x, 1), ns.api.ShapeDtypeStruct((2**31 + 1,), np.int8)
    ),
    "initial values with dimensions": lambda ns: ns.lax.reduce_window(
        np.ones(4, np.float32), np.ones(2, np.float32), ns.lax.add, (2,), (1,), "VALID"
    ),
    "vectorize over other ranks": lambda ns: _ranked(
        ns, ns.np.vectorize(ns.np.add, signature="(),()->()")
    ),
    "one_hot of a traced number": lambda ns: ns.api.jit(ns.nn.one_hot)(3, 5),
    "one_hot of floats": lambda ns: ns.nn.one_hot(np.float32([0, 2]), 3),
    "hashable": lambda ns: isinstance(ns.np.ones(2), collections.abc.Hashable),
    "rot90 of a vector": lambda ns: ns.np.rot90(np.ones(3)),
    "trace along one axis": lambda ns: ns.np.trace(np.ones((2, 2)), axis1=1, axis2=-1),
    "sum from an array": lambda ns: ns.np.sum(np.ones(3), initial=np.ones(2)),
    "tensordot along letters": lambda ns: ns.np.tensordot(CUBE[0], CUBE[0], axes="ab"),
    "sum where integers": lambda ns: ns.np.sum(np.ones(3), where=np.ones(3, int)),
}
ALIASES = (
    *("abs", "acos", "acosh", "amax", "amin", "around", "asin", "asinh", "atan", "atan2", "atanh"),
    *("bitwise_left_shift", "bitwise_not", "bitwise_right_shift", "concat", "conj", "degrees"),
    *("invert", "mod", "permute_dims", "pow", "radians", "absolute", "remainder", "power"),
)


def _ranked(ns: Any, function: Any) -> Any:
    with ns.api.numpy_rank_promotion("raise"):
        return function(np.ones((2, 2)), np.ones(2))


def _strictly(ns: Any, function: Any) -> Any:
    with ns.api.numpy_dtype_promotion("strict"):
        return function()


@pytest.mark.parametrize("half", HALVES)
def test_equals_jax(half: int) -> None:
    cases = dict(half_of(CASES.items(), half, __name__))
    # No integer is nan: XLA folds this conversion to another number than it computes.
    if alone := cases.pop("complex nan as an integer", None):
        check_program(alone)
    check_programs(cases)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("ndim of a list", lambda: gnp.ndim([1])),
        ("by position", lambda: gnp.array([1], np.float32, True)),
        ("one_hot", lambda: gnn.one_hot(np.float32([1]), 2)),
        ("astype", lambda: gnp.array([1j]).astype(float)),
    ],
)
def test_deprecated_functions_warn(message: str, call: Any) -> None:
    with pytest.warns(DeprecationWarning, match=message):
        call()


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("rot90 takes arrays of two", lambda: gnp.rot90(np.ones(3))),
        ("sum: initial must be a scalar", lambda: gnp.sum(np.ones(3), initial=np.ones(2))),
        ("argument stop of arange", lambda: gn.jit(gnp.arange)(3)),
        ("tolist", lambda: gn.jit(lambda x: x.tolist())(3)),
        ("num_classes", lambda: gn.jit(gnn.one_hot)(3, 5)),
        ("negative does not accept dtype key", lambda: -gn.random.key(0)),
    ],
)
def test_errors_name_what_is_wrong(message: str, call: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_aliases_are_found_by_pickle() -> None:
    assert pickle.loads(pickle.dumps(gnp.abs)) is gnp.abs


_TWO_NANS = np.array([complex(np.nan, 0), 1, complex(0, np.nan)], np.complex64)
_LEAST = np.int32(-(2**31))


# Programs, and NumPy's results.
_AS_IN_NUMPY: tuple[tuple[Callable[[Any], Any], Any], ...] = (
    (lambda m: m.einsum(np.arange(6).reshape(2, 3), [1, 0]), np.arange(6).reshape(2, 3).T),
    (lambda m: m.einsum(np.ones((2, 3)), [5, 2], np.ones((4, 2)), [0, 5]).shape, (4, 3)),
    *((lambda m, n=n: m.linspace(0, n - 1, n, dtype=int), np.arange(n)) for n in range(2, 61)),
    (lambda m: m.unique(_TWO_NANS, return_counts=True)[1], [1, 2]),
    (lambda m: m.unique(_TWO_NANS, equal_nan=False)[0], 1),
    (lambda m: m.unique(np.zeros((2, 0)), axis=0, return_counts=True)[1], [2]),
    (lambda m: m.unique(np.zeros((0, 2, 0)), axis=1).shape, (0, 1, 0)),
    (lambda m: m.round(np.float32(1.25), 39), 1.25),
    (lambda m: m.round(np.float16(100.5), 38), 100.5),
    (lambda m: m.round(np.float32(1.25), 309), 1.25),
    (lambda m: m.round(np.float32([7, np.inf]), -40), [0, np.inf]),
    (lambda m: m.mean(np.float32([2.6, 2.6, 2.6, 0.9]), dtype=np.int32), 1),
    (lambda m: m.mean(np.full(4, 100), dtype=np.int8), -28),
    (lambda m: m.nanmean(np.float32([2.6, np.nan, 2.6, 0.9]), dtype=np.int32), 1),
    (lambda m: m.gcd(_LEAST, np.int32(3 * 2**29)), 2**29),
    (lambda m: m.gcd(np.int8(-128), np.int8(-96)), 32),
    (lambda m: m.lcm(np.int32([-4, 4, 0]), np.int32([6, -6, -3])), [12, 12, 0]),
    (lambda m: m.setxor1d(np.array([1, 2, 2]), np.array([4]), assume_unique=True), [1, 4]),
    (lambda m: m.diag(np.ones((2, 3)), -(2**33)), np.zeros(0)),
    (lambda m: m.tri(2, 3, 2**33) - m.tri(2, 3, -(2**33)), np.ones((2, 3))),
    (lambda m: m.hamming(4.0), np.hamming(4)),
    (lambda m: m.kaiser(4.0, 2.0), np.kaiser(4, 2.0)),
)


@pytest.mark.parametrize("number", range(len(_AS_IN_NUMPY)))
def test_values_at_edges_are_those_of_numpy(number: int) -> None:
    program, expected = _AS_IN_NUMPY[number]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # float64 becomes float32
        found = np.asarray(program(gnp))
    assert_each_near(found, np.asarray(expected, found.dtype), 2)
