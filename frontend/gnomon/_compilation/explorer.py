"""A page that shows a program at every stage, next to the lines of user code it comes from."""

from __future__ import annotations

import difflib
import html
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnomon._arrays.array import Array
from gnomon._compilation.ahead_of_time import closed_program
from gnomon._compilation.explorer_code import code_stages
from gnomon._compilation.explorer_graph import laid_out
from gnomon._diagnostics.source_location import is_internal
from gnomon.backends import platforms
from gnomon.backends.compilation import Stages, Text
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import context, ir
from gnomon.passes.cost import operation_costs
from gnomon.passes.pipeline import Pass
from gnomon_runtime.writing import write_file

__all__ = ["ExplorerPage", "explore"]

_TEMPLATE = Path(__file__).with_name("explorer.html")
_DATA = "/*DATA*/null"
_TITLES = {
    "traced": "Traced",
    "expanded": "Transformed",
    "legalized": "Legalized",
    "stablehlo": "StableHLO",
}
_MEANINGS = {
    "traced": "the program as traced, with transformations as operations",
    "expanded": "transformations expanded, calls inlined, simplified",
    "legalized": "rewritten for the target",
    "stablehlo": "what the compiler gets",
}
_ALIAS = re.compile(r"^(#loc\w*) = loc\((.*)\)$", re.MULTILINE)
_REFERENCE = re.compile(r"#loc\w*")
_PLACE = re.compile(r'"([^"]+)":(\d+):\d+')
_OP = re.compile(r'^\s*(?:%[\w:#, %]+ = )?"?(\w+\.\w+)"?|^\s*(?:%[\w:#, %]+ = )?(call)\b')
_DEPTH = 16


class ExplorerPage:
    """One HTML page, without references to the network.

    A notebook displays it.

    Attributes:
      data: the page's contents as JSON values: ``files``, ``stages``, ``passes``,
        ``costs``, ``graph``.

    Example:
      >>> import gnomon as gn, gnomon.numpy as gnp
      >>> page = gn.jit(gn.grad(lambda x: gnp.sum(x**2))).lower(gnp.ones(3)).explore()
      >>> [stage["title"] for stage in page.data["stages"]]
      ['Traced', 'Transformed', 'Legalized', 'StableHLO', 'Kernels', 'Assembly']
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __str__(self) -> str:
        """The page as HTML."""
        # Escaped because "</script" would end the script element.
        data = json.dumps(self.data, separators=(",", ":")).replace("<", "\\u003c")
        page = _TEMPLATE.read_text(encoding="utf-8").replace(_DATA, data)
        return page.replace("<title></title>", f"<title>{html.escape(self.data['name'])}</title>")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        write_file(path, [str(self).encode()])

    def _repr_html_(self) -> str:
        page = html.escape(str(self), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:600px;border:0"></iframe>'

    def __repr__(self) -> str:
        return f"<explorer page of {self.data['name']} for {self.data['target']}>"


def explore(
    name: str,
    text: str,
    captures: Sequence[Array],
    target: str,
    hidden: Sequence[str] = (),
    *,
    code: bool = True,
) -> ExplorerPage:
    """The page of a traced program.

    Args:
      name: the name of the function.
      text: the program with locations.
      captures: the values of the program's last arguments.
      target: the target that the program is lowered for.
      hidden: folders whose files do not count as the user's.
      code: whether to compile the program, for the stages of kernels and assembly.
    """
    backend, _ = platforms.compiler_for(target)
    passes = _Passes()
    program = closed_program(text, captures)
    passes.start(program.module)
    artifact = backend.lower(program, keep_stages=True, observe=passes)
    files = _Files(tuple(hidden))
    stages = [_stage(name, stage_text, files) for name, stage_text in _texts(artifact.stages)]
    if code and hasattr(backend, "emit_located"):
        stages += code_stages(backend.emit_located(artifact), files.numbered)
    expanded = Program(ir.Module.parse(artifact.stages.expanded.located, context()))
    return ExplorerPage(
        {
            "name": name,
            "target": target,
            "stages": stages,
            "passes": passes.steps,
            "costs": _costs(expanded, files),
            "graph": laid_out(expanded.body("main"), files.place),
            "files": files.entries,
        }
    )


def _texts(stages: Stages) -> list[tuple[str, Text]]:
    return [(name, getattr(stages, name)) for name in _TITLES]


class _Files:
    """The user's files that locations refer to, numbered in order of appearance."""

    def __init__(self, hidden: tuple[str, ...]) -> None:
        self._hidden = hidden
        self.entries: list[dict[str, Any]] = []
        self._numbers: dict[str, int | None] = {}

    def place(self, location: str) -> tuple[int, int] | None:
        """The file number and the line of a location; None if it refers to no file of the user."""
        for path, line in _PLACE.findall(location):
            if number := self.numbered(path, int(line)):
                return number
        return None

    def numbered(self, path: str, line: int) -> tuple[int, int] | None:
        """The number of a file, and the line; None if the file is not the user's."""
        number = self._number(path) if path and line else None
        return None if number is None else (number, line)

    def _number(self, path: str) -> int | None:
        if path not in self._numbers:
            self._numbers[path] = self._read(path)
        return self._numbers[path]

    def _read(self, path: str) -> int | None:
        if is_internal(path) or path.startswith(self._hidden):
            return None
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            # Code from a REPL or a notebook cell: the line is known, its text is not.
            lines = []
        self.entries.append({"path": path, "lines": lines})
        return len(self.entries) - 1


