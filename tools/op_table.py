"""Write docs/ops.md: every op of the dialect by its facets, from the registry.

python -m gnomon.tools.op_table > docs/ops.md
"""

from __future__ import annotations

from gnomon.dialects.contract import FACETS, REGISTRY, Verdict

HEADER = """\
# The ops of the gnomon dialect

Generated from the registry by `python -m gnomon.tools.op_table`. A facet is a rule (✓) or a
verdict; what the verdicts mean stands below the table. `docs/architecture.md` says what the facets
are.
"""


def table() -> str:
    """The page."""
    lines = [HEADER]
    lines.append(f"| op | {' | '.join(FACETS)} | what it computes |")
    lines.append("|---" * (len(FACETS) + 2) + "|")
    used: set[Verdict] = set()
    for _, op in sorted(REGISTRY.items()):
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
    return "\n".join(lines) + "\n"


def main() -> int:
    """The entry point."""
    print(table(), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
