"""Control flow: random nested programs through every transformation, and the edges of each op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gnomon.backends.reference import Evaluator
from gnomon.dialects.body import Body
from gnomon.dialects.contract import MappedAxis
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir, stablehlo
from gnomon.dialects.types import bfloat16, is_inexact
from gnomon.passes.differentiate import Differentiator
from gnomon.passes.expand_scan import expand_scan
from gnomon.passes.hoist_invariants import hoist_invariants
from gnomon.passes.pipeline import EXPAND, LOWER, run_passes
from gnomon.passes.vectorize import Vectorizer
from tests.dialects.random_programs import Dialect, Jax, Plain, random_body
from tests.tolerance import assert_near, units_of_differences

TAKES, GIVES = "vvssib", "vsib"
FLOATS = [0, 1, 2, 3]  # positions of the inexact arguments
INEXACT_RESULTS = [0, 1]
BATCH = 4

BOOL = np.dtype(np.bool_)

Arrays = Sequence[np.ndarray]


def seeds(count: int) -> list[Any]:
    """Seeds of random programs; all but the first few are slow tests."""
    marks = pytest.mark.slow, pytest.mark.sampled(0.4)
    return [n if n < 8 else pytest.param(n, marks=marks) for n in range(count)]


def run(body: Body, *arguments: Any) -> list[np.ndarray]:
    """Verify and evaluate a detached body."""
    program = Program()
    program.add("main", body.clone(), public=True)
    assert program.module.operation.verify()
    return Evaluator(program)("main", *map(np.asarray, arguments))


def draw(rng: np.random.Generator, kinds: str = TAKES) -> list[np.ndarray]:
    return [
        {
            "v": lambda: rng.uniform(-1, 1, 3),
            "s": lambda: np.asarray(rng.uniform(-1, 1)),
            "i": lambda: np.asarray(rng.integers(-1, 4), np.int32),
            "b": lambda: np.asarray(rng.random() < 0.5),
            "u": lambda: rng.integers(0, 5, 3).astype(np.uint32),
            "m": lambda: rng.random(3) < 0.5,
            "h": lambda: rng.uniform(-1, 1, 3).astype(bfloat16),
            "z": lambda: np.zeros(0),
        }[kind]()
        for kind in kinds
    ]


def program(seed: int, depth: int = 2, loops: bool = True) -> tuple[Callable[..., Any], Body]:
    """A random program: the plain function, and a body with loop invariants hoisted."""
    function = random_body(seed, TAKES, GIVES, depth, loops)
    body = Dialect().body(function, TAKES)
    if seed % 2:
        hoist_invariants(body)
    return lambda *values: function(Plain(), *values), body


def close(got: Any, expected: Any, units: float = 16.0) -> None:
    for g, e in zip(got, expected, strict=True):
        e = np.asarray(e)
        assert (g.dtype, g.shape) == (e.dtype, e.shape)
        assert_near(g, e, units, scale=1.0)


def jvp(body: Body, wrt: Sequence[int], instantiate: bool = True) -> Body:
    flags = [i in wrt for i in range(len(body.argument_types))]
    return Differentiator(Program()).jvp(body, flags, instantiate)[0]


def vjp(body: Body, wrt: Sequence[int], outputs: Sequence[int]) -> Body:
    return Differentiator(Program()).vjp(body, wrt, outputs)


def vmap(body: Body, mapped: Sequence[bool], size: int = BATCH) -> Body:
    axes = [0 if m else -1 for m in mapped]
    out_axes = [0] * len(body.result_types)
    return Vectorizer(Program()).vmap(body, axes, out_axes, MappedAxis(size))


def mapped_arguments(
    rng: np.random.Generator, kinds: str = TAKES, size: int = BATCH
) -> tuple[list[bool], list[np.ndarray], list[list[np.ndarray]]]:
    """The mask of mapped arguments, the stacked arguments, and those of each element."""
    mapped = [bool(rng.random() < 0.6) for _ in kinds]
    mapped[0] = True
    elements = [draw(rng, kinds) for _ in range(size)]
    first = elements[0]
    elements = [[x if m else f for x, m, f in zip(e, mapped, first, strict=True)] for e in elements]
    stacked = [np.stack([e[i] for e in elements]) if m else first[i] for i, m in enumerate(mapped)]
    return mapped, stacked, elements


STEP = 1e-6
DIFFERENCES = 64 * units_of_differences(STEP)


def directional(
    function: Callable[..., Any], at: Arrays, wrt: Sequence[int], tangents: Arrays
) -> list[np.ndarray]:
    """Central differences of all inexact results along tangents."""
    step = STEP

    def moved(sign: float) -> Any:
        values = list(at)
        for i, t in zip(wrt, tangents, strict=True):
            values[i] = np.asarray(values[i] + sign * step * t)
        return function(*values)

    return [
        (np.asarray(a) - np.asarray(b)) / (2 * step)
        for a, b in zip(moved(1), moved(-1), strict=True)
        if is_inexact(np.asarray(a).dtype)
    ]


# -------------------------------------------------------------------------------- random programs


@pytest.mark.parametrize("seed", seeds(40))
def test_evaluation_is_the_plain_loop(seed: int) -> None:
    plain, body = program(seed)
    arguments = draw(np.random.default_rng(seed))
    close(run(body, *arguments), plain(*arguments))


@pytest.mark.parametrize("seed", seeds(30))
def test_expanded_scans_and_hoisted_invariants_change_nothing(seed: int) -> None:
    plain, body = program(seed)
    arguments = draw(np.random.default_rng(seed))
    hoist_invariants(body)
    owner = Program()
    owner.add("main", body, public=True)
    expand_scan(owner)
    assert owner.module.operation.verify()
    assert "gnomon.scan" not in str(owner.module)
    close(Evaluator(owner)("main", *arguments), plain(*arguments))


@pytest.mark.parametrize("seed", seeds(20))
def test_passes_over_transformed_programs_change_nothing(seed: int) -> None:
    """Includes upstream's folding of tuples: with seed 6, an op takes a loop's results directly."""
    plain, body = program(seed)
    arguments = draw(np.random.default_rng(seed))
    owner = Program()
    owner.add("main", body, public=True)
    run_passes(owner.module, (*EXPAND, "hoist-invariants", "canonicalize"))
    assert owner.module.operation.verify()
    close(Evaluator(owner)("main", *arguments), plain(*arguments))


@pytest.mark.parametrize("seed", seeds(12))
def test_stablehlo_interpreter_agrees(seed: int) -> None:
    plain, body = program(seed)
    arguments = draw(np.random.default_rng(seed))
    owner = Program()
    owner.add("main", body, public=True)
    run_passes(owner.module, LOWER)
    assert owner.module.operation.verify()
    assert "gnomon." not in str(owner.module)
    close(interpret(owner.module, arguments), plain(*arguments))


def interpret(module: ir.Module, arguments: Arrays) -> list[np.ndarray]:
    """Run a StableHLO module with the reference interpreter."""
    attributes = []
    for value in arguments:
        if value.dtype == BOOL:
            text = str(value.tolist()).lower()
            attributes.append(ir.Attribute.parse(f"dense<{text}> : tensor<i1>"))
        else:
            attributes.append(ir.DenseElementsAttr.get(value))
    return [np.asarray(r) for r in stablehlo.eval_module(module, attributes)]


@pytest.mark.parametrize("seed", seeds(30))
def test_forward_mode_against_differences(seed: int) -> None:
    plain, body = program(seed)
    rng = np.random.default_rng(seed)
    arguments = draw(rng)
    wrt = sorted(rng.choice(FLOATS, rng.integers(1, 5), replace=False).tolist())
    tangents = [rng.uniform(-1, 1, np.shape(arguments[i])) for i in wrt]
    got = run(jvp(body, wrt), *arguments, *tangents)
    close(got[: len(GIVES)], plain(*arguments))
    close(got[len(GIVES) :], directional(plain, arguments, wrt, tangents), DIFFERENCES)


@pytest.mark.parametrize("seed", seeds(40))
def test_reverse_mode_is_the_transpose_of_forward_mode(seed: int) -> None:
    plain, body = program(seed, loops=False)
    rng = np.random.default_rng(seed)
    arguments = draw(rng)
    tangents = [rng.uniform(-1, 1, np.shape(arguments[i])) for i in FLOATS]
    cotangents = [rng.uniform(-1, 1, np.shape(plain(*arguments)[i])) for i in INEXACT_RESULTS]
    forward = run(jvp(body, FLOATS), *arguments, *tangents)[len(GIVES) :]
    reverse = run(vjp(body, FLOATS, INEXACT_RESULTS), *arguments, *cotangents)
    close(reverse[: len(GIVES)], plain(*arguments))
    left = sum(np.vdot(a, b) for a, b in zip(cotangents, forward, strict=True))
    right = sum(np.vdot(a, b) for a, b in zip(tangents, reverse[len(GIVES) :], strict=True))
    assert_near(left, right, 64, scale=1.0)


@pytest.mark.parametrize("seed", seeds(30))
def test_vmap_is_the_stacked_loop(seed: int) -> None:
    plain, body = program(seed)
    mapped, stacked, elements = mapped_arguments(np.random.default_rng(seed))
    got = run(vmap(body, mapped), *stacked)
    each = [plain(*e) for e in elements]
    close(got, [np.stack([e[i] for e in each]) for i in range(len(GIVES))])


@pytest.mark.parametrize("seed", seeds(10))
def test_nested_vmap(seed: int) -> None:
    plain, body = program(seed)
    rng = np.random.default_rng(seed)
    outer, inner = [True, False, True, True, True, False], [False, True, True, True, True, True]
    sizes = [((2,) if o else ()) + ((3,) if i else ()) for o, i in zip(outer, inner, strict=True)]
    arguments = [
        np.array([draw(rng, k)[0] for _ in range(int(np.prod(s)))]).reshape(
            (*s, *draw(rng, k)[0].shape)
        )
        for k, s in zip(TAKES, sizes, strict=True)
    ]
    got = run(vmap(vmap(body, inner, 3), outer, 2), *arguments)
    for o in range(2):
        for i in range(3):
            element = [
                a[((o,) if mo else ()) + ((i,) if mi else ())]
                for a, mo, mi in zip(arguments, outer, inner, strict=True)
            ]
            close([np.asarray(g[o, i]) for g in got], plain(*map(np.asarray, element)))


@pytest.mark.parametrize("seed", seeds(15))
def test_second_order(seed: int) -> None:
    """Forward over reverse equals differences of reverse; reverse over reverse is its transpose."""
    _, body = program(seed, loops=False)
    rng = np.random.default_rng(seed)
    arguments = [*draw(rng), rng.uniform(-1, 1, 3), np.asarray(rng.uniform(-1, 1))]
    count = len(GIVES)
    gradient = vjp(body, FLOATS, INEXACT_RESULTS)
    wrt = [*FLOATS, 6, 7]
    tangents = [rng.uniform(-1, 1, np.shape(arguments[i])) for i in wrt]

    def first_order(*values: Any) -> list[np.ndarray]:
        return run(gradient, *values)

    total = len(gradient.result_types)
    forward = run(jvp(gradient, wrt), *arguments, *tangents)
    close(forward[total:], directional(first_order, arguments, wrt, tangents), DIFFERENCES)

    outputs = [*INEXACT_RESULTS, *range(count, total)]
    cotangents = [rng.uniform(-1, 1, gradient.result_types[i].shape) for i in outputs]
    reverse = run(vjp(gradient, wrt, outputs), *arguments, *cotangents)[total:]
    left = sum(np.vdot(a, b) for a, b in zip(cotangents, forward[total:], strict=True))
    right = sum(np.vdot(a, b) for a, b in zip(tangents, reverse, strict=True))
    assert_near(left, right, 64, scale=1.0)


@pytest.mark.parametrize("seed", seeds(15))
def test_vmap_of_reverse_and_reverse_of_vmap(seed: int) -> None:
    _, body = program(seed, loops=False)
    rng = np.random.default_rng(seed)
    mapped, stacked, elements = mapped_arguments(rng)
    cotangents = [rng.uniform(-1, 1, (BATCH, 3)), rng.uniform(-1, 1, BATCH)]
    gradient = vjp(body, FLOATS, INEXACT_RESULTS)
    count = len(GIVES)
    each = [
        run(gradient, *e, *(ct[i] for ct in cotangents))[count:] for i, e in enumerate(elements)
    ]
    expected = [np.stack([e[i] for e in each]) for i in range(len(FLOATS))]
    batched = vmap(gradient, [*mapped, True, True])
    close(run(batched, *stacked, *cotangents)[count:], expected)

    outside = vjp(vmap(body, mapped), FLOATS, INEXACT_RESULTS)
    summed = [x if mapped[i] else x.sum(0) for i, x in zip(FLOATS, expected, strict=True)]
    close(run(outside, *stacked, *cotangents)[count:], summed)


@pytest.mark.parametrize("seed", seeds(15))
def test_vmap_of_forward_mode(seed: int) -> None:
    _, body = program(seed)
    rng = np.random.default_rng(seed)
    mapped, stacked, elements = mapped_arguments(rng)
    tangents = [rng.uniform(-1, 1, (BATCH, *np.shape(elements[0][i]))) for i in FLOATS]
    derivative = jvp(body, FLOATS)
    each = [run(derivative, *e, *(t[k] for t in tangents)) for k, e in enumerate(elements)]
    expected = [np.stack([e[i] for e in each]) for i in range(len(each[0]))]
    got = run(vmap(derivative, [*mapped, *[True] * 4]), *stacked, *tangents)
    close(got, expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_jax_agrees(seed: int) -> None:
    """Values, gradients, and batched values, with batched predicates, against jax.lax."""
    jax = pytest.importorskip("jax")
    function = random_body(seed, TAKES, GIVES, 2, loops=False)
    looping = random_body(seed, TAKES, GIVES, 2)
    rng = np.random.default_rng(seed)
    arguments = draw(rng)
    cotangents = [rng.uniform(-1, 1, 3), np.asarray(rng.uniform(-1, 1))]
    mapped, stacked, _ = mapped_arguments(rng)
    with jax.enable_x64(True):
        lang = Jax()

        def floats(*values: Any) -> Any:
            return tuple(function(lang, *values, *arguments[4:])[:2])

        _, pull = jax.vjp(floats, *arguments[:4])
        gradient = pull(tuple(map(jax.numpy.asarray, cotangents)))
        axes = [0 if m else None for m in mapped]
        each = jax.vmap(lambda *values: looping(lang, *values), in_axes=axes)(*stacked)
    dialect = Dialect()
    body = dialect.body(function, TAKES)
    got = run(vjp(body, FLOATS, INEXACT_RESULTS), *arguments, *cotangents)[len(GIVES) :]
    close(got, [np.asarray(g) for g in gradient])
    got = run(vmap(dialect.body(looping, TAKES), mapped), *stacked)
    close(got, [np.asarray(e) for e in each])
