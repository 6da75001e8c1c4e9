"""Functions of rows as kernels: ops, dtypes, shapes, and what is no function of rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax, nn
from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.iree.legalize.array_kernels import rows
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir
from tests.backends.iree.joined import report
from tests.tolerance import assert_near

RNG = np.random.default_rng(0)
f32, f64, i32 = np.float32, np.float64, np.int32
bf16, f16 = ml_dtypes.bfloat16, np.float16
SHAPE = (96, 100)
X, Y = (RNG.normal(size=SHAPE).astype(f32) for _ in range(2))
MASK = RNG.uniform(size=SHAPE) < 0.7
MASK[:, 0] = True
SCALE, SHIFT = (RNG.uniform(1, 2, SHAPE[1]).astype(f32) for _ in range(2))
# Narrow floats are rounded after each op, on both sides, and pass through a few ops.
NARROW_UNITS = 4


def code_of(function: Callable[..., Any], *arguments: Any, target: str = "cpu") -> str:
    """The compiler's input for a program."""
    ensure_context()
    text = gn.jit(function).lower(*arguments).as_text("gnomon")
    artifact = IreeBackend(target).lower(Program(ir.Module.parse(text)))
    return artifact.plan.code.decode() if artifact.plan.code is not None else ""


def kernels_of(function: Callable[..., Any], *arguments: Any, target: str = "cpu") -> int:
    """The number of kernels of rows that a program has."""
    code = code_of(function, *arguments, target=target)
    return len(set(re.findall(rf"@{rows._PREFIX}\d+::", code)))


