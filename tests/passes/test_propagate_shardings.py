"""Propagation of automatic shardings: by op, through control flow, and the op that constrains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import lax
from gnomon.dialects.contract import REGISTRY, TypeRuleError
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir
from gnomon.dialects.sharding_constraint import constraint_split, sharding_constraint
from gnomon.dialects.sharding_rules import SplitUse
from gnomon.dialects.types import TensorType
from gnomon.passes.propagate_shardings import Split, propagate

SIZES = {"x": 4, "y": 2}


def split(text: str) -> Split:
    """``"x - xy"``: a dimension split over x, one that is not, one over x and y."""
    return tuple(() if part == "-" else tuple(part) for part in text.split())


DOT = {"lhs_batch": (), "rhs_batch": (), "lhs_contracting": (1,), "rhs_contracting": (0,)}
GATHER = {
    "collapsed_slice_dims": (0,),
    "operand_batching_dims": (),
    "start_indices_batching_dims": (),
    "offset_dims": (1,),
    "slice_sizes": (1, 4),
}
# op, parameters, shapes of operands, of results, how operands are split, how results are.
RULES: list[tuple[str, dict[str, Any], list[Any], list[Any], list[str], list[str]]] = [
    ("sin", {}, [(8, 4)], [(8, 4)], ["x y"], ["x y"]),
    ("add", {}, [(8, 4), (8, 4)], [(8, 4)], ["x -", "- y"], ["x y"]),
    ("add", {}, [(8, 4), (8, 4)], [(8, 4)], ["x -", "y -"], ["- -"]),
    ("add", {}, [(8, 4), (8, 4)], [(8, 4)], ["x -", "xy -"], ["xy -"]),
    ("add", {}, [(8, 4), (8, 4)], [(8, 4)], ["x -", "- x"], ["x -"]),
    ("select", {}, [(), (8,), (8,)], [(8,)], ["", "x", "-"], ["x"]),
    ("broadcast_in_dim", {"dims": (1,)}, [(8,)], [(2, 8)], ["x"], ["- x"]),
    ("broadcast_in_dim", {"dims": (0,)}, [(1,)], [(8,)], ["y"], ["-"]),
    ("transpose", {"permutation": (1, 0)}, [(8, 4)], [(4, 8)], ["x y"], ["y x"]),
    ("reduce_sum", {"axes": (0,)}, [(8, 4)], [(4,)], ["x y"], ["y"]),
    ("argmax", {"axis": 1}, [(8, 4)], [(8,)], ["x y"], ["x"]),
    ("dot_general", DOT, [(8, 4), (4, 6)], [(8, 6)], ["x y", "y -"], ["x -"]),
    ("dot_general", DOT, [(8, 4), (4, 8)], [(8, 8)], ["x -", "- x"], ["x -"]),
    ("reshape", {}, [(8, 4)], [(32,)], ["x -"], ["x"]),
    ("reshape", {}, [(8, 4)], [(32,)], ["- x"], ["-"]),
    ("reshape", {}, [(8,)], [(4, 2)], ["x"], ["x -"]),
    ("reshape", {}, [(8,)], [(2, 4)], ["x"], ["- -"]),
    ("reshape", {}, [(8, 1, 3)], [(1, 8, 3)], ["x - -"], ["- x -"]),
    ("slice", {}, [(8,)], [(4,)], ["x"], ["x"]),
    ("slice", {}, [(8,)], [(3,)], ["x"], ["-"]),
    ("pad", {}, [(8,), ()], [(12,)], ["x", ""], ["x"]),
    ("dynamic_slice", {}, [(8, 4), (), ()], [(8, 2)], ["x y", "", ""], ["x -"]),
    ("dynamic_update_slice", {}, [(8,), (2,), ()], [(8,)], ["x", "-", ""], ["x"]),
    ("gather", GATHER, [(8, 4), (3, 1)], [(3, 4)], ["x y", "- -"], ["- y"]),
    ("scatter_add", {}, [(8,), (3, 1), (3,)], [(8,)], ["x", "- -", "-"], ["x"]),
    ("top_k", {"axis": 1}, [(8, 4)], [(8, 2), (8, 2)], ["x y"], ["x -", "x -"]),
    ("cholesky", {}, [(8, 2, 2)], [(8, 2, 2)], ["x y -"], ["x - -"]),
    ("rng_bit_generator", {}, [(4,)], [(4,), (8,)], ["x"], ["-", "-"]),
    ("bitcast_convert", {}, [(8, 4)], [(8,)], ["x y"], ["x"]),
    ("householder_product", {}, [(8, 4, 3), (8, 3)], [(8, 4, 3)], ["x y -", "- -"], ["x - -"]),
    ("optimization_barrier", {}, [(8,), (8,)], [(8,), (8,)], ["x", "y"], ["x", "y"]),
]


@pytest.mark.parametrize(("name", "params", "operands", "results", "given", "expected"), RULES)
def test_the_results_of_an_op(
    name: str,
    params: dict[str, Any],
    operands: list[Any],
    results: list[Any],
    given: list[str],
    expected: list[str],
) -> None:
    use = SplitUse(name, params, operands, results, [split(g) for g in given], SIZES)
    assert REGISTRY[f"gnomon.{name}"].sharding.automatic(use) == [split(e) for e in expected]


def _propagated(f: Any, arguments: list[Any], given: list[str]) -> list[Split]:
    with context():
        program = Program(ir.Module.parse(str(gn.make_jaxpr(f)(*arguments))))
    return propagate(program.body("main"), [split(g) for g in given], SIZES)


def test_the_carry_of_a_scan_is_split_as_the_body_leaves_it() -> None:
    def f(c: Any, xs: Any) -> Any:
        return lax.scan(lambda c, x: (c + x, c), c, xs)

    arguments = [gnp.zeros(8), gnp.zeros((3, 8))]
    assert _propagated(f, arguments, ["-", "- x"]) == [split("x"), split("- x")]
    assert _propagated(f, arguments, ["-", "- -"]) == [split("-"), split("- -")]


def test_a_loop_and_branches() -> None:
    def loop(x: Any, y: Any) -> Any:
        return lax.while_loop(lambda c: gnp.sum(c) < 9, lambda c: c + y, x)

    def branches(i: Any, x: Any, y: Any) -> Any:
        return lax.switch(i, [lambda x, y: x, lambda x, y: y], x, y)

    arrays = [gnp.zeros((8, 4)), gnp.zeros((8, 4))]
    assert _propagated(loop, arrays, ["x -", "- y"]) == [split("x y")]
    assert _propagated(branches, [0, *arrays], ["", "x -", "- y"]) == [split("x y")]


CONSTRAINT = {
    "names": ("x", "y"),
    "sizes": (4, 2),
    "types": ("auto", "auto"),
    "devices": (),
}


def test_a_constraint_overrides_all_but_open_dimensions() -> None:
    params = {**CONSTRAINT, "spec": ("y", "?")}
    assert constraint_split(params, split("x x")) == split("y x")
    assert constraint_split(params, split("- y")) == split("y -")
    use = SplitUse("sharding_constraint", params, [(8, 4)], [(8, 4)], [split("- x")], SIZES)
    assert sharding_constraint.sharding.automatic(use) == [split("y x")]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"spec": ("z", "?")}, "must name axes among"),
        ({"spec": ("x", "x")}, "each once"),
        ({"spec": ("x",)}, "an entry for each dimension"),
        ({"spec": ("x", "y"), "devices": (0, 1)}, "the mesh has 8 devices"),
        ({"spec": ("x", "y"), "types": ("auto", "other")}, "types of axes"),
        ({"spec": ("x", "y"), "sizes": (4,)}, "a name, a size and a type"),
    ],
)
def test_errors_of_the_type_rule_of_a_constraint(changes: dict[str, Any], problem: str) -> None:
    x = TensorType((8, 4), np.dtype(np.float32))
    with pytest.raises(TypeRuleError, match=problem):
        sharding_constraint.infer_types([x], {**CONSTRAINT, **changes})
