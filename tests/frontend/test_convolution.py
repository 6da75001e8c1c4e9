"""Convolutions of `lax` against JAX: values, derivatives, vmap, errors; a compiled network."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from tests.frontend.oracle import (
    assert_trees_close,
    check,
    checks_in_one_program,
    sample,
    to_gnomon,
)

# Sums of some twenty products round as often, by half a unit each time, in both libraries.
CLOSE: dict[str, Any] = {"ulps": 16.0, "together": True}


def draw(seed: int) -> tuple[np.random.Generator, Any, Any, dict[str, Any]]:
    """Operands and keyword arguments of one convolution."""
    rng = np.random.default_rng(seed)

    def ints(low: int, high: int, count: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.integers(low, high, count))

    rank = int(rng.integers(0, 4))
    counts = [(1, 1), (int(rng.integers(2, 4)), 1), (1, int(rng.integers(2, 4)))]
    features, groups = counts[seed % 3]
    batch, depth, out = ints(1, 4, 3)
    specs = [tuple(int(d) for d in rng.permutation(rank + 2)) for _ in range(3)]
    shapes = [
        (batch * groups, depth * features, *ints(1, 7, rank)),
        (out * features * groups, depth, *ints(1, 4, rank)),
    ]
    lhs, rhs = (
        sample("float32", tuple(shape[spec.index(d)] for d in range(rank + 2)), seed)
        for shape, spec in zip(shapes, specs, strict=False)
    )
    pads = ints(0, 4, 2 * rank)
    return (
        rng,
        lhs,
        rhs,
        {
            "window_strides": ints(1, 3, rank),
            "padding": list(zip(pads[::2], pads[1::2], strict=True)),
            "lhs_dilation": ints(1, 3, rank),
            "rhs_dilation": ints(1, 3, rank),
            "dimension_numbers": specs,
            "feature_group_count": features,
            "batch_group_count": groups,
        },
    )


def pair(kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The same convolution of gnomon and of JAX."""
    others = {k: v for k, v in kwargs.items() if k != "dimension_numbers"}
    specs = kwargs["dimension_numbers"]
    ours, theirs = lax.ConvDimensionNumbers(*specs), jax.lax.ConvDimensionNumbers(*specs)
    return (
        lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=ours, **others),
        lambda x, w: jax.lax.conv_general_dilated(x, w, dimension_numbers=theirs, **others),
    )


def close(ours: Any, theirs: Any, count: int) -> None:
    """Check that types are equal, and values as near as sums of ``count`` products of either sign.

    The rounding error grows with ``count``, the largest sum with its square root.
    """
    assert_trees_close(ours, theirs, max(4.0, math.sqrt(count)))


@pytest.mark.sampled(0.44)
@pytest.mark.parametrize("seed", range(9))
def test_random_convolutions(seed: int) -> None:
    rng, lhs, rhs, kwargs = draw(seed)
    ours, theirs = pair(kwargs)
    axes = [(0, 0), (-1, None), (None, 1)][seed % 3]
    stacks = [
        jnp.asarray(v if axis is None else np.stack([v, 2 * v], axis))
        for v, axis in zip(map(np.asarray, (lhs, rhs)), axes, strict=True)
    ]
    shape = jax.eval_shape(theirs, lhs, rhs).shape
    cotangent = jnp.asarray(rng.normal(size=shape).astype("f4"))

    @jax.jit
    def of_jax(lhs: Any, rhs: Any, cotangent: Any, stacks: Any) -> Any:
        out, pullback = jax.vjp(theirs, lhs, rhs)
        return out, pullback(cotangent), jax.vmap(theirs, axes)(*stacks)

    out, cotangents, batch = of_jax(lhs, rhs, cotangent, stacks)
    x, w, ct = to_gnomon((lhs, rhs, cotangent))
    actual, actual_pullback = gn.vjp(ours, x, w)
    close(actual, out, rhs.size)
    close(actual_pullback(ct), cotangents, out.size)
    close(gn.vmap(ours, axes)(*to_gnomon(stacks)), batch, rhs.size)


