"""Stepped programs: pieces of compiled code, and what is done between them as data.

IREE keeps the order of calls of Python only in straight code: beside loops and branches it moves
them, and refuses some programs. So the loops and branches around such calls are taken out of a
program (`legalize/control/pieces.py`). The code between them is compiled, each *piece* a function
of its own. The loops, branches and calls are *steps*, which `stepped.py` takes from Python. Calls
are then in the order of the program because the steps are.

Values live in numbered *slots*, common to all blocks. The steps are written into the executable as
reflection data of ``main``, like the table of host functions: a stepped program is one file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

__all__ = ["REFLECTION", "Block", "Branch", "Call", "Loop", "Piece", "Step", "from_text", "to_text"]

REFLECTION = "gnomon.steps"
"""The key of the steps in the reflection data of ``main``."""

Slots: TypeAlias = "tuple[int, ...]"


@dataclass(frozen=True)
class Piece:
    """Run compiled code.

    Attributes:
      function: its name in the executable.
      takes, gives: slots of its arguments and results.
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
    """Run a body for as long as a condition holds.

    Attributes:
      initial: what the carries start from.
      carries: what condition and body see, and, when the loop is done, its results.
      cond: gives a bool.
      body: gives the next carries.
    """

    initial: Slots
    carries: Slots
    cond: Block
    body: Block


@dataclass(frozen=True)
class Branch:
    """Run one of several blocks.

    Attributes:
      index: an integer; one that is out of range means the last block.
      blocks: what to choose from.
      gives: slots of the results.
    """

    index: int
    blocks: tuple[Block, ...]
    gives: Slots


Step: TypeAlias = "Piece | Call | Loop | Branch"


@dataclass(frozen=True)
class Block:
    """Steps one after another.

    Attributes:
      arguments: slots that are filled before, and belong to the block.
      steps: what to do.
      results: slots of what it gives.
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
