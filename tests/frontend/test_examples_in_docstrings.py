"""The examples in docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
from types import ModuleType

import pytest

import gnomon
import gnomon.example_libraries
import gnomon.lax
import gnomon.nn
import gnomon.numpy.linalg
import gnomon.random
import gnomon.scipy
from tests.test_imports import FILES

PACKAGES: tuple[ModuleType, ...] = (
    gnomon.example_libraries,
    gnomon.lax,
    gnomon.nn,
    gnomon.numpy.linalg,
    gnomon.random,
    gnomon.scipy,
)
MODULES = {name for name, path in FILES.items() if ">>> " in path.read_text(encoding="utf-8")}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, verbose=False, optionflags=doctest.ELLIPSIS)
    assert not failed


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.__name__)
def test_public_functions_are_documented(package: ModuleType) -> None:
    for name in package.__all__:
        value = getattr(package, name)
        if callable(value):
            assert value.__doc__ and len(value.__doc__) > 20, name
