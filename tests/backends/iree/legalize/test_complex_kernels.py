"""Kernels take large complex arrays apart and put them together, with the same values."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.backends.iree.backend import IreeBackend
from gnomon.backends.iree.legalize import complex_kernels
from gnomon.backends.iree.legalize.complex_kernels import FEWEST
from gnomon.backends.iree.targets import find_target, incompatibility
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ensure_context, ir
from tests.backends.iree.joined import Call, check_joined
from tests.sample import sample
from tests.tolerance import assert_near

# An odd number, several workgroups, a whole number of vectors in one workgroup.
SHAPES = [(197, 257), (1, FEWEST, 1)]


def draw(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


DISPATCH = re.compile(rb"@gnomon_((?:real|imag|complex)\w*)::")


def kernels(function: Callable[..., Any], *shapes: tuple[int, ...]) -> list[str]:
    """The kernels of complex numbers that a program dispatches, in order."""
    arguments = [gn.ShapeDtypeStruct(shape, np.complex64) for shape in shapes]
    text = gn.jit(function).lower(*arguments).as_text("gnomon")
    ensure_context()
    artifact = IreeBackend("cpu").lower(Program(ir.Module.parse(text)))
    return [name.decode() for name in DISPATCH.findall(artifact.plan.code or b"")]


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype
    assert_near(found, expected, 1000)


# Some read the parts by position, or update them in place.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "abs": gnp.abs,
    "real": lambda z: z.real + 1,
    "imag": lambda z: -z.imag,
    "parts swapped": lambda z: lax.complex(z.imag, z.real),
    "both conjugates": lambda z: (gnp.conj(z), -gnp.conj(z), gnp.conj(z)),
    "conjugate": lambda z: gnp.conj(z) * z,
    "exp": lambda z: gnp.exp(z) * z,
    "sum": lambda z: (z * 2).sum(0),
    "transposed": lambda z: gnp.sin(z).T,
    "product": lambda z: gnp.tensordot(z, gnp.conj(z), z.ndim),
    "reversed": lambda z: lax.rev(z.real, tuple(range(z.ndim))),
    "gather": lambda z: z.imag.reshape(-1)[gnp.arange(0, z.size, 3)],
    "scan": lambda z: lax.cumsum(z, axis=0, reverse=True),
    "update": lambda z: (z.real.at[0].set(0), z.real, z.at[-1].add(1)),
    "host call": lambda z: gnp.fft.ifft(gnp.fft.fft(z.reshape(-1)) * 2).real,
    "loop": lambda z: lax.fori_loop(0, 3, lambda _, x: x * z, z),
}


@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_values(dtype: Any) -> None:
    calls: dict[str, Call] = {
        f"{name} of {shape}": (function, (draw(shape, dtype),))
        for shape in SHAPES
        for name, function in sample(FUNCTIONS.items(), 8, f"{shape} {dtype}")
    }
    with gn.enable_x64(dtype == np.complex128):
        check_joined(calls, assert_close)


def test_large_arrays_have_kernels(caplog: pytest.LogCaptureFixture) -> None:
    large = (FEWEST,)
    with caplog.at_level(logging.DEBUG, complex_kernels.__name__):
        assert kernels(gnp.abs, large) == ["real_imag_f32"]
        assert kernels(gnp.abs, (FEWEST - 1,)) == []
        assert kernels(gnp.abs, ()) == kernels(gnp.abs, (0, 3)) == []
        assert kernels(lambda z: z.real, (3, FEWEST)) == ["real_f32"]
        assert kernels(lambda z: -z.imag, large) == ["imag_f32"]
        # Neither the sum nor a literal is taken apart.
        assert kernels(lambda x, y: x + y, large, large) == [
            "real_imag_f32",
            "real_imag_f32",
            "complex_f32",
        ]
        literal = draw(large, np.complex64)
        assert kernels(lambda x: x.real + literal.imag, large) == ["real_f32"]
        # IREE's kernels make a part that is the same for all elements.
        assert kernels(lambda z: z.real.astype(np.complex64), large) == ["real_f32"]
        # Carries of loops are parts.
        split_once = ["real_imag_f32", "complex_f32"]
        assert kernels(lambda z: lax.fori_loop(0, 3, lambda _, x: x * x, z), large) == split_once
    texts = [record.message for record in caplog.records]
    assert f"stablehlo.real of {FEWEST} elements: a kernel of ours" in texts
    reason = f"in its kernel, for it has under {FEWEST}"
    assert f"stablehlo.real of {FEWEST - 1} elements: {reason}" in texts


def test_all_elements_of_sizes_below_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complex_kernels, "FEWEST", 0)
    calls: dict[str, Call] = {
        f"shape {shape}": (
            lambda z: (gnp.conj(z * z), z.real),
            (draw(shape, np.complex64),),
        )
        for shape in ((), (0,), (1,), (2, 1), (5,), (3, 4, 5))
    }
    check_joined(calls, lambda found, expected: assert_near(found, expected, 16))


LEVELS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "znver5", "sapphirerapids"]


@pytest.mark.sampled(0.2)
@pytest.mark.parametrize("target", [*LEVELS, "aarch64-linux", "riscv64-linux", "wasm32"])
def test_processors(target: str) -> None:
    def function(*arrays: Any) -> Any:
        return [(z * z, z.real, z.imag) for z in arrays]

    dtypes = (np.complex64,) if target == "wasm32" else (np.complex64, np.complex128)
    with gn.enable_x64(True):
        arrays = [gnp.asarray(draw((197, 257), dtype)) for dtype in dtypes]
        compiled = gn.jit(function).lower(*arrays).compile(target=target)
        if target not in LEVELS or incompatibility(find_target(target)):
            assert compiled.serialize()
        else:
            for found, expected in zip(compiled(*arrays), function(*arrays), strict=True):
                for one, other in zip(found, expected, strict=True):
                    assert_close(np.asarray(one), np.asarray(other))
