"""The stub, which type checkers and readers see, declares the contents of the module."""

from __future__ import annotations

import ast
from pathlib import Path

import gnomon._native as _native

STUB = Path(__file__).parents[3] / "frontend" / "gnomon" / "_native.pyi"


def declared(body: list[ast.stmt]) -> set[str]:
    """Names of classes, functions and annotated values."""
    names = {node.name for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    targets = [node.target for node in body if isinstance(node, ast.AnnAssign)]
    return names | {target.id for target in targets if isinstance(target, ast.Name)}


def public(names: list[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_the_stub_declares_the_module() -> None:
    module = ast.parse(STUB.read_text(encoding="utf-8"))
    assert declared(module.body) == public(dir(_native))
    for node in module.body:
        if isinstance(node, ast.ClassDef) and not issubclass(
            getattr(_native, node.name), BaseException
        ):
            members = {name for name in declared(node.body) if not name.startswith("_")}
            assert members == public(dir(getattr(_native, node.name))), node.name
