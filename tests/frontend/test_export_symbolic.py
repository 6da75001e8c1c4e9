"""Symbolic shapes of `gnomon.export` compared with `jax.export`: texts, programs, calls, errors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import jax
import jax.export as jax_export
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
import gnomon_runtime
from gnomon import export, lax
from gnomon.errors import InconclusiveDimensionOperation
from tests.sample import sample
from tests.tolerance import assert_near

F32 = np.dtype(np.float32)


def namespace(module: Any) -> SimpleNamespace:
    """The modules of gnomon or JAX that programs use."""
    names = ("numpy", "lax", "nn", "random", "grad", "vmap", "jit", "jvp", "hessian", "jacfwd")
    names += ("ops", "image")
    return SimpleNamespace(np=module.numpy, **{n: getattr(module, n) for n in names})


OURS, THEIRS = namespace(gn), namespace(jax)

# ------------------------------------------------------------------------------------------- texts

SHAPES = [
    "a, 2*b + 1, 3",
    "(a, b)",
    "a,",
    "",
    "max(a, b), min(a, 3), floordiv(a + 1, 2), mod(a, 2), a^2, 2*a - 3*b + 1",
    "4*a - 2*a, a*b - b*a + 1, -1 + a, 2 + 3",
]


@pytest.mark.parametrize("text", SHAPES)
def test_shapes_read_and_print_as_by_jax(text) -> None:
    assert str(export.symbolic_shape(text)) == str(jax_export.symbolic_shape(text))


@pytest.mark.parametrize(
    "text", ["a, b/2", "a+", "...", "a, ...", "2, _", "a, 2.5", "a b", "max(a)"]
)
def test_wrong_texts_are_refused_as_by_jax(text) -> None:
    for module in (export, jax_export):
        with pytest.raises(ValueError, match="syntax error in symbolic shape"):
            module.symbolic_shape(text)


@pytest.mark.parametrize("constraint", ["a", "a > b > c", "a != b", "a > 3"])
def test_wrong_constraints_are_refused_as_by_jax(constraint) -> None:
    for module in (export, jax_export):
        with pytest.raises(ValueError, match="Constraint parsing error"):
            module.symbolic_shape("a, b", constraints=[constraint])


def test_placeholders() -> None:
    for module in (export, jax_export):
        assert str(module.symbolic_shape("a, ...", like=(3, 4, 5))) == "(a, 4, 5)"
        assert str(module.symbolic_shape("_, b", like=(3, 4))) == "(3, b)"
        with pytest.raises(ValueError, match="Cannot specify both"):
            module.symbolic_shape("a", constraints=["a >= 2"], scope=module.SymbolicScope())


@pytest.mark.parametrize(
    "text",
    [
        "a == b",
        "a != b",
        "a == 1",
        "a + 1 == a",
        "a >= 1",
        "a > b",
        "bool(a)",
        "a * 2 // a",
        "5 // a",
        "divmod(a, 2)",
        "sum([a, b])",
        "(a + b) % 2 == 0",
        "a // 2 >= 0",
        "a % 3 <= 2",
        "a % 3 < 2",
        "max(a, b)",
        "max(a, 1)",
        "int(a)",
        "type(a - a)",
        "1 - a",
    ],
)
def test_dimensions_compute_as_jax_s(text) -> None:
    answers = []
    for module in (export, jax_export):
        a, b = module.symbolic_shape("a, b")
        try:
            answers.append(str(eval(text, {"a": a, "b": b})))
        except Exception as error:
            answers.append(type(error).__name__)
    assert answers[0] == answers[1]


def test_args_specs() -> None:
    args = np.ones((3, 4), F32), [np.ones(3, F32), np.ones((3, 2), F32)]
    for specs in "b, ...", ("b, ...", ["c", None]), (None, "c, ..."):
        ours, theirs = (m.symbolic_args_specs(args, specs) for m in (export, jax_export))
        assert str(ours) == str(theirs)
    for module in (export, jax_export):
        with pytest.raises(ValueError, match="should be None or a string"):
            module.symbolic_args_specs(args, ("b, ...", 3))
        with pytest.raises(ValueError, match="prefix"):
            module.symbolic_args_specs(args, ("b, ...",))


# ---------------------------------------------------------------------------------------- programs

PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "a network": (
        lambda m: lambda w, v, x: m.nn.softmax(m.nn.relu(x @ w) @ v),
        ("3,8", "8,2", "b,3"),
    ),
    "a gradient": (
        lambda m: m.grad(lambda w, x: m.np.mean(m.nn.log_softmax(m.np.tanh(x @ w))[:, 0])),
        ("3,8", "b,3"),
    ),
    "vmap": (lambda m: m.vmap(lambda x: x @ x), ("b,a",)),
    "vmap of grad": (lambda m: m.vmap(m.grad(lambda x: m.np.sum(m.np.sin(x) ** 2))), ("b,a",)),
    "hessian": (lambda m: m.hessian(lambda x: m.np.sum(x**3)), ("a",)),
    "jvp": (lambda m: lambda x: m.jvp(m.np.sin, (x,), (x,))[1], ("a",)),
    "moments": (lambda m: lambda x: m.np.mean(x, 0) + m.np.var(x, 0) + m.np.std(x), ("b,a",)),
    "flatten": (lambda m: lambda x: x.reshape(x.shape[0], -1), ("b,a,2",)),
    "ravel": (lambda m: lambda x: m.np.reshape(x, -1) * x.size, ("b,a",)),
    "concatenate": (lambda m: lambda x, y: m.np.concatenate([x, y, x]), ("a", "b")),
    "the first half": (lambda m: lambda x: x[: x.shape[0] // 2], ("a",)),
    "ends": (lambda m: lambda x: x[-1] + x[0], ("a",)),
    "reversed": (lambda m: lambda x: (x[::-1], m.np.flip(x)), ("a",)),
    "strides": (lambda m: lambda x: (x[1::2], x[::-2]), ("a",)),
    "inner": (lambda m: lambda x: (x[1:-1], x[:2], x[-2:]), ("a",)),
    "arange": (lambda m: lambda x: x * m.np.arange(x.shape[0]), ("a",)),
    "eye": (lambda m: lambda x: x @ m.np.eye(x.shape[1]), ("b,a",)),
    "filled": (
        lambda m: lambda x: m.np.ones((x.shape[0], 3)) + m.np.zeros_like(x)[:, None],
        ("a",),
    ),
    "sizes as numbers": (
        lambda m: lambda x: x * x.shape[0] / x.shape[0] + 1.5 * x.shape[0] + m.np.array(x.shape[0]),
        ("a",),
    ),
    "pad": (lambda m: lambda x: m.np.pad(x, ((1, 2), (0, 0))), ("b,a",)),
    "pad by sizes": (
        lambda m: (
            lambda x: (
                m.np.pad(x, (0, x.shape[0])),
                m.np.pad(x, x.shape[0] - 1, constant_values=2.0),
                m.np.pad(x, ((1, x.shape[0]),), mode="edge"),
                m.np.pad(x, (x.shape[0], 2), mode="mean"),
            )
        ),
        ("a",),
    ),
    "repeat": (lambda m: lambda x: (m.np.tile(x, (2, 1)), m.np.repeat(x, 2, axis=0)), ("b,a",)),
    "roll": (lambda m: lambda x: m.np.roll(x, 1), ("a",)),
    "sort": (lambda m: lambda x: (m.np.sort(x), m.np.argsort(x)), ("a",)),
    "cumsum": (lambda m: lambda x: m.np.cumsum(x, axis=0), ("b,a",)),
    "tril": (lambda m: lambda x: m.np.tril(x), ("a,a",)),
    "einsum": (lambda m: lambda x, y: m.np.einsum("bij,bjk->bik", x, y), ("b,a,2", "b,2,a")),
    "argmax": (lambda m: lambda x: (m.np.max(x, axis=1), m.np.argmax(x, axis=1)), ("b,a",)),
    "stack": (lambda m: lambda x: m.np.stack([x, x], 1).T, ("a",)),
    "split": (lambda m: lambda x: m.np.split(x, 2)[1], ("2*a",)),
    "take": (lambda m: lambda x: x[m.np.array([0, -1])], ("b,a",)),
    "take along": (
        lambda m: lambda x: m.np.take_along_axis(x, m.np.argsort(x, axis=1), axis=1),
        ("b,a",),
    ),
    "scan": (
        lambda m: lambda x: m.lax.scan(lambda c, r: (c + r, c * r), m.np.zeros(x.shape[1]), x),
        ("b,a",),
    ),
    "a loop over a size": (
        lambda m: lambda x: m.lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], 0.0),
        ("a",),
    ),
    "map": (lambda m: lambda x: m.lax.map(lambda r: m.np.sum(r**2), x), ("b,a",)),
    "cond": (
        lambda m: lambda x: m.lax.cond(m.np.sum(x) > 0, lambda y: y + 1, lambda y: y - 1, x),
        ("a",),
    ),
    "updates": (lambda m: lambda x: x.at[0].set(3.0).at[-1].add(1.0).at[1:].multiply(2.0), ("a",)),
    "convolution": (
        lambda m: lambda x, k: m.lax.conv_general_dilated(x, k, (2, 2), "VALID"),
        ("b,1,8,8", "2,1,3,3"),
    ),
    "convolution of any image": (
        lambda m: lambda x, k: m.lax.conv_general_dilated(x, k, (1, 1), "SAME"),
        ("b,1,a+3,a+4", "2,1,3,3"),
    ),
    "strided convolution of any image": (
        lambda m: (
            lambda x, k: tuple(
                m.lax.conv_general_dilated(x, k, (2, 3), padding, rhs_dilation=(1, 2))
                for padding in ("SAME", "VALID", "SAME_LOWER")
            )
        ),
        ("b,1,a+3,2*a+5", "2,1,3,3"),
    ),
    "pooling": (
        lambda m: (
            lambda x: (
                m.lax.reduce_window(x, -m.np.inf, m.lax.max, (1, 3), (1, 2), "SAME"),
                m.lax.reduce_window(x, 0.0, m.lax.add, (1, 2), (1, 2), "VALID"),
                m.lax.reduce_window(
                    x, 0.0, m.lax.add, (1, 2), (1, 1), [(0, 1), (2, 1)], (2, 2), (1, 2)
                ),
            )
        ),
        ("b,a",),
    ),
    "a window of a whole dimension": (
        lambda m: (
            lambda x: m.lax.reduce_window(x, 0.0, m.lax.add, (1, x.shape[1]), (1, 1), "VALID")
        ),
        ("b,a",),
    ),
    "attention": (
        lambda m: lambda q, k, v: m.nn.dot_product_attention(q, k, v),
        ("b,a,2,4", "b,a,2,4", "b,a,2,4"),
    ),
    "random numbers": (
        lambda m: lambda x: m.random.uniform(m.random.key(0), x.shape),
        ("b,a",),
    ),
    "a nested jit": (
        lambda m: lambda x: m.jit(lambda y: y * 2 + m.np.arange(y.shape[0]))(x),
        ("a",),
    ),
    "a linear system": (
        lambda m: lambda x, y: m.np.linalg.solve(x @ x.T + 9 * m.np.eye(x.shape[0]), y),
        ("a,a", "a"),
    ),
    "cumulative functions": (
        lambda m: (
            lambda x: (
                m.np.cumprod(x, axis=1),
                m.lax.cummax(x, 0),
                m.lax.cummin(x, 1, reverse=True),
                m.lax.cumlogsumexp(x, 1),
                m.lax.cumsum(x, 0, reverse=True),
                m.np.cumsum((10 * x).astype(m.np.int32), axis=1),
                m.np.cumsum(x.astype(m.np.float16), axis=0),
            )
        ),
        ("b,a",),
    ),
    "the gradient of a cumulative sum": (
        lambda m: m.grad(lambda x: m.np.sum(m.np.sin(m.np.cumsum(x, axis=0)))),
        ("b,a",),
    ),
    "truth": (
        lambda m: (
            lambda x: (
                m.np.all(x),
                m.np.any(x, axis=1),
                m.np.count_nonzero(x.astype(m.np.int32), axis=0),
            )
        ),
        ("b,a",),
    ),
    "nonzero": (
        lambda m: (
            lambda x: (
                m.np.nonzero(x > 0, size=3),
                m.np.flatnonzero(x > 0, size=4, fill_value=-1),
                m.np.where(x > 0, size=x.shape[0]),
                m.np.argwhere(x > 0, size=4),
            )
        ),
        ("b,a",),
    ),
    "unique": (
        lambda m: lambda x: m.np.unique(m.np.round(x), True, True, True, size=3, fill_value=9.0),
        ("a,b",),
    ),
    "membership": (
        lambda m: (
            lambda x, y: (
                m.np.isin(m.np.round(x), m.np.round(y)),
                m.np.isin(m.np.round(x), m.np.array([0.0, 1.0])),
                m.np.isin(m.np.array([0.0, 1.0]), m.np.round(x), invert=True),
            )
        ),
        ("a", "b"),
    ),
    "roll by sizes": (
        lambda m: (
            lambda x: (
                m.np.roll(x, x.shape[0] // 2, axis=0),
                m.np.roll(x, (x.shape[1], -1), axis=(0, 1)),
                m.np.fft.fftshift(x),
                m.np.fft.ifftshift(x, axes=1),
            )
        ),
        ("b,a",),
    ),
    "split at a position": (lambda m: lambda x: m.np.split(x, [1]), ("a,b",)),
    "segments": (
        lambda m: (
            lambda x: (
                m.ops.segment_sum(x, m.np.arange(x.shape[0]) % 2, num_segments=x.shape[0]),
                m.ops.segment_max(x, m.np.arange(x.shape[0]) // 2, num_segments=x.shape[1]),
            )
        ),
        ("b,a",),
    ),
    "classes": (
        lambda m: (
            lambda x: (
                m.nn.one_hot(m.np.arange(x.shape[0]), x.shape[1]),
                m.nn.one_hot(m.np.arange(x.shape[0]), x.shape[0], axis=0),
                m.np.bincount((x[0] * 2).astype(m.np.int32), length=x.shape[0]),
            )
        ),
        ("b,a",),
    ),
    "top_k": (lambda m: lambda x: m.lax.top_k(x, 2), ("b,a",)),
    "images of a size": (
        lambda m: (
            lambda x: tuple(
                m.image.resize(x, (4, x.shape[1]), method, antialias)
                for method in ("nearest", "linear", "cubic", "lanczos3")
                for antialias in (True, False)
            )
        ),
        ("a,b",),
    ),
    "images of any size": (
        lambda m: (
            lambda x: tuple(
                m.image.resize(x, (x.shape[0] * 2, x.shape[1] + 1), method)
                for method in ("nearest", "linear", "cubic", "lanczos5")
            )
        ),
        ("a,b",),
    ),
    "joined slices": (
        lambda m: (
            lambda x: tuple(
                function(each)
                for function in (m.np.vstack, m.np.hstack, m.np.dstack, m.np.column_stack)
                for each in (x, x[0], x[None].swapaxes(0, 1))
            )
        ),
        ("b,a",),
    ),
    "concatenated slices": (
        lambda m: (
            lambda x: (
                m.np.concatenate(x),
                m.np.concatenate(x[:, None], axis=1),
                m.np.concatenate(x, axis=None),
            )
        ),
        ("b,a",),
    ),
    "diagonals": (lambda m: lambda x: (m.np.trace(x), m.np.diag(m.np.diagonal(x))), ("a,a",)),
}


def specs(module, struct, texts, constraints=("a >= 2",)):
    scope = module.SymbolicScope(constraints)
    return [struct(module.symbolic_shape(text, scope=scope), F32) for text in texts]


def shape_of(text, values):
    return tuple(eval(n, dict(values)) for n in text.split(","))


SIZES = [{"a": 5, "b": 3}, {"a": 2, "b": 1}]


def arrays_of(texts: Sequence[str], values: dict[str, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape_of(text, values)).astype(F32) for text in texts]


def check_results(found: dict[str, Any], expected: dict[str, Any], values: Any) -> None:
    """Compare the results of programs by their names, at some sizes."""
    for name, wanted in expected.items():
        leaves, others = gn.tree.leaves(found[name]), jax.tree.leaves(wanted)
        for a, b in zip(leaves, map(np.asarray, others), strict=True):
            what = f"{name} at {values}"
            assert (a.shape, a.dtype) == (b.shape, b.dtype), what
            scale = float(np.max(np.abs(b), initial=1.0))
            assert_near(np.asarray(a), b, 64, scale=scale, message=what)


def test_shapes_of_convolutions_of_symbolic_sizes() -> None:
    b, h = export.symbolic_shape("b, h", constraints=["h >= 4"])
    shape = lax.conv_shape_tuple((b, 3, h, 8), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), 1)
    assert shape == (b, 4, h, 8)


def test_programs() -> None:
    """One program agrees with JAX at every size, also after serialization."""
    calls = {}
    for name, (make, texts) in PROGRAMS.items():
        exported = export.export(gn.jit(make(OURS)))(*specs(export, gn.ShapeDtypeStruct, texts))
        theirs = jax.eval_shape(make(THEIRS), *specs(jax_export, jax.ShapeDtypeStruct, texts))
        found = [(str(a.shape), a.dtype) for a in exported.out_avals]
        assert found == [(str(a.shape), a.dtype) for a in jax.tree.leaves(theirs)], name
        again = export.deserialize(exported.serialize())
        assert list(map(str, again.out_avals)) == list(map(str, exported.out_avals)), name
        calls[name] = again.call

    names = sample(PROGRAMS, 4, __name__)

    def run(functions: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        return {name: functions[name](*given[name]) for name in names}

    for values in SIZES:
        given = {name: arrays_of(PROGRAMS[name][1], values) for name in names}
        theirs = {name: PROGRAMS[name][0](THEIRS) for name in names}
        expected = jax.jit(functools.partial(run, theirs))(given)
        check_results(gn.jit(functools.partial(run, calls))(given), expected, values)


# Programs that JAX does not export.
MORE_PROGRAMS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "gradients of a convolution": (
        gn.grad(
            lambda x, k: gnp.sum(gnp.sin(lax.conv_general_dilated(x, k, (2, 2), "SAME"))),
            argnums=(0, 1),
        ),
        ("b,1,a+3,a+4", "2,1,3,3"),
    ),
    "an index by a size": (lambda x: (x[x.shape[0] - 1], x[x.shape[0] // 2]), ("a",)),
    "index arrays": (
        lambda x: (
            x[gnp.arange(x.shape[0])[:, None], gnp.arange(x.shape[1])],
            x[gnp.arange(x.shape[0]), gnp.arange(x.shape[0]) % x.shape[1]],
        ),
        ("b,a",),
    ),
    "padding by a size": (
        lambda x, k: lax.conv_general_dilated(x, k, (2, 3), [(1, x.shape[2]), (0, -1)]),
        ("b,1,a+3,a+4", "2,1,3,3"),
    ),
    "a kernel of any size": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME"),
        ("b,1,a+3,a+4", "2,1,a,b"),
    ),
    "gradients of pooling": (
        lambda x: (
            gn.grad(
                lambda x: gnp.sum(
                    gnp.sin(lax.reduce_window(x, 0.0, lax.add, (1, 3), (1, 2), "SAME"))
                )
            )(x),
            gn.grad(
                lambda x: gnp.sum(lax.reduce_window(x, -gnp.inf, lax.max, (1, 2), (1, 2), "VALID"))
            )(x),
        ),
        ("b,a",),
    ),
    "stacked slices": (lambda x: (gnp.stack(x, axis=1), gnp.stack(x[0])), ("b,a",)),
    "bits": (
        lambda x: (gnp.packbits(x > 0), gnp.packbits(x > 0, axis=0, bitorder="little")),
        ("4*b,a+3",),
    ),
    "arrays that may be empty": (
        lambda x: (
            gnp.nonzero(x[1:] > 0, size=3, fill_value=-1),
            gnp.isin(gnp.round(x[1:]), gnp.round(x[:1])),
            gnp.cumsum(x[1:], axis=0),
        ),
        ("b,a",),
    ),
    "split at positions": (
        lambda x: (
            gnp.split(x, [1, -1]),
            gnp.split(x, [x.shape[1], 1], axis=1),
            gnp.array_split(x, [3, 1, 4]),
        ),
        ("a,b",),
    ),
    "as many distinct elements as rows": (
        lambda x: gnp.unique(gnp.round(x), return_counts=True, size=x.shape[0], fill_value=9.0),
        ("a,b",),
    ),
    "correlations": (lambda x: gnp.corrcoef(x), ("a,4",)),
    "positions among sorted numbers": (
        lambda x, y: (
            gnp.searchsorted(gnp.sort(x), y),
            gnp.searchsorted(gnp.sort(x), y, "right", method="sort"),
        ),
        ("a", "b,a"),
    ),
    "other methods of resizing": (
        lambda x: tuple(
            gn.image.resize(x, (x.shape[0] + 2, 3), method, antialias=False)
            for method in ("area", "cubic-pytorch")
        ),
        ("a,b",),
    ),
    "windows padded by a size": (
        lambda x: lax.reduce_window(
            x, 0.0, lax.add, (1, 2), (1, 1), [(0, 1), (x.shape[0], 1)], (2, 2), (1, 2)
        ),
        ("b,a",),
    ),
}


def test_programs_that_only_gnomon_exports() -> None:
    calls = {}
    for name, (function, texts) in MORE_PROGRAMS.items():
        exported = export.export(gn.jit(function))(*specs(export, gn.ShapeDtypeStruct, texts))
        calls[name] = export.deserialize(exported.serialize()).call
    names = sample(MORE_PROGRAMS, 3, "more programs")
    for values in SIZES:
        given = {name: arrays_of(MORE_PROGRAMS[name][1], values) for name in names}
        found = gn.jit(lambda given: {name: calls[name](*given[name]) for name in names})(given)
        expected = {name: MORE_PROGRAMS[name][0](*map(gnp.asarray, given[name])) for name in names}
        check_results(found, expected, values)


@pytest.mark.parametrize("mode", ["linear_ramp", "reflect", "wrap"])
def test_pads_that_need_the_sizes_are_refused(mode) -> None:
    (spec,) = specs(export, gn.ShapeDtypeStruct, ("a",))
    with pytest.raises(NotImplementedError, match=f"pad: mode '{mode}' needs sizes .* a, 0, a"):
        gn.eval_shape(lambda x: gn.numpy.pad(x, (0, x.shape[0]), mode=mode), spec)


def test_a_program_is_that_of_the_sizes() -> None:
    """A call runs the program that tracing for its shapes would produce."""

    def fun(w, x):
        return gn.numpy.sum(gn.numpy.tanh(x @ w)[:, ::-1], axis=0)

    symbolic = export.export(gn.jit(fun))(*specs(export, gn.ShapeDtypeStruct, ("3,4", "b,3")))
    types = gn.ShapeDtypeStruct((3, 4), F32), gn.ShapeDtypeStruct((6, 3), F32)
    text = gn.jit(symbolic.call).lower(*types).as_text("gnomon")
    found = [line.split(" = ")[1] for line in text.splitlines() if " = " in line]
    plain = gn.jit(fun).lower(*types).as_text("gnomon")
    assert found == [line.split(" = ")[1] for line in plain.splitlines() if " = " in line]


# ------------------------------------------------------------------------------- calls of all kinds


@pytest.fixture(scope="module")
def energy():
    """An exported function of two arrays, and the function."""

    def fun(x, y):
        return gn.numpy.sum(gn.numpy.sin(x) @ y) / x.shape[0]

    exported = export.export(gn.jit(fun))(*specs(export, gn.ShapeDtypeStruct, ("b,a", "a")))
    return export.deserialize(exported.serialize(vjp_order=2)), fun


def arrays(b, a):
    rng = np.random.default_rng(1)
    return rng.normal(size=(b, a)).astype(F32), rng.normal(size=a).astype(F32)


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("sizes", [(4, 3), (1, 2)])
def test_derivatives(energy, sizes) -> None:
    exported, fun = energy
    x, y = arrays(*sizes)
    for ours, plain in zip(
        gn.grad(exported.call, (0, 1))(x, y), gn.grad(fun, (0, 1))(x, y), strict=True
    ):
        assert_near(ours, plain, 16)

    def twice(f):
        return gn.grad(lambda x: gn.numpy.sum(gn.grad(f)(x, y) ** 2))(x)

    assert_near(twice(exported.call), twice(fun), 16)


def test_the_vjp_is_symbolic_too(energy) -> None:
    exported, _ = energy
    derivative = exported.vjp()
    assert [str(a.shape) for a in derivative.in_avals] == ["(b, a)", "(a,)", "()"]
    assert [str(a.shape) for a in derivative.out_avals] == ["(b, a)", "(a,)"]
    assert derivative.has_vjp()


def test_inside_of_transformations(energy) -> None:
    exported, fun = energy
    x, y = arrays(4, 3)
    assert_near(gn.jit(exported.call)(x, y), fun(x, y), 16)
    batched = gn.vmap(exported.call, (0, None))
    assert_near(
        batched(np.stack([x, 2 * x]), y), gn.vmap(fun, (0, None))(np.stack([x, 2 * x]), y), 16
    )


def test_an_exported_function_calls_another(energy) -> None:
    exported, fun = energy

    def outer(x):
        return exported.call(gn.numpy.concatenate([x, x]), x[0])

    again = export.export(gn.jit(outer))(*specs(export, gn.ShapeDtypeStruct, ("2*b,a",)))
    x, _ = arrays(2, 3)
    expected = fun(np.concatenate([x, x]), x[0])
    assert_near(again.call(x), expected, 16)


# ------------------------------------------------------------------------------------------ errors


def identity(x, *others):
    return x


@pytest.mark.parametrize(
    ("texts", "shapes", "constraints", "message"),
    [
        (["2*a + 1"], [(4,)], [], "Division had remainder 1"),
        (["2*a + 1"], [(1,)], [], "Expected value >= 1 for dimension variable 'a'"),
        (["a"], [(0,)], [], "Expected value >= 1 for dimension variable 'a'"),
        (["a", "a"], [(1,), (3,)], [], r"Found inconsistency between dimension size args\[1\]"),
        (["a"], [(1,)], ["a >= 4"], "symbolic shape constraint a ?>= ?4"),
        (["a"], [(3,)], ["mod(a, 2) == 0"], "symbolic shape constraint"),
        (["a, b"], [(2,)], [], r"\(a, b\)"),
        (["a, 3"], [(2, 4)], [], r"\(a, 3\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_as_by_jax(texts, shapes, constraints, message) -> None:
    given = [np.ones(shape, F32) for shape in shapes]
    for module, like in (export, gn), (jax_export, jax):
        types = specs(module, like.ShapeDtypeStruct, texts, constraints)
        exported = module.export(like.jit(identity))(*types)
        with pytest.raises(ValueError, match=message):
            exported.call(*given)


@pytest.mark.parametrize("text", ["a + b", "a*b"])
def test_variables_must_be_found_from_shapes(text) -> None:
    for module, like in (export, gn), (jax_export, jax):
        with pytest.raises(ValueError, match="Cannot solve for values of dimension variables"):
            exported = module.export(like.jit(identity))(
                *specs(module, like.ShapeDtypeStruct, [text])
            )
            exported.call(np.ones(4, F32))


def test_scopes_must_be_the_same() -> None:
    for module, like in (export, gn), (jax_export, jax):
        types = [like.ShapeDtypeStruct(module.symbolic_shape("a"), F32) for _ in range(2)]
        with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes when exporting"):
            module.export(like.jit(identity))(*types)


@pytest.mark.parametrize(
    "fun",
    [
        lambda m, x: x if x.shape[0] > 3 else -x,
        lambda m, x: sum(x[i] for i in range(x.shape[0])),
        lambda m, x: x.reshape(2, -1),
    ],
)
def test_python_code_that_depends_on_sizes_is_refused(fun) -> None:
    types = specs(export, gn.ShapeDtypeStruct, ("a",))
    with pytest.raises(InconclusiveDimensionOperation):
        export.export(gn.jit(lambda x: fun(OURS, x)))(*types)


def test_different_dimensions_do_not_broadcast() -> None:
    types = specs(export, gn.ShapeDtypeStruct, ("a", "b"))
    with pytest.raises(TypeError, match="incompatible shapes for broadcasting"):
        export.export(gn.jit(lambda x, y: x + y))(*types)


def test_a_dimension_is_an_index() -> None:
    types = specs(export, gn.ShapeDtypeStruct, ("a",))
    exported = export.export(gn.jit(lambda x: x[x.shape[0] - 2]))(*types)
    assert exported.call(np.arange(5, dtype=F32)) == 3


def test_files(tmp_path) -> None:
    types = specs(export, gn.ShapeDtypeStruct, ("b,2",))
    exported = export.export(gn.jit(lambda x: x * 2))(*types)
    path = tmp_path / "f.gnm"
    export.save(path, {"f": exported}, targets=[])
    x = np.ones((3, 2), F32)
    np.testing.assert_array_equal(export.load_exported(path)["f"].call(x), 2 * x)
    with pytest.raises(gnomon_runtime.ArtifactIncompatibleError, match="symbolic dimensions"):
        gn.load(path)["f"](x)
    assert "tensor<?x2xf32>" in export.load_exported(path)["f"].mlir_module()


def test_a_dimension_has_no_value_outside_of_a_program() -> None:
    (a,) = export.symbolic_shape("a")
    with pytest.raises(InconclusiveDimensionOperation, match="no value outside"):
        gn.numpy.array(a) + 1.0


def test_eval_shape() -> None:
    """Shapes of results follow without any program."""
    (a,) = export.symbolic_shape("a")
    struct = gn.ShapeDtypeStruct((a, 3), F32)
    assert gn.eval_shape(lambda x: gn.numpy.concatenate([x, x]), struct).shape == (2 * a, 3)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_gradients_of_loops_whose_length_may_be_zero(order: int) -> None:
    def loop(x: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            return carry * gn.numpy.sin(x) + x, carry

        final, ys = gn.lax.scan(step, 1.0, x[1:])
        return final + ys.sum()

    fun: Any = loop
    for _ in range(order):
        fun = gn.grad(lambda x, inner=fun: gn.numpy.sum(inner(x)))
    exported = export.export(gn.jit(fun))(*specs(export, gn.ShapeDtypeStruct, ("n",)))
    for n in (1, 2, 5):
        x = np.linspace(1, 2, n, dtype=F32)
        assert_near(exported.call(x), fun(x), units=16)  # four steps of four roundings
