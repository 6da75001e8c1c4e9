"""Fixture: a file with functions, in a new folder that is the current one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

MODEL = '''\
"""A small model."""

import gnomon
import gnomon.numpy as gnp

SCALE = gnp.array([1.0, 2.0, 3.0])


def predict(params, x):
    return gnp.tanh(x @ params["w"] + params["b"])


def loss(params, x, y):
    return gnp.mean((predict(params, x) - y) ** 2)


def loss_example_args():
    return {"w": gnp.ones((3, 2)), "b": gnp.zeros(2)}, gnp.ones((4, 3)), gnp.zeros((4, 2))


def scaled(x):
    return gnp.sum(SCALE * x**2)


scaled_example_args = (gnp.array([1.0, 2.0, 3.0]),)


def power(x, n):
    return x**n


def branches(x):
    if x > 0:
        return x
    return -x


def factor(x):
    y = x + 1
    return gnp.linalg.cholesky(y)


def nothing():
    return gnp.ones(2)
'''


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from model_in(tmp_path, monkeypatch)


def model_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file in a folder, which is the current one until the iterator goes on."""
    path = folder / "driver_model.py"
    path.write_text(MODEL)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Path("driver_model.py")
    sys.modules.pop("driver_model", None)
