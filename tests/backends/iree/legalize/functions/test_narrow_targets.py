"""The forms of functions for targets that lack a feature; evaluated, not compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gnomon.backends.iree.legalize.legalization import Stage, rules_of
from gnomon.backends.iree.legalize.order import LEGALIZATIONS
from gnomon.backends.iree.pipeline import legalize
from gnomon.backends.iree.targets import find_target, target_names
from gnomon.backends.reference import Evaluator
from gnomon.backends.rewriting import rewrite
from gnomon.dialects.body import Body
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import Program
from gnomon.dialects.types import TensorType
from tests.tolerance import assert_each_near

RULES = rules_of(LEGALIZATIONS, Stage.REWRITE, find_target("vulkan"))
RNG = np.random.default_rng(7)
SMALLEST = float(np.finfo(np.float32).tiny)


def narrow(name: str, *arrays: np.ndarray) -> np.ndarray:
    """The value of an op in its rewritten form, which must not use 64-bit types."""
    program = Program()
    types = [TensorType(a.shape, a.dtype) for a in arrays]
    body = Body.build(types, lambda *v: [getattr(ops, name)(*v)])
    program.add("main", body, public=True)
    rewrite(program, RULES)
    text = str(program.module)
    assert not any(f"x{wide}>" in text or f"<{wide}>" in text for wide in ("f64", "i64", "ui64"))
    with np.errstate(all="ignore"):
        return Evaluator(program)("main", *arrays)[0]


def ulps(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest error in units of the last place, where the result is a normal number."""
    with np.errstate(all="ignore"):
        rounded = expected.astype(np.float32)
        normal = np.isfinite(rounded) & (np.abs(rounded) >= SMALLEST)
        assert np.isfinite(actual[normal]).all()
        error = np.abs(actual.astype(np.float64) - expected)[normal]
    return float((error / np.spacing(np.abs(rounded[normal]))).max(initial=0.0))


def every_magnitude(count: int) -> np.ndarray:
    """Numbers of all exponents and signs, those nearest to multiples of pi/2, and the ends."""
    bits = RNG.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    multiples = (np.arange(1, 5000) * (np.pi / 2)).astype(np.float32)
    # 16367173 * 2**72 is the f32 nearest to a multiple of pi/2.
    hard = np.array([16367173 * 2.0**72, 3.4028235e38, 1e10, 0.5, 0.50000006, 0.0], np.float32)
    values = np.concatenate([bits, multiples, hard, -hard])
    return values[np.isfinite(values)]


@pytest.mark.parametrize(("name", "bound"), [("sin", 3.0), ("cos", 3.0), ("tan", 5.0)])
def test_trigonometric_functions_of_huge_arguments(name: str, bound: float) -> None:
    x = every_magnitude(50_000)
    assert ulps(narrow(name, x), getattr(np, name)(x.astype(np.float64))) <= bound
    special = narrow(name, np.array([np.inf, -np.inf, np.nan, -0.0], np.float32))
    assert np.isnan(special[:3]).all()
    assert np.signbit(special[3]) == (name != "cos")


def test_cube_roots() -> None:
    x = every_magnitude(20_000)
    assert ulps(narrow("cbrt", x), np.cbrt(x.astype(np.float64))) <= 2
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, -27.0], np.float32)
    expected = np.cbrt(special.astype(np.float64)).astype(np.float32)
    assert_each_near(narrow("cbrt", special), expected, 2)


def test_angles() -> None:
    y = np.concatenate([every_magnitude(10_000), RNG.normal(size=5000).astype(np.float32)])
    x = RNG.permutation(y)
    assert ulps(narrow("atan2", y, x), np.arctan2(y.astype(np.float64), x)) <= 3
    ends = np.array([0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, np.nan], np.float32)
    y, x = (a.ravel() for a in np.meshgrid(ends, ends))
    assert_each_near(narrow("atan2", y, x), np.arctan2(y, x), 2)


def test_powers() -> None:
    for spread, largest in ((80.0, 3.0), (0.7, 100.0), (1e-3, 8e4)):
        x = np.exp(RNG.uniform(-spread, spread, 20_000)).astype(np.float32)
        y = RNG.uniform(-largest, largest, 20_000).astype(np.float32)
        with np.errstate(all="ignore"):
            expected = np.power(x.astype(np.float64), y.astype(np.float64))
        assert ulps(narrow("pow", x, y), expected) <= 4
    ends = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, -2.0, 0.5, -8.0], "f4")
    powers = np.array([*ends, 3.0, -3.0, 1e20, -1e20, 2.0**24 + 2], np.float32)
    x, y = (a.ravel() for a in np.meshgrid(ends, powers))
    with np.errstate(all="ignore"):
        assert_each_near(narrow("pow", x, y), np.power(x, y), 4)


# ---------------------------------------------------- other dtypes, on other targets than Vulkan's


