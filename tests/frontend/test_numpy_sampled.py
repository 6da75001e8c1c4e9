"""Functions of `numpy` on samples, polynomials, indices and functions, against JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests.frontend.oracle import checks_in_one_program, sample, to_gnomon
from tests.tolerance import assert_near

F, G = sample("float32", (7,), 1), sample("float32", (3,), 2)
M, N = sample("float32", (3, 5), 3), sample("float32", (2, 5), 4)
INTS, C = sample("int32", (6,), 5, 0, 9), sample("complex64", (5,), 6)
B = jnp.array([True, False, True, True, False, False, True])
NAN = jnp.array([[1.0, jnp.nan, 3.0], [jnp.nan, jnp.nan, jnp.nan]])
# A few sums and products of samples, which are up to three.
CLOSE: dict[str, Any] = {"ulps": 16.0, "scale": 3.0, "together": True}

Case = tuple[str, tuple[Any, ...], dict[str, Any]]


def case(name: str, *args: Any, **kwargs: Any) -> Case:
    return name, args, kwargs


CASES: list[Case] = [
    # samples
    *(
        case("convolve", a, b, m)
        for a, b, m in ((F, G, "full"), (G, F, "same"), (INTS, C, "valid"))
    ),
    case("convolve", INTS, INTS, preferred_element_type="int32"),
    case("convolve", F, M),
    case("convolve", F, G, "fill"),
    case("convolve", F, F[:0]),
    *(case("correlate", a, b, m) for a, b, m in ((F, G, "full"), (G, F, "same"), (C, F, "full"))),
    case("correlate", G, C),
    *(case(name, n) for name in ("hanning", "hamming", "blackman", "bartlett") for n in (1, 6)),
    case("kaiser", 5, 3.0),
    case("i0", F),
    case("i0", C),
    case("ediff1d", M, to_end=jnp.array([1.0, 2.0]), to_begin=INTS),
    case("gradient", M),
    case("gradient", F, 2.0),
    case("gradient", F, jnp.cumsum(abs(F)), axis=0),
    case("gradient", M, 2.0, jnp.arange(5.0) ** 2),
    case("gradient", M, 1.0, 2.0, 3.0),
    case("gradient", M[:1]),
    case("trapezoid", M),
    case("trapezoid", M, dx=0.5, axis=0),
    case("trapezoid", INTS, jnp.arange(6) ** 2),
    case("trapezoid", M, N[0]),
    case("unwrap", 3 * F),
    case("unwrap", 3 * M, axis=0, discont=4.0),
    case("unwrap", INTS, period=5),
    case("unwrap", C),
    case("cov", M),
    case("cov", F),
    case("cov", M, N, bias=True),
    case("cov", M.T, rowvar=False, ddof=2),
    case("cov", M, fweights=jnp.array([1, 2, 0, 1, 3]), aweights=abs(N[0])),
    case("cov", M, fweights=abs(N[0])),
    case("cov", M, fweights=jnp.arange(4)),
    case("cov", M, dtype="int32"),
    case("corrcoef", M, N),
    case("corrcoef", C),
    case("interp", F, jnp.arange(4.0), N[0][:4]),
    case("interp", M, jnp.arange(4.0), N[0][:4], left=9.0, right="extrapolate"),
    case("interp", F, jnp.array([3.0, 0.5, 2.0]), G, period=2.5),
    case("interp", F, jnp.arange(3.0), F),
    case("interp", INTS, jnp.array([0, 2, 2, 5]), jnp.array([0, 1, 2, 3])),
    # polynomials
    case("polyadd", F, G),
    case("polysub", INTS, G),
    case("polymul", F, INTS),
    case("polymul", jnp.array([0.0, 0.0, 1.0]), G, trim_leading_zeros=True),
    case("polydiv", F, G),
    case("polydiv", G, F),
    case("polyval", G, M),
    case("polyval", jnp.arange(20), 2),
    case("polyder", F, 2),
    case("polyder", F, 9),
    case("polyder", F, -1),
    case("polyint", INTS),
    case("polyint", F, 3, jnp.arange(3)),
    case("polyint", F, 2, jnp.arange(3)),
    case("poly", G),
    # indices
    case("ix_", jnp.array([2, 0]), jnp.array([1])),
    case("ix_", M),
    case("block", [[M, N.T[:3]], [jnp.ones((1, 7))]]),
    case("block", [1, F, 2.0]),
    case("block", [[F], G]),
    case("diag_indices", 3, 3),
    case("diag_indices_from", M[:, :3]),
    case("diag_indices_from", M),
    case("tril_indices", 3, 1, 4),
    case("triu_indices", 4, -1),
    case("tril_indices_from", M, -1),
    case("triu_indices_from", M, k=2),
    case("unravel_index", jnp.array([0, 7, 11, 30, -1, -20]), (3, 4)),
    case("ravel_multi_index", (jnp.array([1, 5]), jnp.array([0, -2])), (3, 4), "clip"),
    case("ravel_multi_index", (jnp.array([1, 5]), jnp.array([0, -2])), (3, 4), "wrap", "F"),
    case("ravel_multi_index", (jnp.array([1, 5]), jnp.array([0, 2])), (3, 4)),
    case("ravel_multi_index", (jnp.array([1, 2]), jnp.array([0, 2])), (3, 4), dtype="uint8"),
    # placement
    case("put", M, jnp.array([0, 20, -1]), jnp.array([5.0, 6.0]), inplace=False),
    case("put", M, jnp.array([0, 20]), 7.0, mode="wrap", inplace=False),
    case("put", M, 3, 1.0),
    case("put_along_axis", M, jnp.array([[1], [0], [4]]), 9.0, 1, inplace=False),
    case("put_along_axis", M, jnp.array([2, 3]), jnp.array([9.0, 8.0]), None, inplace=False),
    case("put_along_axis", M, jnp.array([2, 3]), 1.0, 1, inplace=False),
    case("place", F, B, G, inplace=False),
    case("place", F, B[:3], G, inplace=False),
    case("fill_diagonal", M, jnp.array([1.0, 2.0]), inplace=False),
    case("fill_diagonal", jnp.zeros((2, 2, 2)), 3, inplace=False),
    case("fill_diagonal", F, 1.0, inplace=False),
    case("choose", jnp.array([1, 0, 2]), [G, jnp.zeros(3), 4.0]),
    case("choose", jnp.array([1, 5, -1]), [G, G + 1], mode="wrap"),
    case("choose", jnp.array([1, 5, -1]), [G, G + 1]),
    case("compress", B[:3], M, 0),
    case("compress", B, F, size=3),
    case("compress", B, F, size=6, fill_value=9),
    case("compress", B, G),
    case("extract", B, F),
    case("extract", M > 0, M, size=4),
    case("resize", G, (2, 4)),
    case("resize", G, -1),
    case("rollaxis", jnp.zeros((2, 3, 4)), 2),
    case("rollaxis", jnp.zeros((2, 3, 4)), 0, 3),
    case("trim_zeros", jnp.array([0, 0, 1, 0, 2, 0])),
    case("trim_zeros", jnp.array([0, 0, 1, 0, 2, 0]), "b"),
    case("packbits", INTS, bitorder="little"),
    case("packbits", jnp.arange(18).reshape(2, 9) % 3 > 0, axis=1),
    case("packbits", F),
    case("unpackbits", jnp.array([[5], [130]], "uint8"), axis=1),
    case("unpackbits", jnp.array([5, 130], "uint8"), count=11, bitorder="little"),
    case("unpackbits", jnp.array([5, 130], "uint8"), count=-3),
    case("unpackbits", INTS),
    # accumulations
    case("cumulative_prod", G, include_initial=True),
    case("cumulative_prod", M),
    case("nancumsum", NAN, 1),
    case("nancumprod", NAN),
    case("nanargmax", NAN, 1),
    case("nanargmin", NAN, keepdims=True),
    case("nanargmax", INTS),
    case("matvec", M, N[0]),
    case("vecmat", C, jnp.ones((5, 2))),
]


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("cases", [CASES[i::4] for i in range(4)], ids=range(4))
def test_is_jax(cases: list[Case]) -> None:
    with checks_in_one_program() as check:
        for name, args, kwargs in cases:
            check(getattr(gnp, name), getattr(jnp, name), *args, **CLOSE, **kwargs)


def test_numbers_are_constant_polynomials() -> None:
    # JAX fails an index or a length here; NumPy reads a number as a polynomial of degree 0.
    p = np.array([1.0, 2.0, 4.0], np.float32)
    operands = ((2.0, 4.0), (p, 4.0), (2.0, p))

    def compute(library: Any) -> list[Any]:
        names = ("polyadd", "polysub", "polymul", "polydiv")
        results = [getattr(library, name)(*pair) for name in names for pair in operands]
        return jax.tree.leaves(results)

    expected = [np.trim_zeros(x, "f") for x in compute(np)]
    for results in (compute(gnp), gn.jit(lambda: compute(gnp))()):
        for found, value in zip(results, expected, strict=True):
            np.testing.assert_array_equal(np.trim_zeros(found, "f"), value)
    assert gnp.polyder(2.0).shape == (0,)
    np.testing.assert_array_equal(gnp.polyint(2.0, 2, 3.0), [1, 3, 3])
    assert gnp.polyval(2.0, 3.0) == 2


def test_scalars_have_no_cross_product() -> None:
    with pytest.raises(ValueError, match="axis -1 is out of bounds"):
        gnp.linalg.cross(1.0, 1.0)


def test_grids_and_joined_arrays() -> None:
    for ours, theirs in (
        (gnp.mgrid[0:3, 1:2:3j], jnp.mgrid[0:3, 1:2:3j]),
        (gnp.mgrid[1:4], jnp.mgrid[1:4]),
        (gnp.ogrid[0:3, 0:2], jnp.ogrid[0:3, 0:2]),
        (gnp.r_[0:3, 7, 1:2:3j], jnp.r_[0:3, 7, 1:2:3j]),
        (gnp.r_["0,2", 1:3, [4, 5]], jnp.r_["0,2", 1:3, jnp.array([4, 5])]),
        (gnp.r_["1,2,0", 1:3, [4, 5]], jnp.r_["1,2,0", 1:3, jnp.array([4, 5])]),
        (gnp.r_["c", 1:3], jnp.r_["c", 1:3]),
        (gnp.c_[1:3, [4.0, 5.0]], jnp.c_[1:3, jnp.array([4.0, 5.0])]),
    ):
        pairs = zip(ours, theirs, strict=True) if isinstance(theirs, list) else [(ours, theirs)]
        for a, b in pairs:
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert gnp.s_[1:3, ..., None] == jnp.s_[1:3, ..., None]
    assert gnp.index_exp[2] == jnp.index_exp[2]


def test_functions_of_functions() -> None:
    def pieces(library: Any) -> Any:
        return library.piecewise(
            library.asarray(F),
            [library.asarray(F) < 0, library.asarray(F) < 1],
            [lambda x: -x, lambda x, k=1.0: x * k, 5],
        )

    np.testing.assert_array_equal(
        np.asarray(pieces(gnp)), np.asarray(jax.jit(lambda: pieces(jnp))())
    )

    def applied(library: Any) -> Any:
        x = library.arange(24.0).reshape(2, 3, 4)
        return (
            library.apply_along_axis(lambda v: library.stack([v.sum(), v.max()]), 1, x),
            library.apply_over_axes(library.sum, x, (0, -1)),
            library.vectorize(library.dot, signature="(n,m),(m)->(n)")(x, library.ones((5, 2, 4))),
            library.vectorize(lambda a, b: (a + b, a))(x[:, :1], library.arange(4.0)),
            library.vectorize(lambda a, n: a**n, excluded={1})(x, 3),
        )

    found = gn.tree.leaves(applied(gnp))
    expected = jax.tree.leaves(jax.jit(lambda: applied(jnp))())
    for ours, theirs in zip(found, expected, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
    # JAX drops keyword arguments that are not excluded.
    scaled = gnp.vectorize(lambda a, n=1: a * n)(gnp.ones((2, 1)), n=gnp.arange(3.0))
    np.testing.assert_array_equal(np.asarray(scaled), [[0, 1, 2], [0, 1, 2]])
    for signature in ("(n)->", "(n", "(n),(n)->()"):
        with pytest.raises((ValueError, TypeError)):
            gnp.vectorize(gnp.sum, signature=signature)(gnp.ones(3))


def test_files(tmp_path: Any) -> None:
    x = gnp.arange(6.0).reshape(2, 3)
    gnp.save(tmp_path / "x.npy", x)
    np.testing.assert_array_equal(np.asarray(gnp.load(tmp_path / "x.npy")), np.asarray(x))
    gnp.save(tmp_path / "half.npy", x.astype("bfloat16"))
    half = gnp.load(tmp_path / "half.npy")
    assert half.dtype == "bfloat16" and half.tolist() == x.tolist()
    gnp.savez(tmp_path / "x.npz", x, named=x + 1)
    archive = gnp.load(tmp_path / "x.npz")
    np.testing.assert_array_equal(archive["named"], np.asarray(x) + 1)
    assert gnp.iterable(x) and not gnp.iterable(gnp.array(1)) and not gnp.iterable(3)
    assert gnp.array_str(x[0]) == "[0. 1. 2.]"


def test_gradients_under_jit() -> None:
    x, y = to_gnomon((F, G))

    def loss(library: Any) -> Any:
        def function(x: Any, y: Any) -> Any:
            total = (library.convolve(x, y, "same") ** 2).sum()
            total += library.interp(x, library.arange(3.0), y).sum()
            total += (library.gradient(x) * library.unwrap(x)).sum()
            return total + library.polyval(y, x).sum() + library.trapezoid(x)

        return function

    ours = gn.jit(gn.grad(loss(gnp), (0, 1)))(x, y)
    for a, b in zip(ours, jax.jit(jax.grad(loss(jnp), (0, 1)))(F, G), strict=True):
        assert_near(a, b, 16, scale=3.0)
