"""Single operations of the size that programs use."""

from __future__ import annotations

from typing import Any

from gnomon.tools.bench.frameworks import Framework
from gnomon.tools.bench.programs.program import Arrays, Built, Program


def _transform(framework: Framework) -> Built:
    return lambda x: framework.np.abs(framework.np.fft.fft2(x)), (
        Arrays(framework).normal(512, 512),
    )


def _narrow_product(framework: Framework) -> Built:
    arrays, narrow = Arrays(framework), framework.np.bfloat16
    a, b = (arrays.normal(512, 512).astype(narrow) for _ in range(2))
    return lambda a, b: a @ b, (a, b)


def _layer_norm(framework: Framework) -> Built:
    arrays = Arrays(framework)

    def normalize(x: Any, scale: Any, bias: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        x = x * framework.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return x * scale + bias

    return normalize, (arrays.normal(2048, 512), arrays.normal(512), arrays.normal(512))


def _segment_sum(framework: Framework) -> Built:
    arrays = Arrays(framework)

    def total(x: Any, segments: Any) -> Any:
        return framework.module.ops.segment_sum(x, segments, 512)

    return total, (arrays.normal(16384, 32), arrays.integers(16384, below=512))


def _eigenvalues(framework: Framework) -> Built:
    np_ = framework.np
    x = Arrays(framework).normal(128, 128)
    # Vectors may have either sign: values only.
    return lambda x: np_.linalg.eigh(x)[0], (x + x.T,)


PROGRAMS = (
    Program("kernel/fft2", "abs(fft2), f32[512,512]", _transform),
    # One unit in the last place of the result.
    Program("kernel/matmul_bf16", "512x512, bf16", _narrow_product, 1.0),
    Program("kernel/layer_norm", "f32[2048,512]", _layer_norm),
    Program("kernel/segment_sum", "16384 rows of 32 into 512", _segment_sum),
    Program("kernel/eigh", "eigenvalues, f32[128,128]", _eigenvalues),
)
