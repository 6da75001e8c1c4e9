"""The examples in docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import gnomon
import gnomon.example_libraries
import gnomon.lax
import gnomon.nn
import gnomon.numpy.linalg
import gnomon.random
import gnomon.scipy

PACKAGES: tuple[ModuleType, ...] = (
    gnomon.example_libraries,
    gnomon.lax,
    gnomon.nn,
    gnomon.numpy.linalg,
    gnomon.random,
    gnomon.scipy,
)
MODULES = [
    found.name
    for package in PACKAGES
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), verbose=False)
    assert not failed


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.__name__)
def test_public_functions_are_documented(package: ModuleType) -> None:
    for name in package.__all__:
        value = getattr(package, name)
        if callable(value):
            assert value.__doc__ and len(value.__doc__) > 20, name
