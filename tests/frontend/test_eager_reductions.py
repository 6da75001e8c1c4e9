"""The fast path of eager reductions agrees with the general one: value, dtype, weak type."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon.numpy import _eager_reductions
from tests.tolerance import assert_each_near

FUNCTIONS = ("sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin")
SHAPES = ((), (1,), (7,), (3, 4), (2, 3, 4), (0,), (3, 0), (0, 3))
DTYPES = ("float32", "int32", "bool", "uint8", "int8", "complex64", "bfloat16", "float16")


def arrays(dtype: str) -> Iterator[Any]:
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        values = rng.normal(size=shape) * 3
        yield gnp.asarray(np.asarray(values).astype(gnp.dtype(dtype)))
    if dtype == "float32":
        special = np.array([[0.0, -0.0, np.nan], [np.inf, -np.inf, 1.0]], dtype)
        yield gnp.asarray(special)
        yield gnp.asarray(special[:, :2])
        yield gnp.asarray(2.5)  # weakly typed
        yield gnp.asarray(np.float32(1.0) + np.arange(3000, dtype=dtype).reshape(60, 50).T)


def calls(function: Callable[..., Any], x: Any) -> Iterator[Any]:
    """The results, or kinds of error, of calls with many arguments."""
    axes: list[Any] = [None, 0, 1, -1, -2, 5, (), (0,), (-1, 0), (0, 0), "0", 1.5, np.int64(0)]
    for axis, keepdims in itertools.product(axes, (False, True)):
        try:
            yield axis, keepdims, function(x, axis=axis, keepdims=keepdims)
        except (TypeError, ValueError, NotImplementedError) as error:
            yield axis, keepdims, type(error)


@pytest.mark.sampled(0.8)
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_short_way_equals_the_general_way(
    name: str, x64: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = getattr(gnp, name)
    with gn.enable_x64(x64), warnings.catch_warnings():
        for dtype in DTYPES + (("float64", "int64") if x64 else ()):
            for x in arrays(dtype):
                short = list(calls(function, x))
                with monkeypatch.context() as patch:
                    patch.setattr(_eager_reductions, "needs_bind", lambda: True)
                    general = list(calls(function, x))
                for (axis, keepdims, given), (_, _, wanted) in zip(short, general, strict=True):
                    message = f"{name}({x.aval}, axis={axis}, keepdims={keepdims})"
                    if isinstance(wanted, type):
                        assert given is wanted, message
                        continue
                    assert given.aval is wanted.aval, message
                    assert_each_near(given, wanted, 0, message=message)


def test_the_short_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    x = gnp.ones((3, 4))
    monkeypatch.setattr("gnomon.numpy._reductions.as_array", None)
    for name in FUNCTIONS:
        getattr(gnp, name)(x, axis=(0 if name.startswith("arg") else (0, 1)))


def test_arguments_by_keyword() -> None:
    x = gnp.array([[1, np.nan, 3], [np.nan, np.nan, np.nan]], "float32")
    mask = np.array([True, True, False])
    assert gnp.nanmax(x, 1, initial=2.0, where=mask).tolist() == [2, 2]
    assert gnp.nanmin(x, 1, initial=2.0, where=mask).tolist() == [1, 2]
    assert gnp.std(x[0, ::2], mean=1.0) == np.sqrt(np.float32(2))
    assert gnp.nanvar(x[0], None, None, None, 0, False, None, 1.0) == 2
    signs = gnp.array([0, 2, -2])
    assert gnp.sum(signs, dtype=bool).tolist() is True
    assert gnp.prod(signs, dtype=bool).tolist() is False
    assert gnp.cumsum(signs, dtype=bool).tolist() == [False, True, True]
    # In a dtype without infinities, the largest numbers take their place.
    small = x.astype("float8_e4m3fn")
    assert gnp.nanmax(small, 0).astype("float32").tolist()[::2] == [1, 3]
    assert gnp.diff(2.0, 0) == 2
    for shape in ((1, 0), (0, 3), (2, 1)):
        for n in (1, 3):
            assert gnp.diff(gnp.zeros(shape), n, axis=1).shape == np.diff(np.zeros(shape), n).shape
    with pytest.raises(ValueError, match="boolean array, got dtype int32"):
        gnp.sum(x, where=np.array([1, 0, 1]))
