"""Products by an algorithm: `lax.DotAlgorithm` and its presets, as ``precision``."""

from __future__ import annotations

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.lax import DotAlgorithm, DotAlgorithmPreset

X = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
Y = np.random.default_rng(1).standard_normal((64, 3)).astype(np.float32)
PRESETS = [p for p in DotAlgorithmPreset if "F8" not in p.name]
ROUNDED = {
    "BF16": lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32),
    "F16": lambda x: x.astype(np.float16).astype(np.float32),
    "TF32": lambda x: np.asarray(jax.lax.reduce_precision(x, 8, 10)),
}


def expected(preset: DotAlgorithmPreset) -> tuple[np.ndarray, float]:
    """The product by definition, and a bound on the effect of another order of its sums."""
    names = preset.name.split("_")
    first, last = names[0], names[-1]
    x, y = (ROUNDED[first](a) if first in ROUNDED and last[0] != "X" else a for a in (X, Y))
    product = x.astype(np.float64) @ y
    small = {"F16": 2.0**-10, "BF16": 2.0**-7}.get(last, 2.0**-20)
    return product, small * float(np.abs(product).max())


def test_values_of_every_algorithm() -> None:
    """Eager and compiled, operands are rounded and sums have the dtype of the accumulation."""

    def all_of(x: Any, y: Any) -> list[Any]:
        return [lax.dot(x, y, precision=p) for p in PRESETS]

    for found in (all_of(X, Y), gn.jit(all_of)(X, Y)):
        for preset, product in zip(PRESETS, found, strict=True):
            assert product.dtype == np.float32
            want, error = expected(preset)
            np.testing.assert_allclose(np.asarray(product), want, rtol=0, atol=error)


def test_derivatives() -> None:
    def total(x: Any, y: Any) -> Any:
        return lax.dot(x, y, precision=DotAlgorithm(np.float16, ml_dtypes.bfloat16, "f4")).sum()

    by_x, by_y = gn.grad(total, argnums=(0, 1))(X, Y)
    ones = np.ones((4, 3), np.float32)
    np.testing.assert_allclose(np.asarray(by_x), ones @ ROUNDED["BF16"](Y).T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.asarray(by_y), ROUNDED["F16"](X).T @ ones, rtol=1e-5, atol=1e-5)


SUPPORTED = ["DEFAULT", "F16_F16_F16", "BF16_BF16_F32", "BF16_BF16_F32_X6", "F64_F64_F64"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3fn", "int32"])
def test_dtypes_of_results(dtype: str) -> None:
    for name in SUPPORTED:
        for preferred in (None, "float32"):
            options = {"precision": name, "preferred_element_type": preferred}
            found = gn.eval_shape(lambda a, b, o=options: lax.dot(a, b, **o), *_as(gnp, dtype))
            want = jax.eval_shape(
                lambda a, b, o=options: jax.lax.dot(a, b, **o), *_as(jax.numpy, dtype)
            )
            assert found.dtype == want.dtype


def _as(module: Any, dtype: str) -> tuple[Any, Any]:
    return module.asarray(X).astype(dtype), module.asarray(Y).astype(dtype)


def test_presets_are_those_of_jax() -> None:
    theirs = jax.lax.DotAlgorithmPreset
    assert [p.name for p in DotAlgorithmPreset] == [p.name for p in theirs]
    assert DotAlgorithm._fields == jax.lax.DotAlgorithm._fields
    for ours in DotAlgorithmPreset:
        other = theirs[ours.name]
        for name in ("accumulation_type", "supported_lhs_types", "supported_rhs_types"):
            assert _dtypes(getattr(ours, name)) == _dtypes(getattr(other, name)), (ours, name)
        for pair in (("float16",) * 2, ("bfloat16",) * 2, ("float32", "bfloat16")):
            found = ours.supported_output_types(*pair)
            assert bool(found) == bool(other.supported_output_types(*pair))
            assert set(_dtypes(other.supported_output_types(*pair)) or ()) <= set(
                _dtypes(found) or ()
            )


def _dtypes(value: Any) -> Any:
    if value is None:
        return None
    return [np.dtype(v) for v in (value if isinstance(value, tuple) else (value,))]


def test_where_algorithms_are_taken() -> None:
    rounded = ROUNDED["BF16"](X).astype(np.float64) @ ROUNDED["BF16"](Y)
    with gn.default_matmul_precision("BF16_BF16_F32"):
        by_default = gnp.asarray(X) @ gnp.asarray(Y)
    for found in (
        by_default,
        gnp.matmul(X, Y, precision=DotAlgorithmPreset.BF16_BF16_F32),
        gnp.einsum("ij,jk->ik", X, Y, precision="BF16_BF16_F32"),
        gn.vmap(lambda row: lax.dot(row, Y, precision="BF16_BF16_F32"))(X),
    ):
        np.testing.assert_allclose(np.asarray(found), rounded, rtol=0, atol=1e-4)
    line, kernel = np.ones((1, 1, 5), np.float32), np.ones((1, 1, 3), np.float32)
    smooth = lax.conv_general_dilated(line, kernel, (1,), "SAME", precision="BF16_BF16_F32_X3")
    assert smooth.tolist() == [[[2.0, 3.0, 3.0, 3.0, 2.0]]]


def test_refused_arguments() -> None:
    with pytest.raises(ValueError, match="float8"):
        lax.dot(X, Y, precision="ANY_F8_ANY_F8_F32")
    with pytest.raises(ValueError, match="real numbers"):
        lax.dot(X.astype(np.complex64), Y.astype(np.complex64), precision="F32_F32_F32")
    with pytest.raises(ValueError, match="floating point"):
        lax.dot(X, Y, precision=DotAlgorithm(np.int8, np.int8, np.int32))
    with pytest.raises(ValueError, match="DotAlgorithmPreset"):
        lax.dot(X, Y, precision="BF16_BF16")


def test_the_program_names_the_algorithm() -> None:
    eight = X.astype(ml_dtypes.float8_e4m3fn), Y.astype(ml_dtypes.float8_e5m2)
    text = str(gn.make_jaxpr(lambda a, b: lax.dot(a, b, precision="ANY_F8_ANY_F8_F32"))(*eight))
    assert 'precision = "f8_e4m3fn*f8_e5m2->f32"' in text
