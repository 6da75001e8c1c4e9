"""Write docs/ops.md: every op of the dialect with its facets, from the registry.

python -m gnomon.tools.op_table > docs/ops.md
python -m gnomon.tools.op_table scan  # the example of an op as a program for gnomon-opt
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gnomon.dialects.contract import FACETS, REGISTRY, Op, Verdict
from gnomon.dialects.example import AXIS, CALLEE, MEMBERS, example_program, example_text
from gnomon.dialects.raising import RULES
from gnomon.dialects.raising.source import Refusal

HEADER = """\
# The ops of the gnomon dialect

Generated from the registry by `python -m gnomon.tools.op_table`. A facet is a rule (✓) or a
verdict; the second table explains the verdicts, and `docs/dialect.md` the facets. The ops of
StableHLO that are raised to the dialect, and the attributes and an example of each op follow the
tables.
"""

FOREIGN = """
## Ops of StableHLO

[Programs of StableHLO](driver.md#stablehlo) are raised to this dialect. Each op below becomes an op
of the dialect or a composition of several, by a rule in `dialects/raising/`:
"""

EXAMPLES = f"""
## Attributes and examples

The tests parse, verify and evaluate every example, except that `custom_vjp_tangents` cannot be
evaluated, because only its transpose is defined. `python -m gnomon.tools.op_table NAME` prints an
example as a program that `gnomon-opt` reads: values that the example does not define are arguments
of `@main`, and results that it does not use are results. Collectives are over the axis `"{AXIS}"`
of {MEMBERS} members, and `@f` is

```mlir
{CALLEE}
```
"""


def table() -> str:
    """The page."""
    lines = [HEADER]
    lines.append(f"| op | {' | '.join(FACETS)} | what it computes |")
    lines.append("|---" * (len(FACETS) + 2) + "|")
    used: set[Verdict] = set()
    ops = [op for _, op in sorted(REGISTRY.items())]
    for op in ops:
        cells = []
        for facet in FACETS:
            rule = getattr(op, facet)
            if isinstance(rule, Verdict):
                used.add(rule)
                cells.append(rule.name.lower().replace("_", " "))
            else:
                cells.append("✓")
        doc = op.doc.replace("|", "\\|")
        lines.append(f"| `{op.name}` | {' | '.join(cells)} | {doc} |")
    lines.append("\n| verdict | meaning |\n|---|---|")
    for verdict in Verdict:
        if verdict in used:
            lines.append(f"| {verdict.name.lower().replace('_', ' ')} | {verdict.value} |")
    lines.append(foreign_ops())
    lines.append(EXAMPLES)
    lines.append("\n\n".join(map(section, ops)))
    return "\n".join(lines) + "\n"


def foreign_ops() -> str:
    """The ops of StableHLO and CHLO: those that are raised, and those that are refused."""
    raised = [f"`{name}`" for name, rule in sorted(RULES.items()) if not isinstance(rule, Refusal)]
    refused = [
        f"| `{name}` | {rule.reason} |"
        for name, rule in sorted(RULES.items())
        if isinstance(rule, Refusal)
    ]
    return "\n".join(
        [FOREIGN, f"{', '.join(raised)}.\n", "| refused | reason |", "|---|---|", *refused]
    )


def section(op: Op) -> str:
    """The attributes and the example of an op."""
    attributes = [f"`{name}: {kind.name}`" for name, kind in op.attributes.items()]
    listed = [f"Attributes: {', '.join(attributes)}", ""] if attributes else []
    lines = [f"### `{op.name}`", "", *listed, "```mlir", example_text(op), "```"]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point."""
    names = sys.argv[1:] if arguments is None else arguments
    if not names:
        print(table(), end="")
    for name in names:
        op = REGISTRY.get(name) or REGISTRY.get(f"gnomon.{name}")
        if op is None:
            print(f"the gnomon dialect has no op '{name}'", file=sys.stderr)
            return 1
        print(example_program(op).module)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
