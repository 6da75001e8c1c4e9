"""Parameters of public functions have types: `Any` is left to trees and to objects of any kind."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NewType

import pytest

import gnomon

# The number of parameters in each package that are `Any` or have no type. Trees, operands of a
# function of the user, and arguments passed on to NumPy cannot be typed. Only lower these numbers.
UNTYPED = {
    "gnomon": 27,
    "gnomon.lax": 40,
    "gnomon.nn": 0,
    "gnomon.numpy": 33,
    "gnomon.random": 0,
    "gnomon.scipy": 8,
}


def _modules(package: str) -> Iterator[ModuleType]:
    """The public modules of a package; of `gnomon` only itself."""
    top = importlib.import_module(package)
    yield top
    if top is gnomon:
        return
    for found in pkgutil.walk_packages(top.__path__, f"{package}."):
        if "._" not in found.name:
            yield importlib.import_module(found.name)


def _functions(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions of a module, without NumPy's own."""
    names = getattr(module, "__all__", None)
    for name in names or [name for name in vars(module) if not name.startswith("_")]:
        found = getattr(module, name)
        home = getattr(found, "__module__", "")
        is_own = home.startswith("gnomon.") if names else home == module.__name__
        if is_own and callable(found) and not isinstance(found, type | NewType):
            yield name, found


def _untyped(package: str) -> list[str]:
    found = []
    for module in _modules(package):
        for name, function in _functions(module):
            for parameter in inspect.signature(function).parameters.values():
                if parameter.annotation in ("Any", inspect.Parameter.empty):
                    found.append(f"{module.__name__}.{name}: {parameter}")
    return found


@pytest.mark.parametrize("package", UNTYPED)
def test_no_more_parameters_are_without_a_type(package: str) -> None:
    found = _untyped(package)
    assert len(found) <= UNTYPED[package], "\n".join(found)


def test_a_parameter_without_a_type_is_found() -> None:
    assert any("gnomon.lax.scan: init" in one for one in _untyped("gnomon.lax"))
