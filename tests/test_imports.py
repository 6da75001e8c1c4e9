"""Imports run one way: runtime <- dialects <- passes <- backends <- frontend <- tools."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# Folder in the repository -> package, lowest layer first. The native module is C++ of backends/.
LAYERS = {
    "runtime/gnomon_runtime": "gnomon_runtime",
    "dialects": "gnomon.dialects",
    "passes": "gnomon.passes",
    "backends": "gnomon.backends",
    "frontend/gnomon": "gnomon",
    "tools": "gnomon.tools",
    "commands/gnomon_commands": "gnomon_commands",
}
RANKS = {package: rank for rank, package in enumerate(LAYERS.values())}
RANKS["gnomon._native"] = RANKS["gnomon.backends"]

# The packages and modules of the frontend, lowest first: each imports only from those above it in
# this list. A public module that only shows a private package's names follows that package.
ROOMS = (
    "_examples",
    "_trees",
    "tree",
    "tree_util",
    "_diagnostics",
    "errors",
    "_config",
    "_sharding",
    "_arrays",
    "typing",
    "dtypes",
    "_tracing",
    "core",
    "_compilation",
    "stages",
    "_transformations",
    "ad_checkpoint",
    "custom_derivatives",
    "_api",
    "sharding",
    "_profiling",
    "profiler",
    "debug",
    "distributed",
    "lax",
    "custom_batching",
    "flatten_util",
    "numpy",
    "experimental",
    "dlpack",
    "test_util",
    "ops",
    "image",
    "random",
    "scipy",
    "nn",
    "example_libraries",
    "_export",
    "export",
)


# The packages that the runtime's distribution depends on.
RUNTIME_IMPORTS = frozenset({"gnomon_runtime", "numpy", "ml_dtypes", "iree"})


@dataclass(frozen=True)
class Import:
    """An imported module, as one file spells it."""

    importer: str
    target: str
    line: int
    in_function: bool


def product_files() -> dict[str, Path]:
    """Every Python file of the product by its module's name."""
    files = {}
    for folder, package in LAYERS.items():
        base = ROOT / folder
        for path in base.rglob("*.py"):
            parts = path.relative_to(base).with_suffix("").parts
            # A working checkout may contain links that lay the packages out as they are installed.
            linked = any(parent.is_symlink() for parent in path.parents)
            if linked or "__pycache__" in parts:
                continue
            files[".".join((package, *parts)).removesuffix(".__init__")] = path
    return files


