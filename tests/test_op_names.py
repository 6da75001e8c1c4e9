"""Facts about ops are traits of the ops: no new table of op names outside of their rooms.

A table is a collection at the top of a module, most of whose strings, or keys, are names of ops of
the dialect or of StableHLO. Tables from names to functions are rules, not facts, and are not
counted; neither is ``__all__``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.raising import RULES

ROOT = Path(__file__).parents[1]
PACKAGES = ("backends", "commands", "frontend", "passes", "runtime", "tools")
# Generators of kernels have one rule for each op of StableHLO, and tables of code for it.
GENERATORS = ("backends/standalone_c/", "backends/kernels/", "backends/llvm/", "backends/c/")
NAMES = {name.rpartition(".")[2] for name in (*REGISTRY, *RULES)}
# Calls that make collections.
MAKERS = {"frozenset", "set", "tuple", "list", "dict", "fromkeys", "_names"}

_LEGALIZE = "backends/iree/legalize"
_LOWERED = f"{_LEGALIZE}/after_lowering"

# The remaining tables by the fact that they hold, with the reason why no trait holds it.
ALLOWED: dict[str, tuple[str, ...]] = {
    # What IREE 3.13 does with these ops. It is no fact about the ops, and ends with its cause.
    "IREE": (
        f"{_LEGALIZE}/aliases.py:MOVES_DIMENSIONS",
        f"{_LEGALIZE}/aliases.py:PADDED_IN_PLACE",
        f"{_LEGALIZE}/aliases.py:SAME_BUFFER",
        f"{_LEGALIZE}/array_kernels/array_kernel.py:_NOT_COMPUTED",
        f"{_LEGALIZE}/array_kernels/code.py:_SHARED",
        f"{_LEGALIZE}/complex_kernels.py:_IN_PLACE",
        f"{_LEGALIZE}/control/rolled_chains.py:_OTHERS",
        f"{_LEGALIZE}/control/stored_carries.py:_MOVES",
        f"{_LEGALIZE}/reductions/stepwise.py:_REORDERS",
        f"{_LEGALIZE}/small_batches.py:_IN_NO_KERNEL",
        f"{_LOWERED}/constant_reductions.py:_BRANCHES",
        f"{_LOWERED}/lifted_elements.py:_VIEWS",
        f"{_LOWERED}/negated_parts.py:_VIEWS",
        f"{_LOWERED}/scalar_kernels.py:_CONTROL",
        f"{_LOWERED}/scalar_kernels.py:_STAYING",
        f"{_LOWERED}/scalar_kernels.py:_UNSURE",
        f"{_LOWERED}/scalar_kernels.py:_VIEWS",
        f"{_LOWERED}/spread_updates.py:_MOVES",
        f"{_LOWERED}/strided_views.py:_READERS",
        f"{_LOWERED}/strided_views.py:_SLICES",
        "passes/fold_constants.py:_VIEWS",
    ),
    # Lists of what tests have run, or of what another compiler's file contains.
    "verified": (
        "backends/iree/dynamic/lowering.py:_ELEMENTWISE",
        "backends/iree/dynamic/lowering.py:_OTHERS",
        "passes/chlo_expansions.py:_NAMES",
    ),
    # Laws of arithmetic on a few ops: neutral elements, inverses, what commutes with a sum.
    "algebra": (
        f"{_LEGALIZE}/reductions/sums_of_products.py:_PRODUCTS",
        f"{_LOWERED}/constant_reductions.py:IDEMPOTENT",
        f"{_LOWERED}/lifted_elements.py:_COMMUTATIVE",
        f"{_LOWERED}/lifted_elements.py:_IDEMPOTENT",
        f"{_LOWERED}/lifted_elements.py:_OWN_INVERSES",
        f"{_LOWERED}/varying_values.py:_ARITHMETIC",
        f"{_LOWERED}/varying_values.py:_EITHER",
        f"{_LOWERED}/varying_values.py:_EXTREMA",
        f"{_LOWERED}/varying_values.py:_IN_MEMORY",
        f"{_LOWERED}/varying_values.py:_OF_TWO",
        f"{_LOWERED}/varying_values.py:_ONE_TO_ONE",
        f"{_LOWERED}/varying_values.py:_SPREADS",
        "backends/complex_numbers/splitting.py:_COSTS",
        "passes/split_scans.py:_MOVES",
    ),
    # The op by which a reduction or a scatter combines two numbers.
    "combiners": (
        f"{_LEGALIZE}/array_kernels/reductions.py:ACROSS",
        f"{_LEGALIZE}/data_movement/scatter.py:_COMBINE",
        f"{_LEGALIZE}/data_movement/storage.py:_EXTREMA",
        f"{_LEGALIZE}/data_movement/storage.py:_OF_BOOLS",
        "frontend/gnomon/numpy/_ufunc_class.py:_UFUNCS",
        "frontend/gnomon/numpy/_updates.py:_COMBINE",
    ),
    # What an op does to the digits: whether it rounds, or makes a nan. A trait could hold it.
    "digits": (
        f"{_LEGALIZE}/array_kernels/row_groups.py:_NOT_NARROW",
        f"{_LEGALIZE}/array_kernels/row_numbers.py:_EXACT",
        "backends/narrow.py:_CLAMPED",
        "backends/narrow.py:_MOVES",
        "frontend/gnomon/_tracing/evaluation.py:_COPIES",
        "passes/functionalize_checks.py:_NO_NEW_NAN",
        "tools/fuzz/judging.py:EQUALITIES",
        "tools/fuzz/judging.py:EXACT",
        "tools/fuzz/judging.py:EXTREMA",
        "tools/fuzz/judging.py:ROUNDED",
        "tools/fuzz/judging.py:SUMS",
    ),
    # The words and examples in the docstrings of functions that one line makes.
    "docstrings": (
        "frontend/gnomon/_examples/lax.py:LAX",
        "frontend/gnomon/numpy/_dispatch.py:_COMPARISONS",
    ),
    # Names of functions or parameters that happen to be names of ops.
    "other names": (
        "backends/complex_numbers/splitting.py:_COUNTS",
        "frontend/gnomon/lax/_operands.py:_PROMOTING",
        "frontend/gnomon/lax/_reductions.py:_BITWISE",
        "tools/fuzz/sessions/derivations.py:DERIVATIONS",
    ),
}


def _words(node: ast.AST) -> Iterator[str]:
    """The strings in a table; a string of several words is a list of names."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield from part.value.split()


