"""Sorting, searching, choosing, sets, quantiles, histograms of `gnomon.numpy`, against JAX."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
import tests.sample as sampling
from gnomon import lax
from gnomon.errors import ConcretizationTypeError
from tests.frontend.oracle import checks_in_one_program
from tests.tolerance import assert_near

NAN = np.nan
RNG = np.random.default_rng(0)
FLOATS = RNG.normal(size=(4, 5)).astype(np.float32)
HOLES = FLOATS.copy()
HOLES[1, 2] = NAN
HOLES[3] = NAN
TIES = RNG.integers(0, 4, 12).astype(np.int32)
OTHERS = np.array([1, 3, 9, 9, 1, 2], np.int32)
SPECIAL = np.array([1, NAN, 0.0, -0.0, 2, NAN, 1, -np.inf], np.float32)
COMPLEX = np.array([1 + 1j, 1 + 1j, 2, NAN, 1j, NAN], np.complex64)
NONE = np.zeros((0,), np.int32)
EDGES = np.array([-1.0, 0.0, 0.5, 1.0], np.float32)

Case = tuple[str, tuple[Any, ...], dict[str, Any]]

CASES: list[Case] = [
    ("sort", (SPECIAL,), {"descending": True}),
    ("sort", (COMPLEX,), {}),
    ("sort", (FLOATS,), {"axis": None}),
    ("argsort", (SPECIAL,), {}),
    ("argsort", (SPECIAL,), {"descending": True}),
    ("argsort", (FLOATS,), {"axis": 0, "dtype": np.int16}),
    ("sort_complex", (TIES,), {}),
    ("lexsort", ((FLOATS[0], TIES[:5]),), {}),
    ("partition", (FLOATS, 2), {}),
    ("argpartition", (FLOATS, -2), {"axis": 0}),
    ("digitize", (FLOATS, EDGES), {}),
    ("digitize", (FLOATS, EDGES[::-1]), {"right": True}),
    ("unique", (SPECIAL, True, True, True), {}),
    ("unique", (SPECIAL, True, True, True), {"equal_nan": False, "size": 9, "fill_value": 7}),
    ("unique", (np.array([[1, 2], [0, 2], [1, 2]]), True, True, True), {"axis": 0}),
    ("unique", (np.array([[1, 2], [0, 2], [1, 2]]),), {"axis": 0, "size": 3}),
    ("unique_all", (COMPLEX,), {"size": 3}),
    ("setdiff1d", (TIES, OTHERS), {}),
    ("setdiff1d", (TIES, OTHERS), {"size": 4, "fill_value": -1}),
    ("union1d", (TIES, OTHERS), {"size": 8}),
    ("intersect1d", (TIES, OTHERS), {"return_indices": True}),
    ("intersect1d", (TIES, OTHERS), {"return_indices": True, "size": 5}),
    ("setxor1d", (TIES, OTHERS), {"size": 4}),
    ("setxor1d", (TIES, NONE), {}),
    ("isin", (TIES, OTHERS), {"invert": True}),
    ("isin", (SPECIAL, SPECIAL), {"method": "binary_search"}),
    ("median", (HOLES,), {"axis": -1}),
    ("nanmedian", (HOLES,), {"axis": -1}),
    ("percentile", (FLOATS, np.array([30, 60])), {"axis": (0, 1), "keepdims": True}),
    ("quantile", (FLOATS, 0.4), {"weights": np.abs(FLOATS), "method": "inverted_cdf"}),
    ("histogram", (FLOATS, EDGES), {"density": True}),
    ("histogram", (TIES,), {"weights": TIES}),
    ("histogram2d", (FLOATS[0], FLOATS[1], [2, EDGES]), {}),
    ("histogramdd", (FLOATS, 2), {"range": [(-1, 1), None, None, (-2, 2), None]}),
    ("bincount", (TIES,), {"minlength": 6}),
    ("nanargmax", (HOLES,), {"axis": 1}),
    ("nanargmin", (HOLES[:3],), {"axis": 0, "keepdims": True}),
    ("nancumsum", (HOLES,), {"axis": 0}),
    ("nancumprod", (HOLES,), {}),
    ("cumulative_prod", (TIES,), {"include_initial": True}),
    ("compress", (np.array([1, 0, 1, 0]), FLOATS), {"axis": 0}),
    ("compress", (np.array([1, 0, 1]), FLOATS), {"axis": 1, "size": 3, "fill_value": 7}),
    ("extract", (HOLES > 0, HOLES), {}),
    ("put_along_axis", (FLOATS, TIES[:5][None], 2.0, 0), {"inplace": False}),
    ("take", (FLOATS, np.array([-1, 9, 2])), {"axis": 0, "mode": "clip"}),
    ("take_along_axis", (FLOATS, -TIES[:5][None], 0), {"wrap_negative_indices": False}),
    ("bincount", (TIES - 1,), {"length": 2, "weights": TIES * 0.5}),
]


def test_equals_jax() -> None:
    with checks_in_one_program() as check:
        for name, args, kwargs in sampling.sample(CASES, len(CASES) // 2, __name__):
            ours, theirs = getattr(gnp, name), getattr(jnp, name)
            check(ours, theirs, *args, ulps=8, weak=False, scale=1.0, **kwargs)


@pytest.mark.parametrize("method", ["scan", "scan_unrolled", "compare_all", "sort"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(method: str, side: str) -> None:
    places, order = np.sort(SPECIAL), np.argsort(SPECIAL)
    columns = [places, places[:1], places[:0], TIES[:1]]

    def search(v: Any) -> Any:
        # Inside of vmap values are traced, so this tests the search that compiled code uses.
        found = [gnp.searchsorted(a, v, side, method=method) for a in columns]
        return [*found, gnp.searchsorted(SPECIAL, v, side, order, method=method)]

    expected = [np.searchsorted(a, SPECIAL, side) for a in (*columns, places)]
    for found in (search(SPECIAL), gn.vmap(search)(SPECIAL)):
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    mixed = gnp.searchsorted(np.sort(COMPLEX), COMPLEX, side, method=method)
    np.testing.assert_array_equal(mixed, np.searchsorted(np.sort(COMPLEX), COMPLEX, side))


def test_a_compiled_search_reads_the_elements_that_jax_reads() -> None:
    """What is found among elements that are not sorted depends on the steps of the search."""
    x = [RNG.normal(size=n).astype(np.float32) for n in (1, 2, 7, 8, 100)]
    sides = ("left", "right")
    ours = gn.jit(lambda: [gnp.searchsorted(a, FLOATS, side) for a in x for side in sides])()
    theirs = jax.jit(lambda: [jnp.searchsorted(a, FLOATS, side) for a in x for side in sides])()
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_positions_of_missing_common_elements() -> None:
    x, empty = gnp.array([1, 2, 3]), gnp.array([], np.int32)
    for a, b in ((x, empty), (empty, x), (empty, empty), (x, gnp.array([7]))):
        values, first, second = gnp.intersect1d(a, b, size=2, fill_value=-1, return_indices=True)
        assert values.tolist() == [-1, -1]
        assert (first.tolist(), second.tolist()) == ([a.size] * 2, [b.size] * 2)


@pytest.mark.parametrize(
    "method", ["linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf"]
)
def test_quantiles_equal_numpy(method: str) -> None:
    q = np.array([0.0, 0.25, 0.62, 1.0])
    for name, x in (("quantile", FLOATS), ("quantile", HOLES), ("nanquantile", HOLES[:3])):
        ours = getattr(gnp, name)(x, q, axis=1, method=method)
        theirs = getattr(np, name)(x.astype(np.float64), q, axis=1, method=method)
        # The position between two elements is rounded, and the element at that position is taken.
        assert_near(ours, theirs, 8)


def test_quantiles_of_more_elements_than_16_bits_count() -> None:
    x = (np.arange(65_000) < 32_600).astype(np.float16)
    weights = np.ones_like(x)
    for q in (0.5, np.float16(0.5)):
        found = gnp.quantile(x, q), gnp.quantile(x, q, method="inverted_cdf")
        weighted = gnp.quantile(x, q, method="inverted_cdf", weights=weights)
        assert (*map(float, found), float(weighted)) == (1.0, 1.0, 1.0)
        assert float(gnp.quantile(1 - x, q, method="inverted_cdf")) == 0.0


def test_compiled() -> None:
    def everything(x: Any, n: Any) -> Any:
        return (
            gnp.argsort(x, descending=True),
            gnp.unique(n, return_counts=True, return_inverse=True, size=5),
            gnp.searchsorted(gnp.sort(x), x, side="right"),
            gnp.quantile(x, gnp.array([0.3, 0.9])),
            gnp.histogram(x, EDGES)[0],
            gnp.intersect1d(n, OTHERS, size=4, fill_value=-1),
        )

    x = FLOATS.ravel()
    results = gn.tree.leaves(gn.jit(everything)(x, TIES))
    for ours, eager in zip(results, gn.tree.leaves(everything(x, TIES)), strict=True):
        assert_near(ours, eager, 4)


def test_copies_of_dtypes_keep_all_bits() -> None:
    """Unpickled arrays have copies of NumPy's dtypes, as do arrays with metadata."""
    functions = {
        "sort": gnp.sort,
        "keys": lambda x: lax.sort((x, gnp.arange(3)), num_keys=1)[1],
        "lexsort": lambda x: gnp.lexsort((x,)),
        "searchsorted": lambda x: gnp.searchsorted(gnp.sort(x), x),
        "back": lambda x: gnp.asarray(x) + 0,
    }
    with gn.enable_x64():
        for values in ([1 + 1e-9, 1.0, 1 + 1e-12], [2**40 + 1, 2**40, 3], [2.0**70 + 1j, 1j, 0]):
            x = np.array(values)
            copied = pickle.loads(pickle.dumps(x))
            assert copied.dtype is not x.dtype
            for name, function in functions.items():
                if x.dtype.kind == "c" and name == "searchsorted":
                    continue
                found, expected = np.asarray(function(copied)), np.asarray(function(x))
                np.testing.assert_array_equal(found, expected, err_msg=f"{name} {x.dtype}")
    x = np.array([2**32 - 1, 2**31, 1], np.uint32)
    found = np.asarray(gnp.sort(pickle.loads(pickle.dumps(x))))
    np.testing.assert_array_equal(found, np.sort(x))


