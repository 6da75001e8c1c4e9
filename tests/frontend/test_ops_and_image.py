"""`gnomon.ops` and `gnomon.image` against JAX's modules of the same names."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from tests.frontend.oracle import checks_in_one_program, jax
from tests.tolerance import assert_near

IDS = np.array([0, 2, 2, -1, 5, 1])
RNG = np.random.default_rng(0)


def test_segments() -> None:
    options: list[dict[str, Any]] = [
        {},
        {"num_segments": 4},
        {"num_segments": 0},
        {"num_segments": 7, "bucket_size": 4},
        {"num_segments": 3, "mode": "clip"},
    ]
    with checks_in_one_program() as check:
        for dtype in ("float32", "int32", "uint8", "float16"):
            data = jax.numpy.asarray(RNG.integers(0, 5, (6, 2)).astype(dtype))
            for name in ("segment_sum", "segment_prod", "segment_max", "segment_min"):
                for kwargs in options:
                    ours, theirs = getattr(gn.ops, name), getattr(jax.ops, name)
                    check(ours, theirs, data, IDS, weak=False, **kwargs)


def test_segments_of_traced_ids_need_their_number() -> None:
    with pytest.raises(ValueError, match="pass num_segments"):
        gn.jit(gn.ops.segment_sum)(gnp.ones(6), IDS)
    compiled = gn.jit(lambda d, i: gn.ops.segment_max(d, i, 3))(gnp.arange(6.0), IDS)
    np.testing.assert_array_equal(np.asarray(compiled), [0.0, 5.0, 2.0])


def test_gradient_of_a_segment_sum() -> None:
    weights = gnp.array([1.0, 2.0, 3.0])
    found = gn.grad(lambda d: gn.ops.segment_sum(d, IDS, 3) @ weights)(gnp.ones(6))
    np.testing.assert_array_equal(np.asarray(found), [1, 3, 3, 0, 0, 2])


def test_segments_of_wrong_shapes() -> None:
    with pytest.raises(ValueError, match="one id for each row"):
        gn.ops.segment_sum(gnp.ones((3, 2)), IDS)
    with pytest.raises(TypeError, match="must be integers"):
        gn.ops.segment_sum(gnp.ones(6), gnp.ones(6))


SHAPES = [((5, 7, 3), (9, 4, 3)), ((6,), (3,)), ((1, 3), (4, 3)), ((), ())]


def test_resize() -> None:
    images = [
        (jax.numpy.asarray(RNG.normal(size=old).astype(np.float32)), new) for old, new in SHAPES
    ]
    with checks_in_one_program() as check:
        for method in ("nearest", "linear", "cubic", "lanczos3", "lanczos5", "area"):
            for how in itertools.product(images, (True, False)):
                (image, new), antialias = how
                args = (image, new, method, antialias)
                # A pixel is a weighted sum of at most 2 * 5 * (old / new) pixels of a dimension.
                check(gn.image.resize, jax.image.resize, *args, ulps=32, weak=False, together=True)


@pytest.mark.slow
def test_scale_and_translate_under_transformations() -> None:
    image = RNG.normal(size=(6, 5, 2)).astype(np.float32)

    def moved(lib: Any, scale_and_translate: Any, by: Any) -> Any:
        scale = lib.array([1.5, 0.7], lib.float32)
        return scale_and_translate(image, (8, 4, 2), (0, 1), scale, by, "cubic").sum()

    by = np.array([0.3, -2.0], np.float32)
    ours = gn.jit(gn.value_and_grad(lambda b: moved(gnp, gn.image.scale_and_translate, b)))(by)
    theirs = jax.jit(
        jax.value_and_grad(lambda b: moved(jax.numpy, jax.image.scale_and_translate, b))
    )(by)
    for a, b in zip(ours, theirs, strict=True):
        assert_near(a, b, 32, scale=np.abs(image).sum())  # sums of either sign


def test_images_of_wrong_shapes_and_methods() -> None:
    with pytest.raises(ValueError, match="all 2 dimensions"):
        gn.image.resize(gnp.ones((2, 2)), (4,), "linear")
    with pytest.raises(ValueError, match="unknown resize method"):
        gn.image.resize(gnp.ones((2, 2)), (4, 4), "linar")


@pytest.mark.parametrize("name", ["segment_sum", "segment_max"])
def test_segments_of_a_number(name: str) -> None:
    ids = gnp.array([0, 2, 2, 1])
    got = getattr(gn.ops, name)(gnp.float32(2.5), ids, 4)
    np.testing.assert_array_equal(got, getattr(jax.ops, name)(np.float32(2.5), np.asarray(ids), 4))
    slope = gn.grad(lambda x: gn.ops.segment_sum(x, ids, 4).sum())(1.0)
    assert slope == 4
