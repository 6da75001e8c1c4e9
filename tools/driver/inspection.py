"""``gnomon inspect`` and ``gnomon diff``: facts about a program, and differences between two."""

from __future__ import annotations

import argparse
import difflib
import json
import re
from collections import Counter
from typing import Any

from gnomon.dialects.mlir import context, ir
from gnomon.tools.driver.artifacts import SUFFIX, describe_artifact
from gnomon.tools.driver.diagnostics import Place
from gnomon.tools.driver.emission import STAGES
from gnomon.tools.driver.errors import ComparisonError
from gnomon.tools.driver.opening import AnyProgram, is_function, open_program
from gnomon.tools.driver.programs import Leaf, Request
from gnomon.tools.driver.progress import progress
from gnomon.tools.driver.requests import request_of
from gnomon.tools.driver.tables import columns, size

__all__ = ["count_lines", "count_ops", "diff_command", "inspect_command"]

# Ops that only hold a program together.
_STRUCTURE = frozenset(
    {"builtin.module", "func.func", "func.return", "builtin.unrealized_conversion_cast"}
)
_FILE_AND_LINE = re.compile(r'"([^"]+)":(\d+):\d+')


def count_ops(text: str) -> Counter[str]:
    """The number of occurrences of each op in a program's text."""
    found: Counter[str] = Counter()

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name not in _STRUCTURE:
            found[op.name] += 1
        return ir.WalkResult.ADVANCE

    ir.Module.parse(text, context()).operation.walk(visit)
    return found


def count_lines(text: str) -> Counter[tuple[str, int]]:
    """The number of ops from each line of the user's files, in a text with locations."""
    found: Counter[tuple[str, int]] = Counter()

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name not in _STRUCTURE:
            place = _FILE_AND_LINE.search(str(op.location))
            if place is not None:
                found[place[1], int(place[2])] += 1
        return ir.WalkResult.ADVANCE

    ir.Module.parse(text, context()).operation.walk(visit)
    return found


def describe(program: AnyProgram, target: str) -> dict[str, Any]:
    """The facts about a program, for JSON."""
    lowered = program.lower(target)
    cost = lowered.artifact.cost
    lines = count_lines(lowered.text("gnomon", debug_info=True))

    def leaves(given: list[Leaf]) -> list[dict[str, Any]]:
        return [{"name": leaf.name, "type": str(leaf.type)} for leaf in given]

    facts: dict[str, Any] = {
        "program": program.path,
        "target": target,
        "arguments": leaves(program.arguments),
        "results": leaves(program.results),
        "ops": {stage: dict(count_ops(lowered.text(stage))) for stage in STAGES},
        "lines": [
            {"file": file, "line": line, "ops": count}
            for (file, line), count in sorted(lines.items())
        ],
        "portable_bytes": len(lowered.artifact.portable),
        "cost": cost.analysis(),
    }
    return facts


def inspect_command(options: argparse.Namespace) -> None:
    """Run ``gnomon inspect``."""
    if options.program.endswith(SUFFIX):
        describe_artifact(options.program, options.json)
        return
    program = open_program(request_of(options))
    with progress(f"{program.name}: lowering"):
        facts = describe(program, options.target)
    if options.json:
        print(json.dumps(facts, indent=2))
        return
    print(f"{facts['program']}, for {facts['target']}")
    for kind in ("arguments", "results"):
        print(f"\n{kind}")
        print(columns([(one["name"], one["type"]) for one in facts[kind]], "  ") or "  none")
    if "cost" in facts:
        cost = facts["cost"]
        print(
            f"\ncost of a call, before fusion\n  {cost['flops']:.4g} flops, "
            f"{cost['transcendentals']:.4g} transcendentals, "
            f"{size(cost['bytes accessed'])} read and written, {cost['dispatches']:g} kernels"
        )
    print("\nops")
    rows = [
        (stage, str(sum(ops.values())), _most_frequent(ops)) for stage, ops in facts["ops"].items()
    ]
    print(columns(rows, "  "))
    if facts["lines"]:
        print("\nops by line")
        places = [Place(one["file"], one["line"]) for one in facts["lines"]]
        rows = [
            (f"{place.shown_path()}:{place.line}", str(one["ops"]), place.source())
            for place, one in zip(places, facts["lines"], strict=True)
        ]
        print(columns(rows, "  "))


def _most_frequent(ops: dict[str, int], shown: int = 6) -> str:
    ranked = sorted(ops.items(), key=lambda item: (-item[1], item[0]))
    text = ", ".join(f"{count} {name.partition('.')[2]}" for name, count in ranked[:shown])
    return text + (", ..." if len(ranked) > shown else "")


# -------------------------------------------------------------------------------------------- diff


def diff_command(options: argparse.Namespace) -> None:
    """Run ``gnomon diff``."""
    # Types and transformations apply to Python functions only.
    before, after = (
        open_program(request_of(options, path) if is_function(path) else Request(path))
        for path in (options.before, options.after)
    )
    with progress("lowering both"):
        lowered = [program.lower(options.target) for program in (before, after)]
    texts = [one.text(options.stage) for one in lowered]
    old, new = (text.splitlines() for text in texts)
    names_of = (options.before, options.after)
    changes = [
        line.rstrip()
        for line in difflib.unified_diff(old, new, *names_of, lineterm="", n=options.context)
    ]
    counts = [count_ops(text) for text in texts]
    names = sorted(set(counts[0]) | set(counts[1]))
    ops = {n: (counts[0][n], counts[1][n]) for n in names if counts[0][n] != counts[1][n]}
    types = [
        (
            [str(leaf.type) for leaf in program.arguments],
            [str(leaf.type) for leaf in program.results],
        )
        for program in (before, after)
    ]
    if options.json:
        facts = {
            "equal": not changes,
            "signatures": [{"arguments": a, "results": r} for a, r in types],
            "ops": {name: list(pair) for name, pair in ops.items()},
            "diff": changes,
        }
        print(json.dumps(facts, indent=2))
    elif changes:
        if types[0] != types[1]:
            for sign, (arguments, results) in zip("-+", types, strict=True):
                print(f"{sign} ({', '.join(arguments)}) -> ({', '.join(results)})")
        if ops:
            rows = [(name, str(old), "->", str(new)) for name, (old, new) in ops.items()]
            print(columns([("op", "old", "", "new"), *rows]))
        print("\n".join(changes))
    if changes:
        raise ComparisonError(f"the programs differ at the stage {options.stage}")
    if not options.json:
        print(f"no difference at the stage {options.stage}")
