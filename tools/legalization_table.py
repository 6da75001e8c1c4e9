"""Write docs/legalizations.md: every legalization with its reason, from the list.

python -m gnomon.tools.legalization_table > docs/legalizations.md
"""

from __future__ import annotations

import sys

from gnomon.backends.iree.legalize.legalization import Kind, Legalization, Stage
from gnomon.backends.iree.legalize.order import LEGALIZATIONS

__all__ = ["main", "table"]

HEADER = """\
# Legalizations

Generated from the list in `backends/iree/legalize/order.py` by
`python -m gnomon.tools.legalization_table`. A legalization rewrites programs that IREE's compiler
rejects or miscompiles. `gnomon-opt --passes=NAME --target=T` runs one alone, and
`gnomon-opt --pipeline=iree --target=T --print-ir-after=NAME` shows what it does to a program. On
each target, two legalizations may have rules for the same op in the same stage only if one declares
that it runs before the other.

The kind says what IREE does without the legalization:

{kinds}

The last column is a program that fails without the legalization, or the reason why there is none.
`tests/backends/iree/legalize/reproducers.py` has the programs. A slow test runs each of them
without its legalization, and fails when a new compiler compiles the program correctly. Reports are
minimal programs that anyone can file upstream; `tests/backends/iree/test_upstream.py` runs them
with IREE's own tools.

Targets are selected by the properties of `Target` and `Capabilities` in
`backends/iree/targets/model.py`.
"""

KINDS = {
    Kind.REFUSED: "an error, a crash, or a compilation that does not end",
    Kind.MISCOMPILED: "a wrong value",
    Kind.INACCURATE: "fewer digits than the dtype holds",
    Kind.SLOW: "a program that is slow to run or to compile",
}


def table() -> str:
    """The page."""
    kinds = "\n".join(f"- {kind.value}: {meaning}" for kind, meaning in KINDS.items())
    lines = [HEADER.format(kinds=kinds)]
    for stage in Stage:
        lines.append(f"## `{stage.name}`: {stage.value}\n")
        lines.append("| name | kind | targets | what it does | why | without it |")
        lines.append("|---|---|---|---|---|---|")
        lines += [row(one) for one in LEGALIZATIONS if one.stage is stage]
        lines.append("")
    return "\n".join(lines)


def row(one: Legalization) -> str:
    """The table row of a legalization."""
    why = one.upstream
    if one.issue:
        why += f" ([issue]({one.issue}))"
    for text in one.texts:
        why += f" ([report](upstream/{text}.md))"
    if one.no_report:
        why += f" (no report: {one.no_report})"
    without = one.reproducer or f"(no program: {one.no_reproducer})"
    cells = (f"`{one.name}`", one.kind.value, str(one.targets), one.doc, why, without)
    escaped = (cell.replace("``", "`").replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def main() -> int:
    """The entry point."""
    sys.stdout.write(table())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