class Check(NamedTuple):
    """A program, and what is asserted about it.

    Attributes:
      function, arguments: the program.
      kernels: the number of its kernels of rows, if it is checked.
      terms: how many numbers are added up for a result, in all sums on the way: half a unit each,
        on both sides.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    kernels: int | None = 1
    terms: int = 200


def check_all(checks: dict[str, Check]) -> None:
    """Each program alone has its kernels of rows; compiled as one, all give eager code's results.

    Programs with 64-bit arguments are compiled apart from the others. Each has arguments of its
    own, so that the compiler shares nothing among them.
    """
    wide = {
        name: one
        for name, one in checks.items()
        if any(np.asarray(x).dtype in (f64, np.int64) for x in one.arguments)
    }
    problems: dict[str, str] = {}
    for x64, some in ((True, wide), (False, {k: v for k, v in checks.items() if k not in wide})):
        with gn.enable_x64(x64):
            problems |= _problems(some)
    report(problems)


def _problems(checks: dict[str, Check]) -> dict[str, str]:
    if not checks:
        return {}
    problems = {}
    for name, (function, arguments, kernels, _) in checks.items():
        if kernels is not None and (found := kernels_of(function, *arguments)) != kernels:
            problems[name] = f"{found} kernels instead of {kernels}"
    given = {name: [gnp.asarray(x) for x in one.arguments] for name, one in checks.items()}

    @gn.jit
    def together(given: dict[str, list[Any]]) -> dict[str, Any]:
        return {name: checks[name].function(*xs) for name, xs in given.items()}

    results = together(given)
    for name, one in checks.items():
        expected = gn.tree.leaves(one.function(*given[name]))
        try:
            for a, b in zip(gn.tree.leaves(results[name]), expected, strict=True):
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
                assert_near(a, b, NARROW_UNITS if b.dtype in (bf16, f16) else one.terms)
        except AssertionError as error:
            problems[name] = str(error)
    return problems


def check(
    function: Callable[..., Any], *arguments: Any, kernels: int | None = 1, terms: int = 200
) -> None:
    check_all({"the program": Check(function, arguments, kernels, terms)})


def layer_norm(x: Any, scale: Any = SCALE, shift: Any = SHIFT) -> Any:
    mean = gnp.mean(x, -1, keepdims=True)
    variance = gnp.var(x, -1, keepdims=True)
    return (x - mean) / gnp.sqrt(variance + 1e-5) * scale + shift


def rms_norm(x: Any) -> Any:
    return x * lax.rsqrt(gnp.mean(x * x, -1, keepdims=True) + 1e-6) * SCALE


def unit(x: Any) -> Any:
    return x / gnp.linalg.norm(x, axis=-1, keepdims=True)


def statistics(x: Any) -> Any:
    return gnp.mean(x, -1), gnp.std(x, -1), gnp.max(x, -1), gnp.min(x, -1)


def gelu_norm(x: Any) -> Any:
    return layer_norm(nn.gelu(x))


FUNCTIONS = {
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "unit": unit,
    "softmax": nn.softmax,
    "log_softmax": nn.log_softmax,
    "logsumexp": lambda x: nn.logsumexp(x, -1),
    "statistics": statistics,
    "sum_of_squares": lambda x: gnp.sum(x * x, -1),
    "gelu_norm": gelu_norm,
    "standardize": nn.standardize,
    "argmax": lambda x: gnp.argmax(x, -1),
    "product": lambda x: gnp.prod(1 + x / 100, -1),
    "two_levels_of_softmax": lambda x: nn.softmax(nn.softmax(x) * 10),
}


def test_functions_of_rows_are_one_kernel() -> None:
    check_all({name: Check(function, (X,)) for name, function in FUNCTIONS.items()})


def test_gradients() -> None:
    def gradient(function: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda x, y: gn.grad(lambda x: gnp.sum(function(x) * y))(x)

    names = ("layer_norm", "softmax", "log_softmax", "unit", "gelu_norm")
    check_all({name: Check(gradient(FUNCTIONS[name]), (X, Y)) for name in names})


def test_gradients_of_scale_and_shift_are_added_up_in_the_kernel() -> None:
    def gradients(x: Any, scale: Any, shift: Any, y: Any) -> Any:
        return gn.grad(lambda *a: gnp.sum(layer_norm(*a) * y), (0, 1, 2))(x, scale, shift)

    check(gradients, X, SCALE, SHIFT, Y)
    large = RNG.normal(size=(2048, 512)).astype(f32)
    scale = RNG.uniform(1, 2, 512).astype(f32)
    check(gradients, large, scale, scale, large, terms=2048 + 512)
    assert (
        "tensor<2048x512xf32>, "
        not in code_of(gradients, large, scale, scale, large)
        .split("flow.dispatch")[1]
        .split("->")[1]
    )


def test_gradients_of_gradients() -> None:
    def second(x: Any, y: Any) -> Any:
        def first(x: Any) -> Any:
            return gnp.sum(gn.grad(lambda x: gnp.sum(nn.softmax(x) * y))(x) ** 2)

        return gn.grad(first)(x)

    check(second, X, Y, kernels=None)


# ------------------------------------------------------------------------------------------ dtypes


def test_floats() -> None:
    checks = {}
    for dtype in map(np.dtype, (f64, bf16, f16)):
        x, scale = X.astype(dtype), SCALE.astype(dtype)
        checks[f"layer_norm of {dtype}"] = Check(lambda x, s: layer_norm(x, s, s), (x, scale))
        for name in ("softmax", "log_softmax", "statistics"):
            checks[f"{name} of {dtype}"] = Check(FUNCTIONS[name], (x,))
    check_all(checks)


def test_integers_bools_and_bits() -> None:
    def of_integers(x: Any) -> Any:
        largest = gnp.max(x, -1, keepdims=True)
        return largest - x, gnp.sum(x, -1), gnp.min(x, -1), (x * x) // gnp.maximum(x, 1)

    def of_bools(mask: Any) -> Any:
        return gnp.any(mask, -1), gnp.all(mask, -1), mask ^ gnp.any(mask, -1, keepdims=True)

    def of_bits(x: Any) -> Any:
        both = lax.reduce(x, i32(-1), lax.bitwise_and, (1,))
        some = lax.reduce(x, i32(0), lax.bitwise_or, (1,))
        return both, some, x ^ some[:, None]

    checks = {
        dtype: Check(of_integers, (RNG.integers(0, 100, SHAPE).astype(dtype),))
        for dtype in ("int8", "int32", "int64", "uint8", "uint32")
    }
    checks["bools"] = Check(of_bools, (X > 2.5,))
    checks["bits"] = Check(of_bits, (RNG.integers(0, 1 << 30, SHAPE).astype(i32),))
    check_all(checks)


def test_conversions() -> None:
    def function(x: Any) -> Any:
        counted = gnp.sum((x > 0).astype(i32), -1, keepdims=True)
        return x * counted, (x + counted).astype(i32), gnp.isfinite(x / counted)

    check(function, X)


# ---------------------------------------------------------------------------------------- operands


def test_masks() -> None:
    check_all(
        {
            "softmax": Check(lambda x, mask: nn.softmax(x, where=mask), (X, MASK)),
            "mean": Check(lambda x, mask: gnp.mean(x, -1, where=mask), (X, MASK)),
            "where": Check(
                lambda x, mask: gnp.where(mask, x, gnp.max(x, -1, keepdims=True)), (X, MASK)
            ),
        }
    )


def test_causal_masks_are_computed_in_the_kernel() -> None:
    x = RNG.normal(size=(2, 3, 64, 64)).astype(f32)

    def attention(x: Any) -> Any:
        mask = gnp.tril(gnp.ones((64, 64), bool))
        return nn.softmax(gnp.where(mask, x, -1e30))

    check(attention, x)


def test_iotas_along_rows_and_columns() -> None:
    def function(x: Any) -> Any:
        row, column = (lax.broadcasted_iota(f32, SHAPE, d) for d in (0, 1))
        centre = gnp.sum(nn.softmax(x) * column, -1, keepdims=True)
        return (column - centre) * x + row

    check(function, X)


def test_iotas_that_repeat_within_rows() -> None:
    x = RNG.normal(size=(20, 30, 40)).astype(f32)

    def function(x: Any) -> Any:
        ramp = lax.broadcasted_iota(f32, x.shape, 2)
        return gnp.sum(x * ramp, (1, 2)), gnp.max(x + ramp * 2, (1, 2), keepdims=True) - ramp

    check(function, x)


def test_broadcasts_along_every_dimension() -> None:
    x = RNG.normal(size=(4, 6, 8, 50)).astype(f32)
    parts = [
        RNG.normal(size=shape).astype(f32)
        for shape in [(50,), (8, 1), (6, 1, 1), (4, 1, 1, 1), (4, 1, 8, 1), (6, 1, 50), (1,), ()]
    ]

    def function(x: Any, *parts: Any) -> Any:
        for part in parts:
            x = x + part
        return nn.softmax(x), gnp.sum(x, -1) * parts[1][:, 0] + parts[-1]

    check(function, x, *parts)


def test_scalars_and_literals() -> None:
    check(lambda x, s: layer_norm(gnp.clip(x * s, -1, 1)) + s, X, f32(3))


def test_nan_and_infinity() -> None:
    x = X.copy()
    x[0, 3], x[1, 99], x[2, 0], x[3] = np.nan, np.inf, -np.inf, -np.inf
    check_all(
        {
            "statistics": Check(statistics, (x,)),
            "softmax": Check(nn.softmax, (x,)),
            "log_softmax": Check(nn.log_softmax, (x,)),
            "softmax of bfloat16": Check(lambda x: nn.softmax(x), (x.astype(bf16),)),
        }
    )


def test_starts_of_reductions() -> None:
    check_all(
        {
            "sum": Check(lambda x, s: lax.reduce(x, s, lax.add, (1,)), (X, f32(10))),
            "max": Check(lambda x: lax.reduce(x, f32(2), lax.max, (1,)) + gnp.max(x, -1), (X,)),
        }
    )


# ------------------------------------------------------------------------------------------ shapes

LENGTHS = [32, 33, 47, 48, 63, 64, 65, 127, 129, 250, 511, 515, 1000]


def test_lengths_of_rows() -> None:
    def function(x: Any) -> Any:
        y = nn.softmax(x) * x
        return y, gnp.sum(y, -1), gnp.max(y, -1), gnp.cos(y - gnp.mean(y, -1, keepdims=True))

    def array(length: int) -> np.ndarray:
        return RNG.normal(size=(rows.FEWEST_ELEMENTS // length + 1, length)).astype(f32)

    check_all({f"length {length}": Check(function, (array(length),)) for length in LENGTHS})


SIZES = [(9000,), (1, 9000), (2, 3, 1, 40, 50), (1, 8, 1, 8, 4, 64), (5000, 33), (20, 5000)]


def test_ranks_and_sizes() -> None:
    def function(x: Any) -> Any:
        return nn.log_softmax(x), gnp.sum(x, -1, keepdims=True)

    check_all(
        {
            f"shape {shape}": Check(function, (RNG.normal(size=shape).astype(f32),))
            for shape in SIZES
        }
    )


def test_reductions_of_the_last_dimensions() -> None:
    x = RNG.normal(size=(16, 4, 20, 30)).astype(f32)
    scale = RNG.normal(size=(4, 1, 1)).astype(f32)

    def instance_norm(x: Any, scale: Any) -> Any:
        mean, variance = (f(x, (-1, -2), keepdims=True) for f in (gnp.mean, gnp.var))
        return (x - mean) / gnp.sqrt(variance + 1e-5) * scale

    check_all(
        {
            "instance norm": Check(instance_norm, (x, scale)),
            "sum": Check(lambda x: x / gnp.sum(x, (1, 2, 3), keepdims=True), (x,)),
        }
    )


def test_reshapes_between_members() -> None:
    x = RNG.normal(size=(8, 16, 100)).astype(f32)
    check(lambda x: layer_norm(nn.softmax(x).reshape(128, 100)).reshape(4, 32, 100), x)


def test_square_arrays() -> None:
    x = RNG.uniform(1, 2, (128, 128)).astype(f32)

    def function(x: Any, scale: Any) -> Any:
        total = gnp.sum(x, -1)
        # The sums of rows are spread along rows and along columns.
        return x / total[:, None] * (scale + 1) + total, gnp.sin(total / 128)

    check(function, x, x[0], kernels=None)


def test_vmap_of_a_vector_function() -> None:
    check_all(
        {
            "softmax": Check(gn.vmap(lambda x, y: nn.softmax(x) * y), (X, Y)),
            "gradient": Check(gn.vmap(gn.grad(lambda x, y: gnp.sum(unit(x) * y))), (X, Y)),
        }
    )


def test_long_rows_need_no_buffer() -> None:
    x = RNG.normal(size=(20, 12345)).astype(f32)
    check_all(
        {
            "softmax": Check(nn.softmax, (x,)),
            "gelu_norm": Check(gelu_norm_of_rows, (x,), terms=12345),
        }
    )


def gelu_norm_of_rows(x: Any) -> Any:
    y = gnp.exp(nn.gelu(x))
    return (y - gnp.mean(y, -1, keepdims=True)) / gnp.std(y, -1, keepdims=True)


# ------------------------------------------------------------------------------------- the program


def test_intermediate_values_may_be_returned() -> None:
    def function(x: Any) -> Any:
        mean = gnp.mean(x, -1, keepdims=True)
        centred = x - mean
        power = gnp.exp(centred)
        return mean, centred, power, power / gnp.sum(power, -1, keepdims=True)

    check(function, X)


def test_ops_between_members_are_run_between_kernels() -> None:
    weight = RNG.normal(size=(100, 100)).astype(f32)

    def function(x: Any, weight: Any) -> Any:
        y = nn.softmax(x)
        return layer_norm(y + y @ weight + x)

    check(function, X, weight, kernels=2)


def test_values_of_the_forward_pass_are_computed_again() -> None:
    weight = (RNG.normal(size=(100, 100)) / 10).astype(f32)

    def loss(x: Any, weight: Any) -> Any:
        return gnp.sum(nn.softmax(layer_norm(x) @ weight) ** 2)

    check(gn.grad(loss, (0, 1)), X, weight, kernels=None, terms=1000)


def test_groups_of_different_rows_that_need_each_other() -> None:
    x = RNG.normal(size=(100, 2, 64)).astype(f32)

    def function(x: Any) -> Any:
        a = nn.softmax(x)
        b = nn.softmax(a.reshape(100, 128))
        c = b.reshape(100, 2, 64) * a
        return c / gnp.sum(c, -1, keepdims=True) + gnp.sum(b, -1)[:, None, None]

    check(function, x, kernels=None)


def test_in_loops_and_branches() -> None:
    x = RNG.normal(size=(512, 256)).astype(f32)

    def loop(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, x: nn.softmax(x * 3) + x, x)

    assert rows._PREFIX in code_of(loop, x)
    branch = lambda x, y: lax.cond(y, nn.softmax, unit, x)  # noqa: E731
    equal = lambda x, y: lax.cond(y, statistics, statistics, x)  # noqa: E731
    check_all(
        {
            "loop": Check(loop, (x,), None),
            "branch": Check(branch, (x, True), None),
            "equal branches": Check(equal, (x, True), None),
        }
    )


def test_donated_arguments() -> None:
    expected = np.asarray(nn.softmax(gnp.asarray(X)))
    found = gn.jit(nn.softmax, donate_argnums=0)(gnp.array(X))
    assert_near(found, expected, X.shape[1])


def test_calls_of_python_stay_in_order() -> None:
    seen: list[float] = []

    def function(x: Any) -> Any:
        y = nn.softmax(x)
        gn.debug.callback(lambda v: seen.append(float(v)), y[0, 0], ordered=True)
        gn.debug.callback(lambda v: seen.append(float(v)), x[0, 0], ordered=True)
        return y / gnp.sum(y * x, -1, keepdims=True)

    result = gn.jit(function)(X)
    gn.effects_barrier()
    assert len(seen) == 2
    assert seen[1] == X[0, 0]
    assert_near(result, function(gnp.asarray(X)), 200)


# -------------------------------------------------------------------------------------- thresholds


def test_short_rows_and_small_arrays_stay() -> None:
    def kernels(shape: tuple[int, ...]) -> int:
        return kernels_of(nn.softmax, np.zeros(shape, f32))

    short, few = rows.SHORTEST_ROW, rows.FEWEST_ELEMENTS
    assert kernels((few, short)) == 1
    assert kernels((few, short - 1)) == 0
    assert kernels((few // 64, 64)) == 1
    assert kernels((few // 64 - 1, 64)) == 0
    assert kernels((1, few)) == kernels((1, rows._LONG_ROW + 1)) == 1
    assert kernels((1, rows._LONG_ROW)) == 0
    assert kernels((rows._FEWEST_ROWS, rows._ONE_THREAD // 8)) == 1
    assert kernels((rows._FEWEST_ROWS - 1, rows._ONE_THREAD // 8)) == 0
    assert kernels((0, 64)) == 0


def test_elementwise_ops_and_columns_alone_stay() -> None:
    assert kernels_of(lambda x: gnp.sin(x) + x, X) == 0
    assert kernels_of(lambda x: gnp.sum(x, 0), X) == 0


def test_too_many_arrays_stay() -> None:
    def function(*xs: Any) -> Any:
        return nn.softmax(sum(xs))

    many = [X] * 40
    assert kernels_of(function, *many) <= 1
    check(function, *many, kernels=None)


def test_long_expressions_stay() -> None:
    def function(x: Any) -> Any:
        for k in range(rows._MOST_OPS):
            x = x * 1.01 + k
        return gnp.sum(x, -1)

    assert kernels_of(function, X) == 0


def test_devices_have_no_such_kernels() -> None:
    assert kernels_of(nn.softmax, X, target="vulkan:portable") == 0


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64-linux"])
def test_other_processors(target: str) -> None:
    assert kernels_of(nn.softmax, X, target=target) == 1
