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
cannot take, or takes wrongly. `gnomon-opt --passes=NAME --target=T` runs one alone, and
`gnomon-opt --pipeline=iree --target=T --print-ir-after=NAME` shows what it does in a program. On
no target do two of them have a rule for one op in one stage, unless one declares that it comes
before the other.

Kinds, by what IREE does without it:

{kinds}

The last column is a program that fails without the legalization, or the reason why there is none.
`tests/backends/iree/legalize/reproducers.py` has the programs. A slow test runs each of them with
its legalization left out, and fails when a new compiler takes the program rightly. Reports are
minimal programs that anyone can file with upstream; `tests/backends/iree/test_upstream.py` runs
them with IREE's own tools.

Targets are told by their properties, those of `Target` and `Capabilities` in
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
    """The line of a legalization."""
    why = one.upstream
    if one.issue:
        why += f" ([issue]({one.issue}))"
    for text in one.texts:
        why += f" ([report](upstream/{text}.md))"
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
