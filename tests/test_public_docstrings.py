"""Every public function has an example and, if it has parameters, a section Args."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NewType

from tests.test_docs import load


def is_complete(function: Callable[..., Any]) -> bool:
    """Whether a docstring has an example, and a section Args if there are parameters."""
    text = function.__doc__ or ""
    return ">>> " in text and ("Args:" in text or not inspect.signature(function).parameters)


def public_functions() -> dict[str, Callable[..., Any]]:
    """Every public function; functions of NumPy that gnomon.numpy shows are left out."""
    api = load("public_api")
    found = {}
    for module in api.public_modules():
        for name in api.public_names(module):
            value = getattr(module, name)
            origin = str(getattr(value, "__module__", "")).partition(".")[0]
            if callable(value) and not isinstance(value, (type, NewType)) and origin == "gnomon":
                found[f"{module.__name__}.{name}"] = value
    return found


def test_public_functions_have_arguments_and_an_example() -> None:
    functions = public_functions()
    assert len(functions) > 1000
    assert [name for name, function in functions.items() if not is_complete(function)] == []