def _stage(name: str, text: Text, files: _Files) -> dict[str, Any]:
    """A stage as JSON values, with the file number and the user's line of each of its lines."""
    located = text.located
    aliases = dict(_ALIAS.findall(located))
    plain = text.plain.rstrip("\n").split("\n")
    marked = [line for line in located.rstrip("\n").split("\n") if not line.startswith("#loc")]
    lines = []
    for shown, line in zip(plain, marked, strict=True):
        place = files.place(_resolved(line.rpartition(" loc(")[2], aliases))
        op = _OP.match(shown)
        lines.append(
            {
                "text": shown,
                "op": (op[1] or op[2]) if op else None,
                "file": place[0] if place else None,
                "line": place[1] if place else None,
            }
        )
    return {
        "name": name,
        "title": _TITLES[name],
        "meaning": _MEANINGS[name],
        "lines": lines,
        "ops": sum(_counts(text.plain).values()),
    }


def _resolved(location: str, aliases: dict[str, str], depth: int = _DEPTH) -> str:
    """A location with its aliases (``#loc3``) expanded."""
    if depth == 0:
        return location
    return _REFERENCE.sub(
        lambda found: _resolved(aliases.get(found[0], ""), aliases, depth - 1), location
    )


def _counts(text: str) -> Counter[str]:
    counts = Counter(op[1] or op[2] for op in map(_OP.match, text.split("\n")) if op is not None)
    for structure in ("func.func", "builtin.module", "builtin.unrealized_conversion_cast"):
        counts.pop(structure, None)
    return counts


class _Passes:
    """An observer of passes that records the diff of each pass."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self._text = ""

    def start(self, module: ir.Module) -> None:
        """Record the program before the first pass."""
        self._text = str(module)

    def __call__(self, step: Pass, module: ir.Module) -> None:
        before, self._text = self._text, str(module)
        diff = difflib.unified_diff(before.splitlines(), self._text.splitlines(), lineterm="", n=2)
        self.steps.append(
            {
                "name": step.name,
                "meaning": step.doc,
                "before": sum(_counts(before).values()),
                "after": sum(_counts(self._text).values()),
                "diff": list(diff)[2:],
            }
        )


def _costs(program: Program, files: _Files) -> list[dict[str, Any]]:
    """The estimated cost of each line of user code, before fusion."""
    by_line: dict[tuple[int, int], list[float]] = {}
    for op, cost in operation_costs(program.body("main")):
        place = files.place(str(op.location))
        if place is not None:
            entry = by_line.setdefault(place, [0, 0.0, 0.0])
            entry[0] += 1
            entry[1] += cost.flops + cost.transcendentals
            entry[2] += cost.bytes_accessed
    return [
        {"file": file, "line": line, "ops": ops, "flops": flops, "bytes": size}
        for (file, line), (ops, flops, size) in sorted(by_line.items())
    ]
