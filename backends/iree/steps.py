"""Stepped programs: compiled pieces of code, and the steps between them as data.

IREE keeps the order of calls of Python only in straight-line code: it moves them past loops and
branches, and rejects some programs. So the loops and branches around such calls are taken out of
the program (`legalize/control/pieces.py`). The code between them is compiled, each *piece* as a
function. The loops, branches and calls become *steps*, which `stepped.py` runs in Python, in the
order of the program.

Values are in numbered *slots*, which all blocks share. The steps are stored in the executable as
reflection data of ``main``, like the table of host functions, so a stepped program is one file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

__all__ = ["Block", "Branch", "Call", "Loop", "Piece", "Step", "from_text", "to_text"]

Slots: TypeAlias = "tuple[int, ...]"


@dataclass(frozen=True)
class Piece:
    """Run compiled code.

    Attributes:
      function: its name in the executable.
      takes, gives: the slots of its arguments and results.
    """

    function: str
    takes: Slots
    gives: Slots


@dataclass(frozen=True)
class Call:
    """Call a host function; the attributes are those of `Piece`."""

    function: str
    takes: Slots
    gives: Slots


@dataclass(frozen=True)
class Loop:
    """Run a body as long as a condition holds.

    Attributes:
      initial: the slots of the initial carries.
      carries: the slots of the carries, which condition and body read; after the loop, its results.
      cond: the condition, whose result is a bool.
      body: the body, whose results are the next carries.
    """

    initial: Slots
    carries: Slots
    cond: Block
    body: Block


@dataclass(frozen=True)
class Branch:
    """Run one of several blocks.

    Attributes:
      index: the slot of an integer; one that is out of range chooses the last block.
      blocks: the blocks.
      gives: the slots of the results.
    """

    index: int
    blocks: tuple[Block, ...]
    gives: Slots


Step: TypeAlias = "Piece | Call | Loop | Branch"


@dataclass(frozen=True)
class Block:
    """A sequence of steps.

    Attributes:
      arguments: slots that are filled before, and belong to the block.
      steps: the steps.
      results: the slots of its results.
    """

    arguments: Slots
    steps: tuple[Step, ...]
    results: Slots


_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (Piece, Call, Loop, Branch, Block)}


def to_text(block: Block) -> str:
    """A block as text."""
    return json.dumps(_plain(block), separators=(",", ":"))


def from_text(text: str) -> Block:
    """The block that `to_text` wrote."""
    block: Block = _made(json.loads(text))
    return block


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    name = type(value).__name__
    if name not in _KINDS:
        return value
    return {name: [_plain(getattr(value, f.name)) for f in fields(value)]}


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_made, value))
    if not isinstance(value, dict):
        return value
    ((name, given),) = value.items()
    return _KINDS[name](*map(_made, given))
