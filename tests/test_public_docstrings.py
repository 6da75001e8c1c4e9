"""Every public function has an example, and its section Args describes each parameter."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, NewType

from tests.test_docs import load


def missing(function: Callable[..., Any]) -> list[str]:
    """What the docstring lacks: an example, or parameters without an entry in the section Args."""
    text = inspect.cleandoc(function.__doc__ or "")
    section = re.search(r"^Args:\n((?:  .*\n?)+)", text, re.MULTILINE)
    entries = re.findall(r"^  ([*\w]+(?:, [*\w]+)*):", section[1] if section else "", re.MULTILINE)
    described = {name.lstrip("*") for entry in entries for name in entry.split(", ")}
    names = [n for n in inspect.signature(function).parameters if not n.startswith("_")]
    return [*([] if ">>> " in text else ["an example"]), *(n for n in names if n not in described)]


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
    lacking = {name: missing(function) for name, function in functions.items()}
    assert {name: parts for name, parts in lacking.items() if parts} == {}