def test_compiled_convolutions_equal_evaluated_ones() -> None:
    # JAX is not a reference here: its convolutions with negative padding read beyond the array.
    cases = [draw(seed) for seed in (1, 2, 3, 6)]
    for _, lhs, _, kwargs in cases:
        sizes = [lhs.shape[d] for d in kwargs["dimension_numbers"][0][2:]]
        kwargs["padding"] = [
            (-1, high) if (size - 1) * step + high > 0 else (0, high)
            for size, step, (_, high) in zip(
                sizes, kwargs["lhs_dilation"], kwargs["padding"], strict=True
            )
        ]
    functions = [pair(kwargs)[0] for *_, kwargs in cases]
    operands = [to_gnomon((lhs, rhs)) for _, lhs, rhs, _ in cases]

    def run(operands: Any) -> Any:
        return [f(*xs) for f, xs in zip(functions, operands, strict=True)]

    results = zip(gn.jit(run)(operands), run(operands), operands, strict=True)
    for ours, evaluated, (_, kernel) in results:
        close(ours, evaluated, kernel.size)


def test_padded_convolutions_of_complex_numbers_are_compiled() -> None:
    x, y = to_gnomon((sample("complex64", (17,), 1), sample("complex64", (5,), 2)))

    def run(x: Any, y: Any) -> Any:
        return [gnp.convolve(x, y, mode=mode) for mode in ("full", "same", "valid")]

    for ours, evaluated in zip(gn.jit(run)(x, y), run(x, y), strict=True):
        close(ours, evaluated, y.size)


X, KERNEL = sample("float32", (2, 8, 9, 3), 1), sample("float32", (3, 2, 3, 4), 2)
NUMBERS = ("NHWC", "HWIO", "NHWC")


def test_padding_by_name_and_by_size() -> None:
    with checks_in_one_program() as check:
        for padding in ("SAME", "VALID", "SAME_LOWER", [(1, 2), (0, 1)]):
            kwargs = {"padding": padding, "dimension_numbers": NUMBERS, "rhs_dilation": (2, 1)}
            functions = lax.conv_general_dilated, jax.lax.conv_general_dilated
            check(*functions, X, KERNEL, (2, 1), **CLOSE, **kwargs)
            for kwargs in (
                {},
                {"transpose_kernel": True},
                {"rhs_dilation": (1, 2)},
                {"use_consistent_padding": True},
            ):
                kernel = KERNEL.swapaxes(2, 3) if kwargs.get("transpose_kernel") else KERNEL
                functions = lax.conv_transpose, jax.lax.conv_transpose
                check(*functions, X, kernel, (3, 2), padding, **CLOSE, **kwargs)


def test_special_cases() -> None:
    with checks_in_one_program() as check:
        _check_special_cases(check)


def _check_special_cases(check: Callable[..., None]) -> None:
    x, kernel = sample("float32", (2, 3, 7, 6), 3), sample("float32", (4, 3, 2, 3), 4)
    check(lax.conv, jax.lax.conv, x, kernel, (1, 2), "SAME", **CLOSE)
    general = (x, kernel, (1, 2), ((1, 0), (2, 2)), (2, 1), (1, 2))
    check(lax.conv_with_general_padding, jax.lax.conv_with_general_padding, *general, **CLOSE)
    for arguments in (((2, 3), (1, 2), "SAME"), ((2, 2), (1, 1), [(1, 0), (0, 2)])):
        check(lax.conv_general_dilated_patches, jax.lax.conv_general_dilated_patches, x, *arguments)
    numbers = ("NCHW", "WIHO", "HNWC")
    kernels = sample("float32", (4, 18, 7, 5), 5)
    check(
        lax.conv_general_dilated_local,
        jax.lax.conv_general_dilated_local,
        x,
        kernels,
        (1, 1),
        [(0, 1), (0, 0)],
        (3, 2),
        dimension_numbers=numbers,
        **CLOSE,
    )
    for dtype, wide in (("int8", "int32"), ("bfloat16", "float32"), ("int32", None)):
        check(
            lax.conv,
            jax.lax.conv,
            sample(dtype, (1, 2, 5), 1),
            sample(dtype, (3, 2, 2), 2),
            (1,),
            "VALID",
            preferred_element_type=wide,
        )


