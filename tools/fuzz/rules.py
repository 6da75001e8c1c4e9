"""Rules: templates of statements, and the operands that they accept.

A template is Python code with fields. ``{x}`` is the principal operand; the names of the other
fields define them:

| field | operand |
|---|---|
| `x` | any array of the rule's kinds and rank |
| `y`, `z` | arrays that broadcast with `x`; of the same type in strict rules |
| `s` | a scalar of `x`'s dtype |
| `m` | an array of bools of `x`'s shape |
| `p` | a single bool |
| `i` | indices into the first axis of `x`, some out of bounds |
| `n` | a single such index |
| `r` | bit numbers, for shifts |
| `v` | a vector as long as `x`'s last axis |
| `w` | a matrix with as many rows as `x`'s last axis |
| `u` | the new values of the elements that `{at}` selects: a scalar, or an array of their shape |
| `key` | a random key |

and the parameters: `axis`, `axes`, `keepdims`, `shape` (a tuple of as many elements as `x`),
`wider` (a shape that `x` broadcasts to), `dtype`, `k` (a small integer), `size`, `at` (an index),
`pads`, `perm`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

FLOAT, COMPLEX, SIGNED, UNSIGNED, BOOL = "f", "c", "i", "u", "b"
REAL = FLOAT + SIGNED + UNSIGNED
NUMBER = REAL + COMPLEX
ANY = NUMBER + BOOL
INEXACT = FLOAT + COMPLEX
INTEGER = SIGNED + UNSIGNED


@dataclass(frozen=True)
class Rule:
    """A template of statements, and the operands that it accepts.

    Attributes:
      template: the text with fields, see the module.
      kinds: the allowed kinds of `x`'s dtype.
      least, most: the smallest and largest rank of `x`.
      strict: whether the other operands must have exactly `x`'s type, as in `lax`.
      results: the number of arrays that the statement returns.
      flavour: the distribution of new values of `x`, if it must be a particular one.
      shape: ``"square"`` if `x` must be square matrices, ``"short"`` if its sizes must be small.
      halves: whether 16-bit floats are drawn. Not for series that JAX sums in 16 bits, which leaves
        no correct digit to compare.
    """

    template: str
    kinds: str = ANY
    least: int = 0
    most: int = 6
    strict: bool = False
    results: int = 1
    flavour: str = ""
    shape: str = ""
    halves: bool = True

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the template's fields, each once."""
        return tuple(dict.fromkeys(re.findall(r"\{(\w+)\}", self.template)))


def calls(prefix: str, names: str, arguments: str, kinds: str, **options: object) -> Iterator[Rule]:
    """Yield a rule for each function name."""
    for name in names.split():
        yield Rule(f"{prefix}.{name}({arguments})", kinds, **options)  # type: ignore[arg-type]


def templates(kinds: str, texts: str, **options: object) -> Iterator[Rule]:
    """Yield a rule for each line of ``texts``."""
    for line in texts.strip().splitlines():
        if line.strip():
            yield Rule(line.strip(), kinds, **options)  # type: ignore[arg-type]


def kind_of(dtype: str) -> str:
    """The kind of a dtype, by the names above."""
    if dtype == "bool":
        return BOOL
    if dtype.startswith("complex"):
        return COMPLEX
    if dtype.startswith("uint"):
        return UNSIGNED
    return SIGNED if dtype.startswith("int") else FLOAT
