"""Programs compiled for GPUs that are not here: what a model's training step is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.lax
import gnomon.nn
import gnomon.numpy as gnp
import gnomon.random
from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.iree.ahead_of_time import device_code
from gnomon.backends.iree.backend import iree_backend
from gnomon.backends.iree.targets import find_target
from tests.ops.check import DTYPES, all_rows
from tests.tools.target_table import Case, joint

GPUS = ["cuda:sm_90", "rocm:gfx942", "vulkan", "metal"]

F32 = np.float32


def training_step(parameters: Any, images: Any, labels: Any) -> Any:
    """The digits example's: two layers, the loss by classes, a step against the gradient."""

    def loss(parameters: Any) -> Any:
        hidden = gnomon.nn.relu(images @ parameters["w1"] + parameters["b1"])
        scores = gnomon.nn.log_softmax(hidden @ parameters["w2"] + parameters["b2"])
        return -gnp.mean(gnp.take_along_axis(scores, labels[:, None], axis=1))

    value, gradient = gnomon.value_and_grad(loss)(parameters)
    step = gnomon.tree_util.tree_map(lambda p, g: p - 0.1 * g, parameters, gradient)
    return value, step


def recurrence(x: Any, w: Any) -> Any:
    def cell(state: Any, row: Any) -> Any:
        state = gnp.tanh(state @ w + row)
        return state, gnp.sum(state)

    return gnomon.grad(lambda x: gnp.sum(gnomon.lax.scan(cell, gnp.zeros(4), x)[1]))(x)


def pieces(x: Any, image: Any, kernel: Any, places: Any) -> Any:
    key = gnomon.random.PRNGKey(0)
    return {
        "softmax": gnomon.nn.softmax(x, axis=-1),
        "conv": gnomon.lax.conv(image, kernel, (1, 1), "SAME"),
        "sort": (gnp.sort(x, axis=0), gnp.argsort(x.ravel())),
        "long sort": gnp.sort(gnp.tile(x.ravel(), 30)),
        "scatter": gnp.zeros(9, F32).at[places].add(x[0, :5]),
        "random": gnomon.random.normal(key, (3,)) + gnomon.random.uniform(key, (3,)),
        "fft": gnp.abs(gnp.fft.fft(x)),
        "trigonometry": gnp.sin(x) + gnp.arctan2(x, x + 1) ** gnp.abs(x),
        "branch": gnomon.lax.cond(x[0, 0] > 0, lambda v: v * 2, lambda v: gnp.cos(v), x),
    }


PARAMETERS = {
    "w1": np.ones((64, 16), F32),
    "b1": np.zeros(16, F32),
    "w2": np.ones((16, 10), F32),
    "b2": np.zeros(10, F32),
}
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "step": (training_step, (PARAMETERS, np.ones((8, 64), F32), np.zeros(8, np.int32))),
    "recurrence": (recurrence, (np.ones((7, 4), F32), np.eye(4, dtype=F32))),
    "pieces": (
        pieces,
        (
            np.ones((5, 6), F32),
            np.ones((1, 3, 8, 8), F32),
            np.ones((4, 3, 3, 3), F32),
            np.array([1, 1, 3, 8, 20], np.int32),
        ),
    ),
}


def _cases() -> list[Any]:
    """The step for every target; the other programs are slow tests for all but the first."""
    return [
        pytest.param(t, p, marks=[] if p == "step" or t == GPUS[0] else [pytest.mark.slow])
        for t in GPUS
        for p in PROGRAMS
    ]


@pytest.mark.parametrize(("name", "program"), _cases())
def test_a_training_step_and_its_like_compile(name: str, program: str) -> None:
    function, arguments = PROGRAMS[program]
    compiled = gnomon.jit(function).lower(*arguments).compile(target=name)
    assert len(device_code(compiled.serialize())) >= 1
    if not find_target(name).capabilities.f64:
        assert "f64" not in compiled.as_text("stablehlo")
    if find_target(name).code == "ptx":
        assert compiled.as_text().count(".visible .entry") >= 5


def _first_rows(dtypes: frozenset[str]) -> list[Case]:
    """Every op's first row in every dtype that a target has."""
    rows = {row.op: row for row in reversed(all_rows())}
    return [(row, DTYPES[n]) for row in rows.values() for n in row.dtypes.split() if n in dtypes]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GPUS, "aarch64-linux", "wasm32"])
def test_the_op_table_compiles(name: str) -> None:
    """Forty cases at once; what is refused is refused by name, before the compiler sees it."""
    backend = iree_backend(name)
    cases = []
    for case in _first_rows(backend.target.capabilities.dtypes):
        try:
            backend.lower(joint([case]))
        except UnsupportedOnTarget:
            continue
        cases.append(case)
    assert len(cases) > 500
    for start in range(0, len(cases), 40):
        assert backend.executable_bytes(backend.lower(joint(cases[start : start + 40])))
