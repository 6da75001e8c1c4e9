"""Special functions of large arrays, which are evaluated in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.dialects.contract import REGISTRY, Verdict
from gnomon.dialects.elementwise.expansion import _BLOCK, SERIES


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["gnomon.erf_inv", "gnomon.lgamma", "gnomon.zeta"])
def test_elements_of_every_block_are_their_own(name: str, dtype: str) -> None:
    op = REGISTRY[name]
    assert name in SERIES
    assert not isinstance(op.evaluate, Verdict)
    count = len(op.operands)
    # A strided view and a splat, of one block and a part.
    x = (
        np.linspace(0.01, 0.99, 2 * (_BLOCK + 6))
        .astype(dtype)
        .reshape(2, -1)
        .T[:, 0]
        .reshape(2, -1)
    )
    operands = [np.broadcast_to(np.asarray(1.5, dtype), x.shape), x][-count:]
    found = op.evaluate(*operands)
    assert (found.shape, found.dtype) == (x.shape, x.dtype)
    for start in (0, 1000, x.shape[1] - 50):
        part = (slice(None), slice(start, start + 50))
        np.testing.assert_array_equal(found[part], op.evaluate(*(o[part] for o in operands)))