def rewritten(target: str, op: str, *arrays: np.ndarray, **params: object) -> np.ndarray:
    """The value of the form of an op for a target."""
    program = Program()
    types = [TensorType(a.shape, a.dtype) for a in arrays]
    body = Body.build(types, lambda *v: getattr(ops, op).build(v, params))
    program.add("main", body, public=True)
    before = str(program.module)
    legalize(program.module, find_target(target))
    assert str(program.module) != before
    with np.errstate(all="ignore"):
        return Evaluator(Program(program.module))("main", *arrays)[0]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        *(("sin", np.sin), ("cos", np.cos), ("atan", np.arctan), ("tanh", np.tanh)),
        *(("asin", np.arcsin), ("acos", np.arccos)),
    ],
)
def test_functions_of_f64_without_a_library(name: str, function: np.ufunc) -> None:
    bits = RNG.integers(0, 1 << 63, 20_000, dtype=np.uint64).view(np.float64)
    x = np.concatenate([bits, -bits, RNG.normal(size=20_000), [0.0, -0.0, 1.0, -1.0, np.nan]])
    with np.errstate(all="ignore"):
        expected = function(x)
    actual = rewritten("aarch64-linux", name, x)
    regular = np.isfinite(expected) & (np.abs(expected) > 1e-300)
    error = np.abs(actual - expected)[regular] / np.spacing(np.abs(expected[regular]))
    assert error.max() <= 8
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected))
    np.testing.assert_array_equal(np.signbit(actual[-5:-1]), np.signbit(expected[-5:-1]))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_narrow_integers_in_32_bits(dtype: type) -> None:
    info = np.iinfo(dtype)
    ends = np.array([info.min, info.max, 0, 1, 2, 3, 7, 8, 15, 16, 31, 32, info.max - 1], dtype)
    x, y = (a.ravel() for a in np.meshgrid(ends, ends))
    for op in ("div", "rem", "shift_left", "shift_right_logical", "shift_right_arithmetic"):
        rule: Any = getattr(ops, op).evaluate
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(rewritten("vulkan", op, x, y), rule(x, y), op)


def test_roundings_without_an_instruction() -> None:
    x = np.array([0.49999997, 0.5, 1.5, 2.5, -0.5, -1.5, 8388609.0, -0.0, 1e30, np.inf], np.float32)
    for method, expected in (
        ("TO_NEAREST_EVEN", np.rint(x)),
        ("AWAY_FROM_ZERO", np.sign(x) * np.floor(np.abs(x.astype(np.float64)) + 0.5)),
    ):
        actual = rewritten("wasm32", "round", x, rounding_method=method)
        np.testing.assert_array_equal(actual, expected)
        np.testing.assert_array_equal(np.signbit(actual), np.signbit(x))


def test_complex_log1p() -> None:
    normal = RNG.normal(size=(5000, 2)) @ [1, 1j]
    circle = -1 + np.exp(1j * RNG.uniform(-np.pi, np.pi, 5000)) * (1 + 1e-4 * normal.real)
    near = -1 + normal * 10.0 ** RNG.uniform(-30, -1, 5000)
    z = np.concatenate([normal, circle, near, normal * 1e-10, normal * 1e30]).astype(np.complex64)
    actual = rewritten("metal", "log1p", z)
    wide = z.astype(np.clongdouble)
    size = (1 + wide.real) ** 2 + wide.imag**2
    excess = wide.real * wide.real + 2 * wide.real + wide.imag**2
    with np.errstate(all="ignore"):
        expected = np.where(size < 0.5, np.log(size), np.log1p(excess)) / 2
    assert ulps(actual.real, expected.astype(np.float64)) <= 4
    assert ulps(actual.imag, np.arctan2(wide.imag, 1 + wide.real).astype(np.float64)) <= 4
    ends = rewritten("metal", "log1p", np.array([-1, np.inf, complex(0, -np.inf), 0], np.complex64))
    np.testing.assert_array_equal(ends.real, [-np.inf, np.inf, np.inf, 0])


def test_complex_numbers_by_parts() -> None:
    z = RNG.normal(size=(3, 5, 2)).astype(np.float32) @ np.array([1, 1j], np.complex64)
    z[0, 0] = 0
    for op, arrays, params in (
        ("sign", [z], {}),
        ("pow", [z, z + 1], {}),
        ("cumprod", [z], {"axis": 1, "reverse": True}),
        ("cummax", [z], {"axis": 0, "reverse": False}),
    ):
        rule: Any = getattr(ops, op).evaluate
        with np.errstate(all="ignore"):
            expected = rule(*arrays, **params)
        assert_each_near(rewritten("metal", op, *arrays, **params), expected, 24)


@pytest.mark.parametrize("name", target_names())
def test_powers_of_complex_zero_on_every_target(name: str) -> None:
    """The rule of complex powers and the rule of half-integer exponents apply to the same op."""
    z = np.array([0, 0, 0, 1 + 1j], np.complex64)
    w = np.array([1 + 1j, 0, -1, 2], np.complex64)
    program = Program()
    types = [TensorType(a.shape, a.dtype) for a in (z, w)]
    program.add("main", Body.build(types, lambda *v: [ops.pow(*v)]), public=True)
    legalize(program.module, find_target(name))
    with np.errstate(all="ignore"):
        (found,) = Evaluator(Program(program.module))("main", z, w)
    assert found[0] == 0 and found[1] == 1 and not np.isfinite(found[2])
    assert_each_near(found[3:], np.array([2j], np.complex64), 4, scale=2.0)