def imports_of(module: str, source: str, is_package: bool) -> Iterator[Import]:
    """Every import in the source, by statement or by importlib, with absolute names."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    calls = "import_module" in source or "__import__" in source

    def visit(node: ast.AST, in_function: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Import(module, name.name, node.lineno, in_function)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *(node.module.split(".") if node.module else [])])
            for name in node.names:
                # `from package import name` may name a module or something in one.
                yield Import(module, f"{origin}.{name.name}", node.lineno, in_function)
        elif isinstance(node, ast.Call):
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else None
            called = function.id if isinstance(function, ast.Name) else called
            if called in ("import_module", "__import__") and node.args:
                argument = node.args[0]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield Import(module, argument.value, node.lineno, in_function)
        opens = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            # Most nodes are expressions, and only calls among them import.
            if calls or not isinstance(child, ast.expr):
                yield from visit(child, in_function or opens)

    yield from visit(ast.parse(source), False)


def is_in(target: str, package: str) -> bool:
    return target == package or target.startswith(package + ".")


def rank_of(target: str) -> int:
    """The layer of a module of gnomon: that of the longest package name that fits."""
    return RANKS[max((p for p in RANKS if is_in(target, p)), key=len)]


def room_of(module: str) -> str | None:
    """The package or module of the frontend that a module is in; None for the others."""
    if not is_in(module, "gnomon") or RANKS["gnomon"] != rank_of(module):
        return None
    _, *rest = module.split(".")
    return rest[0] if rest else None


def complaints(found: Import) -> Iterator[str]:
    """The rules that an import breaks."""
    at = f"{found.importer}, line {found.line}, imports {found.target}"
    if is_in(found.target, "gnomon") or is_in(found.target, "gnomon_runtime"):
        if rank_of(found.target) > rank_of(found.importer):
            yield f"{at}: imports run runtime <- dialects <- passes <- backends <- gnomon <- tools"
        here, there = room_of(found.importer), room_of(found.target)
        if here in ROOMS and there in ROOMS and ROOMS.index(there) > ROOMS.index(here):
            yield f"{at}: in the frontend imports run {' <- '.join(ROOMS)}"
        if found.target == "gnomon._native":
            yield f"{at}: import names from gnomon._native, not the module itself"
        if found.in_function:
            yield f"{at} inside a function: this hides a cycle or a cost; import it at the top"
    if is_in(found.target, "torch_mlir") and found.importer != "gnomon.dialects.mlir":
        yield f"{at}: only gnomon.dialects.mlir names the bindings' package"
    knows_iree = any(is_in(found.importer, p) for p in ("gnomon.backends.iree", "gnomon_runtime"))
    if is_in(found.target, "iree") and not knows_iree:
        yield f"{at}: only gnomon.backends.iree and gnomon_runtime know IREE"
    alone = is_in(found.importer, "gnomon_runtime")
    if alone and found.target.partition(".")[0] not in RUNTIME_IMPORTS | sys.stdlib_module_names:
        yield f"{at}: gnomon_runtime needs NumPy, ml_dtypes and IREE's runtime, and nothing else"
    may_use_jax = is_in(found.importer, "gnomon.tools.bench")
    if is_in(found.target, "jax") and not may_use_jax:
        yield f"{at}: jax is an oracle of the tests and a peer of the benchmarks, nothing else"
    may_use_jaxlib = may_use_jax or is_in(found.importer, "gnomon.backends.distributed")
    if is_in(found.target, "jaxlib") and not may_use_jaxlib:
        yield f"{at}: only gnomon.backends.distributed knows jaxlib"


FILES = product_files()


def test_every_layer_has_files() -> None:
    ranks = {rank_of(module) for module in FILES}
    assert ranks == set(range(len(LAYERS)))


def test_every_room_of_the_frontend_has_its_rank() -> None:
    print("\n  <- ".join(ROOMS))
    assert {room for module in FILES if (room := room_of(module))} == set(ROOMS)


@pytest.mark.usefixtures("_no_garbage_collection")
def test_imports_run_one_way() -> None:
    found = [
        complaint
        for module, path in sorted(FILES.items())
        for one in imports_of(module, path.read_text(encoding="utf-8"), path.name == "__init__.py")
        for complaint in complaints(one)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("gnomon.dialects.x", "import gnomon.passes.simplify"),
        ("gnomon.dialects.x", "import gnomon"),
        ("gnomon.dialects.x", "from gnomon import passes"),
        ("gnomon.dialects.x", "from ..passes import simplify"),
        ("gnomon.dialects.x", "from .. import passes"),
        ("gnomon.dialects.x", "if TYPE_CHECKING:\n    from gnomon import Array"),
        ("gnomon.passes.x", "from gnomon.backends import reference"),
        ("gnomon.backends.x", "from gnomon import Array"),
        ("gnomon.backends.x", "from gnomon._arrays.array import Array"),
        ("gnomon.numpy", "import gnomon.tools.driver"),
        ("gnomon.numpy", "def f():\n    from gnomon import lax"),
        ("gnomon.numpy", "def f():\n    import_module('gnomon.lax')"),
        ("gnomon.numpy", "class C:\n    def f(self):\n        from . import lax"),
        ("gnomon.numpy", "f = lambda: __import__('gnomon.lax')"),
        ("gnomon.passes.x", "from torch_mlir import ir"),
        ("gnomon.passes.x", "importlib.import_module('torch_mlir.dialects.func')"),
        ("gnomon._compilation.jit", "def f():\n    import iree.compiler.api"),
        ("gnomon._compilation.jit", "import jax.numpy as jnp"),
        ("gnomon._trees.flatten", "from gnomon._arrays.array import Array"),
        ("gnomon._compilation.jit", "from gnomon import lax"),
        ("gnomon._compilation.jit", "from gnomon import _native"),
        ("gnomon.lax._loops", "import gnomon.numpy"),
        ("gnomon.tools.driver", "from jaxlib import xla_client"),
        ("gnomon_runtime.artifact", "from gnomon.backends import errors"),
        ("gnomon_runtime.artifact", "def f():\n    import optree"),
    ],
)
def test_a_wrong_import_is_noticed(module: str, source: str) -> None:
    assert [c for one in imports_of(module, source, False) for c in complaints(one)] != []


@pytest.mark.parametrize(
    ("module", "source", "is_package"),
    [
        ("gnomon.dialects.mlir", "from torch_mlir import ir", False),
        ("gnomon.dialects", "from . import mlir", True),
        ("gnomon.dialects.x", "from .mlir import ir", False),
        ("gnomon.passes.x", "from gnomon.dialects import mlir", False),
        ("gnomon.backends.x", "from gnomon import passes", False),
        ("gnomon.backends.iree.compiler", "def f():\n    import iree.compiler.api", False),
        ("gnomon", "from gnomon._native import SignatureCache", True),
        ("gnomon", "from gnomon.backends import reference", True),
        ("gnomon.tools.bench.peers", "import jax", False),
        ("gnomon.tools.driver", "import gnomon", False),
        ("gnomon.numpy", "from . import jaxtyping_like", False),
        ("gnomon_runtime.running", "import iree.runtime", False),
        ("gnomon.backends.iree.x", "from gnomon_runtime import errors", False),
    ],
)
def test_a_right_import_is_let_through(module: str, source: str, is_package: bool) -> None:
    assert [c for one in imports_of(module, source, is_package) for c in complaints(one)] == []


IMPORT_ALL = """
import importlib, sys
ours = ("gnomon", "gnomon_runtime", "gnomon_commands")
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Packages of the extras, with which we compare.
        if error.name.partition(".")[0] in ours:
            raise
"""


@pytest.mark.smoke
def test_every_module_can_be_imported() -> None:
    # Linters and type checkers do not see what this Python lacks, such as parameters of a class.
    names = [name for name in FILES if "bench" not in name and not name.endswith("__main__")]
    result = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *names], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "")


def test_importing_gnomon_loads_neither_mlir_nor_a_runtime_nor_jax() -> None:
    program = (
        "import sys; before = set(sys.modules); import gnomon; "
        "print(*sorted(set(sys.modules) - before))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = result.stdout.split()
    assert "gnomon" in loaded
    heavy = ("torch_mlir", "iree", "jax", "jaxlib", "sklearn", "scipy")
    assert [name for name in loaded if any(is_in(name, package) for package in heavy)] == []
