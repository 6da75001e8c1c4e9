"""The table of passes by name, and the pipelines.

A pass changes a module in place. One table has both the passes written in Python and upstream's C++
passes, so that `gnomon-opt` and the API run the same passes under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from gnomon.dialects.body import Body, has_packing, restore_packing
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir, passmanager
from gnomon.passes.drop_unused_results import drop_unused_results
from gnomon.passes.expand import expand_transformations
from gnomon.passes.expand_scan import expand_scan
from gnomon.passes.fold_constants import fold_constants
from gnomon.passes.hoist_invariants import hoist_invariants
from gnomon.passes.inline import inline_calls
from gnomon.passes.lower import lower_to_stablehlo
from gnomon.passes.split_scans import split_scans


class Pass(NamedTuple):
    """A named pass.

    Attributes:
      name: in kebab case, as `gnomon-opt` takes it.
      doc: a one-line description.
      run: changes the module in place.
    """

    name: str
    doc: str
    run: Callable[[ir.Module], None]


def _upstream(name: str) -> Callable[[ir.Module], None]:
    def run(module: ir.Module) -> None:
        manager = passmanager.PassManager.parse(f"builtin.module({name})", module.context)
        manager.enable_verifier(False)
        manager.run(module.operation)

    return run


def _upstream_on_tuples(name: str) -> Callable[[ir.Module], None]:
    """An upstream pass that may drop packing casts, which are restored afterwards."""
    run_pass = _upstream(name)

    def run(module: ir.Module) -> None:
        packed = has_packing(module)
        run_pass(module)
        if packed:
            restore_packing(module.operation)

    return run


def _on_bodies(run: Callable[[Body], None]) -> Callable[[Program], None]:
    def on_program(program: Program) -> None:
        for function in program.functions:
            run(program.body(symbol_name(function)))

    return on_program


def _python(run: Callable[[Program], None]) -> Callable[[ir.Module], None]:
    def on_module(module: ir.Module) -> None:
        program = Program(module)
        if _has_calls(program):
            program.mark_effects()
        run(program)

    return on_module


def _has_calls(program: Program) -> bool:
    """Whether the program may contain calls, which need a second function."""
    return len(program.functions) > 1


PASSES: dict[str, Pass] = {
    p.name: p
    for p in (
        Pass(
            "expand-transformations",
            "replace gnomon.jvp, vjp, vmap, shard_map by functions derived from their callees",
            _python(expand_transformations),
        ),
        Pass("inline", "replace calls by the bodies of their callees", _python(inline_calls)),
        Pass("symbol-dce", "drop private functions that nothing calls", _upstream("symbol-dce")),
        Pass(
            "fold-constants",
            "evaluate expressions of small literals",
            _python(fold_constants),
        ),
        Pass("cse", "merge equal operations", _upstream_on_tuples("cse")),
        Pass(
            "canonicalize",
            "drop dead operations and fold constants of upstream dialects",
            _upstream_on_tuples("canonicalize"),
        ),
        Pass(
            "hoist-invariants",
            "move loop-invariant computations before the loop",
            _python(_on_bodies(hoist_invariants)),
        ),
        Pass(
            "drop-unused-results",
            "narrow branches and loops to the results and carries that are used",
            _python(drop_unused_results),
        ),
        Pass(
            "split-scans",
            "move contractions that need not run in sequence out of loops",
            _python(split_scans),
        ),
        Pass("expand-scan", "turn gnomon.scan into gnomon.while", _python(expand_scan)),
        Pass(
            "lower-to-stablehlo",
            "replace every gnomon op by its StableHLO form",
            _python(lower_to_stablehlo),
        ),
        Pass(
            "simplify-lowered",
            "inline calls of lowered functions, merge equal operations, drop dead ones",
            _upstream("inline{default-pipeline=},canonicalize,cse"),
        ),
        Pass("strip-debuginfo", "drop all locations", _upstream("strip-debuginfo")),
    )
}

EXPAND = (
    "expand-transformations",
    "inline",
    "symbol-dce",
    "drop-unused-results",
    "fold-constants",
    "canonicalize",
    "cse",
)
LOWER = ("expand-scan", "canonicalize", "cse", "lower-to-stablehlo", "simplify-lowered")


def run_passes(
    module: ir.Module,
    names: Iterable[str],
    after: Callable[[Pass, ir.Module], None] | None = None,
    passes: Mapping[str, Pass] = PASSES,
) -> None:
    """Run passes in order; ``after`` is called after each pass."""
    for name in names:
        passes[name].run(module)
        if after is not None:
            after(passes[name], module)
