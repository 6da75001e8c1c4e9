"""Long sums, cumulative sums and products in C lose as few digits as in compiled programs."""

from __future__ import annotations

import shutil
from typing import Any

import numpy as np
import pytest

import gnomon as gn
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir
from gnomon.tools.accuracy.sums import CASES, bound, call_on, exact_of, roundings, stored
from tests.backends.standalone_c.compiled import CompiledC

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

NAMES = {"numpy.sum", "numpy.var", "numpy.tensordot", "numpy.matmul", "numpy.cumsum"}
PAIRS = [
    (case, layout, dtype)
    for case in CASES
    if case.name in NAMES | {"lax.cumlogsumexp"}
    for layout in ("vector", "rows", "columns")
    if layout in case.layouts
    for dtype in (np.float32, np.float64)
]


@pytest.mark.slow
def test_long_sums_in_c() -> None:
    n = 20_003
    with gn.enable_x64(True):
        operands = [stored(case, layout, n, dtype) for case, layout, dtype in PAIRS]

        def program(*xs: Any) -> Any:
            return [call_on(c, layout, gn, x) for (c, layout, _), x in zip(PAIRS, xs, strict=True)]

        text = gn.jit(program).lower(*operands).as_text("gnomon")
    backend = CompiledC()
    call = backend.compile(backend.lower(Program(ir.Module.parse(text, context()))))
    for (case, layout, dtype), x, result in zip(PAIRS, operands, call(operands), strict=True):
        found = result.to_numpy()
        assert found.dtype == dtype
        assert roundings(case, exact_of(case, layout, x), found) <= bound(n), (
            case.name,
            layout,
            dtype,
        )
