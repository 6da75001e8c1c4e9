"""Kernels and assembly as stages of the explorer, each line linked with a line of user code.

The compiler writes the source line of each instruction into the assembly (``.loc``): the user's
line or, if it also dumps the kernels into files, the line in the kernel's file. Comparing the two
assemblies instruction by instruction gives the user's lines for each line of a kernel.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gnomon.backends.iree.emission import LocatedCode

__all__ = ["code_stages"]

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_DEBUG_SECTION = re.compile(r'^\s*\.section\s+"?\.debug')
_LABEL = re.compile(r"^[^\s#.][^:]*:|^\.L(?:tmp|func|BB)[^:]*:")
_TARGET = re.compile(r"target\(<(\"[^\"]*\", \"[^\"]*\"), \{.*\}>\)")
_LONGEST = 300
_Place = Callable[[str, int], tuple[int, int] | None]


class _Line(NamedTuple):
    text: str
    is_instruction: bool
    path: str
    line: int


def code_stages(code: LocatedCode, place: _Place) -> list[dict[str, Any]]:
    """The stages of a compiled program.

    Args:
      code: the kernels and assembly from the compiler.
      place: returns the number of a file, and the line, or None if the file is not the user's.
    """
    assembly = _parsed(code.assembly)
    kernels = _kernel_lines(_parsed(code.assembly_of_kernels), assembly)
    stages = []
    if code.kernels:
        rows = [
            row
            for name, text in code.kernels.items()
            for row in _kernel_rows(name, text, kernels, place)
        ]
        meaning = "what the compiler makes of it: each kernel is a loop over parts of arrays"
        stages.append(_stage("kernels", "Kernels", meaning, rows, len(code.kernels)))
    if assembly:
        rows = [
            _row(line.text, place(line.path, line.line) if line.is_instruction else None)
            for line in assembly
        ]
        count = sum(line.is_instruction for line in assembly)
        stages.append(_stage("assembly", "Assembly", "the machine's instructions", rows, count))
    return stages


def _stage(
    name: str, title: str, meaning: str, rows: list[dict[str, Any]], ops: int
) -> dict[str, Any]:
    return {"name": name, "title": title, "meaning": meaning, "lines": rows, "ops": ops}


def _row(text: str, place: tuple[int, int] | None) -> dict[str, Any]:
    file, line = place or (None, None)
    shown = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
    return {"text": shown, "op": None, "file": file, "line": line}


def _parsed(text: str) -> list[_Line]:
    """The instructions, labels and comments of assembly, each with its source line."""
    paths: dict[int, str] = {}
    path, line, lines = "", 0, []
    entering = False
    for row in text.splitlines():
        if _DEBUG_SECTION.match(row):
            break
        if match := _FILE.match(row):
            folder, name = match[2], match[3]
            paths[int(match[1])] = f"{folder}/{name}" if folder and name[:1] != "/" else name
        elif match := _LOC.match(row):
            path, line = paths.get(int(match[1]), ""), int(match[2])
            # The first location of a function is synthetic, unless it ends the prologue.
            line = 0 if entering and "prologue_end" not in row else line
            entering = False
        elif row.strip() and not (row.lstrip().startswith(".") and not _LABEL.match(row)):
            entering = entering or (not row[:1].isspace() and row[:1] not in ".#")
            is_label = bool(_LABEL.match(row)) or row.lstrip().startswith(("#", "//", ";"))
            if not row.startswith((".Ltmp", ".Lfunc")):
                lines.append(_Line(row.expandtabs(8), not is_label, path, line))
    return lines


def _kernel_lines(
    of_kernels: list[_Line], of_user: list[_Line]
) -> Mapping[tuple[str, int], tuple[str, int]]:
    """The user's line for each line of a kernel: that of most of its instructions."""
    votes: defaultdict[tuple[str, int], Counter[tuple[str, int]]] = defaultdict(Counter)
    kernel_code = [line for line in of_kernels if line.is_instruction]
    user_code = [line for line in of_user if line.is_instruction]
    if [line.text for line in kernel_code] != [line.text for line in user_code]:
        return {}  # The instructions cannot be paired.
    for kernel, user in zip(kernel_code, user_code, strict=True):
        if kernel.line and user.line:
            name = kernel.path.rpartition("/")[2]
            votes[name, kernel.line][user.path, user.line] += 1
    return {place: counts.most_common(1)[0][0] for place, counts in votes.items()}


def _kernel_rows(
    name: str, text: str, places: Mapping[tuple[str, int], tuple[str, int]], place: _Place
) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        source = places.get((name, number))
        shown = _TARGET.sub(r"target(<\1, {...}>)", line)
        rows.append(_row(shown, place(*source) if source else None))
    return rows
