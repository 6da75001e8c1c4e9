"""The methods of arrays that type checkers see are those that `gnomon.numpy` installs."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import gnomon as gn
import gnomon.numpy as gnp
from gnomon._arrays import methods
from gnomon.numpy import _operators


def declared() -> dict[str, ast.FunctionDef]:
    tree = ast.parse(Path(methods.__file__).read_text(encoding="utf-8"))
    (interface,) = (
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ArrayMethods"
    )
    return {node.name: node for node in ast.walk(interface) if isinstance(node, ast.FunctionDef)}


def test_everything_declared_is_there_and_the_reverse() -> None:
    concrete = type(gnp.zeros(1))
    declarations = declared()
    assert [name for name in declarations if not hasattr(concrete, name)] == []
    installed = set(vars(gn.Array)) | set(vars(concrete))
    elsewhere = set(dir(object)) | set(dir(methods.ArrayMethods))
    base = Path(inspect.getsourcefile(gn.Array) or "").read_text(encoding="utf-8")
    missing = {
        name
        for name in installed - set(declarations) - elsewhere
        if not name.startswith("_") and f"def {name}(" not in base
    }
    assert missing == set()


def described(parameters: list[inspect.Parameter]) -> list[tuple[str, Any, Any]]:
    """The name, annotation (as written) and default of each parameter."""
    return [(p.name, p.annotation, p.default) for p in parameters]


def test_methods_have_the_signatures_of_the_functions() -> None:
    namespace: dict[str, Any] = {}
    stubs = [declared()[name] for name in _operators._METHODS]
    module = ast.Module([*ast.parse("from __future__ import annotations").body, *stubs], [])
    exec(compile(ast.fix_missing_locations(module), methods.__file__, "exec"), namespace)
    for name in _operators._METHODS:
        stub, function = namespace[name], inspect.unwrap(getattr(gnp, name))
        _, *found = inspect.signature(stub).parameters.values()
        _, *expected = inspect.signature(function).parameters.values()
        assert described(found) == described(expected), name
        assert stub.__annotations__["return"] == function.__annotations__["return"], name
