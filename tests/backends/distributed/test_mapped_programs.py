"""Mapped programs in two processes of two devices each, compared with the other engines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gnomon as gn
from tests.backends.distributed.mapped_programs import (
    ROWS,
    A,
    loss_of,
    mapped_over,
    mesh_of,
    nested_programs,
    unsharded,
    values_of,
)
from tests.backends.distributed.processes import run_processes
from tests.frontend.many_devices import eight_devices
from tests.tolerance import assert_near, units_of_differences

pytest.importorskip("jaxlib")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("devices")]

_PROGRAM = """
    import json
    from tests.backends.distributed.mapped_programs import (
        A, mapped_over, mesh_of, nested_programs, values_of)
    mesh = mesh_of(gn.devices())
    whole = gn.NamedSharding(mesh, P())
    with gn.enable_x64(True):
        rows = gn.jit(values_of(mapped_over(mesh)), out_shardings=whole)(A)
        rows = {name: [np.asarray(v).tolist() for v in pair] for name, pair in rows.items()}
    program, arrays = nested_programs(gn.devices(), sharded=True)
    nested = gn.jit(program, out_shardings=whole)(*arrays)
    nested = [np.asarray(v).tolist() for v in gn.tree.leaves(nested)]
    print(json.dumps({"rows": rows, "nested": nested}))
"""


@pytest.fixture(scope="module")
def devices() -> Iterator[list[Any]]:
    """Eight CPU devices."""
    with eight_devices() as found:
        yield found


@pytest.fixture(scope="module")
def processes() -> Any:
    """The results in two processes, which must be the same in both."""
    first, second = run_processes(_PROGRAM, timeout=300, initialization=120, heartbeat=60)
    assert (first.code, second.code) == (0, 0), (first.errors, second.errors)
    # Gloo prints its own lines first.
    results, others = (json.loads(each.output.splitlines()[-1]) for each in (first, second))
    assert results == others
    return results


def _scale(expected: Any) -> float:
    return max(1.0, float(np.abs(expected).max()))


def test_collectives_and_their_gradients(processes: Any) -> None:
    with gn.enable_x64(True):
        on_iree = gn.jit(values_of(mapped_over(mesh_of(gn.devices()[:4]))))(A)
        evaluated = values_of(unsharded)(A)
        assert processes["rows"].keys() == ROWS.keys()
        for name, found in processes["rows"].items():
            for mine, compiled, expected in zip(found, on_iree[name], evaluated[name], strict=True):
                expected = np.asarray(expected)
                assert_near(np.asarray(mine), expected, 64, scale=_scale(expected), message=name)
                assert_near(np.asarray(compiled), expected, 64, scale=_scale(expected))


def test_gradients_and_finite_differences(processes: Any) -> None:
    step, direction = 1e-5, np.sin(np.arange(64.0) + 1).reshape(8, 8) / 8
    with gn.enable_x64(True):
        for name, (_, gradient) in processes["rows"].items():
            loss = loss_of(unsharded(ROWS[name]))
            ends = [float(loss(gn.numpy.asarray(A + s * direction))) for s in (step, -step)]
            difference = (ends[0] - ends[1]) / (2 * step)
            slope = np.vdot(np.asarray(gradient), direction)
            units = 64 * units_of_differences(step)
            assert_near(np.float64(slope), np.float64(difference), units, scale=8.0, message=name)


def test_nestings(processes: Any) -> None:
    program, arrays = nested_programs(gn.devices()[:4], sharded=False)
    expected = gn.tree.leaves(program(*map(gn.numpy.asarray, arrays)))
    program, arrays = nested_programs(gn.devices()[:4], sharded=True)
    on_iree = gn.tree.leaves(gn.jit(program)(*arrays))
    assert len(processes["nested"]) == len(expected) > 20
    for mine, compiled, reference in zip(processes["nested"], on_iree, expected, strict=True):
        reference = np.asarray(reference)
        scale = _scale(reference)
        assert_near(np.asarray(mine, reference.dtype), reference, 64, scale=scale)
        assert_near(np.asarray(compiled), reference, 64, scale=scale)
