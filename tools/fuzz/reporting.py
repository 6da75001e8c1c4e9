"""Turns failures into scripts and titles."""

from __future__ import annotations

import re

from gnomon.tools.fuzz.checking import Failure
from gnomon.tools.fuzz.program import Program
from gnomon.tools.fuzz.running import MODULES
from gnomon.tools.fuzz.ways import Ways


def reproducer(program: Program, failure: Failure, ways: Ways = Ways.CHOSEN) -> str:
    """A self-contained script that reproduces a failure."""
    library = "jax" if failure.kind.startswith("jax") else "gnomon"
    function = program.source()
    arguments = [f"gnp.asarray({array.text()})" for _, array in program.arguments]
    closed = [f"k{i} = gnp.asarray({array.text()})" for i, array in enumerate(program.closed())]
    body = "\n".join([*closed, function, f"arguments = [{', '.join(arguments)}]"])
    lines = [f"# {failure.kind}: {failure.detail}"]
    if ways is not Ways.CHOSEN:
        lines += ["from gnomon.tools.fuzz.ways import Ways, take", f"take({ways})"]
    lines.append("import numpy")
    if re.search(r"'(bfloat16|float8\w*|u?int[24])'", body):
        lines.append("import ml_dtypes")
    for name, module in MODULES.items():
        if name in ("gn", "gnp") or re.search(rf"(?<!\.)\b{name}\.", body):
            lines.append(f"import gnomon{module} as {name}")
    if program.x64:
        lines.append("gn.config.update('gnomon_enable_x64', True)")
    jitted = "gn.jit(f)"
    if program.target:
        jitted += f".lower(*arguments).compile(target={program.target!r})"
    lines += [body, "print(f(*arguments))", f"print({jitted}(*arguments))"]
    if library == "jax":
        lines.append("# JAX gives another result for the same program.")
    return "\n".join(lines) + "\n"


def title(program: Program, failure: Failure) -> str:
    """The key of a finding: the signature of its failure, and the reduced program's statements."""
    statements = re.sub(r"\b(?:q\d+_)?(?:f\d+_)*[a-z]_?\d+\b|\d+", "_", program.source())
    return f"{failure.signature}\n{statements}"
