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
from gnomon.dialects.traits import Form

HEADER = """\
# The ops of the gnomon dialect

Generated from the registry by `python -m gnomon.tools.op_table`. A facet is a rule (✓) or a
verdict; the second table explains the verdicts, and `docs/dialect.md` the facets. The table after
it has the traits, which passes ask for. The ops of StableHLO that are raised to the dialect, and
the attributes and an example of each op follow the tables.
"""

TRAITS = """
## Traits

What a compiler needs to know about each op (`dialects/traits.py`): its form, the cost of an element
of an elementwise op, the operands in which the op is linear (those in parentheses together, while
the others are fixed), and the operations of StableHLO that it lowers to one-to-one.

| op | form | cost | linear in | StableHLO |
|---|---|---|---|---|"""

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
                cells.append(_words(rule.name))
            else:
                cells.append("✓")
        doc = op.doc.replace("|", "\\|")
        lines.append(f"| `{op.name}` | {' | '.join(cells)} | {doc} |")
    lines.append("\n| verdict | meaning |\n|---|---|")
    for verdict in Verdict:
        if verdict in used:
            lines.append(f"| {_words(verdict.name)} | {verdict.value} |")
    lines.append(TRAITS)
    lines += map(traits, ops)
    lines.append("\n| form | meaning |\n|---|---|")
    lines += [f"| {_words(form.name)} | {form.value} |" for form in Form]
    lines.append(foreign_ops())
    lines.append(EXAMPLES)
    lines.append("\n\n".join(map(section, ops)))
    return "\n".join(lines) + "\n"


def traits(op: Op) -> str:
    """The row of an op in the table of traits."""
    cost = _words(op.cost.name) if op.cost is not None else ""
    lowered = ", ".join(f"`{name}`" for name in op.stablehlo)
    return f"| `{op.name}` | {_words(op.form.name)} | {cost} | {_linearity(op)} | {lowered} |"


def _words(name: str) -> str:
    return name.lower().replace("_", " ")


def _linearity(op: Op) -> str:
    if op.linear is None:
        return ""
    if op.linear.in_bodies:
        return "as its bodies"
    return ", ".join(_group(op, group) for group in op.linear.groups)


def _group(op: Op, group: tuple[int, ...] | None) -> str:
    if group is None:
        return "all" if op.operands is ... or len(op.operands) > 1 else f"`{op.operands[0]}`"
    names = [f"`{op.operands[i]}`" if op.operands is not ... else f"`{i}`" for i in group]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


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