def test_shapes() -> None:
    shapes, numbers = ((2, 9, 8, 3), (3, 2, 3, 5)), NUMBERS
    for padding in ("SAME", "VALID", [(1, 2), (0, 3)]):
        for name in ("conv_general_shape_tuple", "conv_transpose_shape_tuple"):
            ours = getattr(lax, name)(*shapes, (2, 1), padding, numbers)
            assert ours == getattr(jax.lax, name)(*shapes, (2, 1), padding, numbers)
    for name in ("VALID", "SAME", "same_lower"):
        arguments = ((7, 8), (3, 2), (2, 3), name)
        assert lax.padtype_to_pads(*arguments) == [
            tuple(map(int, p)) for p in jax.lax.padtype_to_pads(*arguments)
        ]
    theirs = jax.lax.conv_dimension_numbers((1,) * 4, (1,) * 4, ("CHNW", "WIHO", "NWHC"))
    ours = lax.conv_dimension_numbers((1,) * 4, (1,) * 4, ("CHNW", "WIHO", "NWHC"))
    assert tuple(ours) == tuple(theirs)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"feature_group_count": 2}, "features"),
        ({"feature_group_count": 0}, "feature_group_count"),
        ({"batch_group_count": 5}, "split"),
        ({"window_strides": (1,)}, "window_strides"),
        ({"padding": "AME"}, "SAME"),
        ({"padding": [(1, 2)]}, "padding"),
        ({"padding": 3}, "padding"),
        ({"padding": [(-5, -6), (0, 0)]}, "removes more than"),
        ({"dimension_numbers": ("NHWC", "HWIO", "NHWX")}, "NHWX"),
        ({"dimension_numbers": ("NHWC", "HWIO")}, "three strings"),
        ({"dimension_numbers": ("NHWC", "HWIO", "NHZC")}, "same spatial"),
        ({"lhs_dilation": (2, 1), "padding": "SAME"}, "conv_transpose"),
        ({"rhs": KERNEL.astype("float16")}, "one dtype"),
        ({"preferred_element_type": "int32"}, "preferred_element_type"),
    ],
)
def test_errors_name_what_is_wrong(changes: dict[str, Any], words: str) -> None:
    arguments = {
        "lhs": X,
        "rhs": KERNEL,
        "window_strides": (1, 1),
        "padding": "VALID",
        "dimension_numbers": NUMBERS,
        **changes,
    }
    with pytest.raises((TypeError, ValueError, RuntimeError)) as raised:
        lax.conv_general_dilated(**to_gnomon(arguments))
    assert words in str(raised.value)
    check(lax.conv_general_dilated, jax.lax.conv_general_dilated, **arguments)


# ---------------------------------------------------------------------------------------- networks


def _network(library: Any, numpy: Any) -> Any:
    """The loss of a small convolutional network, built on JAX's or on our modules."""

    def loss(parameters: Any, images: Any, labels: Any) -> Any:
        x = images
        for kernel, bias in parameters["convolutions"]:
            x = library.lax.conv_general_dilated(
                x, kernel, (2, 2), "SAME", dimension_numbers=NUMBERS
            )
            x = library.nn.relu(x + bias)
        weights, bias = parameters["dense"]
        logits = x.reshape(x.shape[0], -1) @ weights + bias
        picked = numpy.take_along_axis(library.nn.log_softmax(logits), labels[:, None], axis=1)
        return -picked.mean()

    return loss


@pytest.mark.slow
def test_gradient_of_a_network_is_that_of_jax() -> None:
    parameters = {
        "convolutions": [
            (0.3 * sample("float32", (3, 3, 1, 8), 1), sample("float32", (8,), 2)),
            (0.1 * sample("float32", (3, 3, 8, 16), 3), sample("float32", (16,), 4)),
        ],
        "dense": (0.1 * sample("float32", (4 * 4 * 16, 10), 5), jnp.zeros(10)),
    }
    images, labels = sample("float32", (4, 16, 16, 1), 6), jnp.arange(4)
    theirs = jax.jit(jax.value_and_grad(_network(jax, jnp)))(parameters, images, labels)
    step = gn.jit(gn.value_and_grad(_network(gn, gnp)))
    ours = step(*to_gnomon((parameters, images, labels)))
    close(ours, theirs, images.size)


def test_bools_are_convolved_as_conditions() -> None:
    """Convolutions of bools are ors of ands, or counts if another dtype is preferred."""
    line = jnp.array([[[1, 0, 0, 0, 1, 1]]], bool)
    kernel = jnp.array([[[1, 0, 1]]], bool)

    def both(lax: Any, x: Any, w: Any) -> Any:
        return (
            lax.conv_general_dilated(x, w, (1,), [(2, 1)], rhs_dilation=(2,)),
            lax.conv_general_dilated(x, w, (1,), "SAME", preferred_element_type=np.int32),
            lax.conv_general_dilated(x, w, (2,), "VALID"),
        )

    theirs = jax.jit(partial(both, jax.lax))(line, kernel)
    x, w = to_gnomon((line, kernel))
    for ours in (both(gn.lax, x, w), gn.jit(partial(both, gn.lax))(x, w)):
        for a, b in zip(ours, theirs, strict=True):
            assert a.dtype == b.dtype
            assert a.tolist() == b.tolist()