def _is_name(word: str) -> bool:
    return re.sub(r"^(gnomon|stablehlo|chlo)\.", "", word) in NAMES


def _is_code(value: ast.expr) -> bool:
    return any(isinstance(v, ast.Name | ast.Lambda | ast.Attribute) for v in ast.walk(value))


def _is_collection(part: ast.AST) -> bool:
    """Whether an expression may hold several names: a display, a call, or a text of words."""
    if isinstance(part, ast.Call):
        called = part.func
        name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
        return name in MAKERS
    if isinstance(part, ast.Constant):
        words = part.value.split() if isinstance(part.value, str) else []
        return len(words) > 1 and sum(map(_is_name, words)) >= 0.75 * len(words)
    return isinstance(part, ast.Tuple | ast.List | ast.Set | ast.Dict)


def _entries(table: ast.expr) -> list[str]:
    """The names in a collection; none if it is not one, or if it maps names to code."""
    parts = list(ast.walk(table))
    dictionaries = [part for part in parts if isinstance(part, ast.Dict)]
    if not any(map(_is_collection, parts)):
        return []
    if any(
        key is not None and _is_code(value)
        for d in dictionaries
        for key, value in zip(d.keys, d.values, strict=True)
    ):
        return []
    if isinstance(table, ast.Dict):
        pairs = zip(table.keys, table.values, strict=True)
        words = [word for k, v in pairs for word in _words(v if k is None else k)]
    else:
        words = list(_words(table))
    return [word for word in words if word.isidentifier() or _is_name(word)]


def tables(source: str) -> Iterator[str]:
    """The names of a module's tables of op names."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign):
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if not isinstance(target, ast.Name) or target.id == "__all__":
            continue
        entries = _entries(value)
        known = [word for word in entries if _is_name(word)]
        if len(set(known)) >= 2 and len(known) >= 0.75 * len(entries):
            yield target.id


def found() -> set[str]:
    """All tables, each as ``path:name``."""
    return {
        f"{path.relative_to(ROOT).as_posix()}:{name}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if not path.relative_to(ROOT).as_posix().startswith(GENERATORS)
        for name in tables(path.read_text(encoding="utf-8"))
    }


@pytest.mark.usefixtures("_no_garbage_collection")
def test_the_tables_of_op_names() -> None:
    """A new table of op names fails: declare a trait, or a rule, in the room of the op.

    A table that is gone must leave `ALLOWED`.
    """
    allowed = [name for names in ALLOWED.values() for name in names]
    assert len(set(allowed)) == len(allowed)
    assert sorted(found()) == sorted(allowed)


def test_what_is_a_table() -> None:
    """Names with facts are a table, in every notation; rules and single names are none."""
    source = """
A = frozenset({"gnomon.add", "gnomon.mul"})
B = frozenset(f"stablehlo.{name}" for name in ("sine", "cosine"))
C: dict[str, int] = {"add": 1, "mul": 6}
D = "reduce_sum reduce_prod"
E = _names("sort", "top_k")
F = {**dict.fromkeys(("abs", "div"), 17)}
_SINE, _COSINE = "stablehlo.sine", "stablehlo.cosine"
RULES = {"gnomon.add": _add, "gnomon.mul": lambda inst: inst}
WORDS = ("and", "or", "nothing", "else")
__all__ = ["add", "mul"]
exp = unary("exp", "exp2")
"""
    assert list(tables(source)) == ["A", "B", "C", "D", "E", "F"]
