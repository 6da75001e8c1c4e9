"""The examples in docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import sys
from types import FunctionType, ModuleType

import pytest

import gnomon
import gnomon.example_libraries
import gnomon.lax
import gnomon.nn
import gnomon.numpy.linalg
import gnomon.random
import gnomon.scipy
from tests.test_docs import load
from tests.test_imports import FILES

public_api = load("public_api")

PACKAGES: tuple[ModuleType, ...] = (
    gnomon.example_libraries,
    gnomon.lax,
    gnomon.nn,
    gnomon.numpy.linalg,
    gnomon.random,
    gnomon.scipy,
)
MODULES = {name for name, path in FILES.items() if ">>> " in path.read_text(encoding="utf-8")}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", sorted(MODULES))
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, verbose=False, optionflags=doctest.ELLIPSIS)
    assert not failed


def generated(module: ModuleType) -> dict[str, FunctionType]:
    """The public functions that `doctest` does not find, since a factory made them elsewhere."""
    found = {}
    for name in public_api.public_names(module):
        value = getattr(module, name)
        function = inspect.unwrap(value)
        if isinstance(function, FunctionType) and ">>> " in (function.__doc__ or ""):
            source = sys.modules[function.__globals__["__name__"]]
            if getattr(source, function.__name__, None) not in (value, function):
                found[name] = function
    return found


@pytest.mark.parametrize("module", list(public_api.public_modules()), ids=lambda m: m.__name__)
def test_examples_of_generated_functions(module: ModuleType) -> None:
    finder, runner = (
        doctest.DocTestFinder(recurse=False),
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS),
    )
    texts = set()
    for name, function in generated(module).items():
        globs = dict(function.__globals__)
        # `False` is documented to take functions of any module, which the annotation leaves out.
        examples = finder.find(function, name, module=False, globs=globs)  # type: ignore[arg-type]
        for example in examples:
            if example.docstring not in texts:
                texts.add(example.docstring)
                assert not runner.run(example).failed, name


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.__name__)
def test_public_functions_are_documented(package: ModuleType) -> None:
    for name in package.__all__:
        value = getattr(package, name)
        if callable(value):
            assert value.__doc__ and len(value.__doc__) > 20, name