def test_sorts_map_and_differentiate() -> None:
    weights = np.arange(5, dtype=np.float32)

    def f(row: Any) -> Any:
        return (gnp.sort(row) * weights).sum() + gnp.median(row)

    gradient = gn.vmap(gn.grad(f))(FLOATS)
    for i, row in enumerate(FLOATS):
        rank = np.argsort(np.argsort(row))
        np.testing.assert_array_equal(gradient[i], rank + (rank == 2))


def test_sizes_that_are_not_known_raise() -> None:
    for f in (
        gnp.unique,
        lambda x: gnp.union1d(x, x),
        lambda x: gnp.setdiff1d(x, x),
        gnp.bincount,
    ):
        with pytest.raises(ConcretizationTypeError, match=r"pass (size|length)"):
            gn.jit(f)(TIES)


def test_errors() -> None:
    with pytest.raises(TypeError, match="'kind' argument"):
        gnp.sort(FLOATS, kind="stable")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="len > 0"):
        gnp.lexsort(())
    with pytest.raises(ValueError, match="1-dimensional"):
        gnp.searchsorted(FLOATS, 1.0)
    with pytest.raises(ValueError, match="method can only be"):
        gnp.quantile(FLOATS, 0.5, method="closest")
    with pytest.raises(ValueError, match="does not support complex"):
        gnp.median(COMPLEX)
    with pytest.raises(ValueError, match="no elements"):
        gnp.median(NONE)
    with pytest.raises(NotImplementedError, match="string values"):
        gnp.histogram(FLOATS, "auto")
    with pytest.raises(TypeError, match="integer type"):
        gnp.bincount(FLOATS[0])


def test_dtypes_of_differences_and_positions() -> None:
    narrow, other = gnp.array([1, 2, 3, 3], "int8"), gnp.array([2], "uint8")
    for unique in (True, False):
        rest = gnp.setdiff1d(narrow, other, assume_unique=unique)
        assert rest.dtype == np.int8 and rest.tolist() == [1, 3, 3][: 3 if unique else 2]
    with gn.enable_x64(True):
        assert gnp.argpartition(narrow, 1).dtype == np.int32
