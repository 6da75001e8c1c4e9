"""Donated arguments: finding those whose memory a program can reuse for results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gnomon._arrays.aval import ShapedArray
from gnomon._compilation.arguments import Call
from gnomon._compilation.stages import aval_of
from gnomon._diagnostics.errors import warn_user

__all__ = ["usable_donations"]


def usable_donations(call: Call, results: Sequence[ShapedArray]) -> tuple[int, ...]:
    """The positions of the donated leaves whose memory a result of the same type can take over.

    Warns (``UserWarning``) about the other donated leaves, which stay valid.

    Args:
      call: the arguments.
      results: the types of the results.
    """
    if not call.donated:
        return ()
    free = Counter((aval.shape, aval.dtype) for aval in results)
    usable, others = [], []
    for i in call.donated:
        aval = aval_of(call.leaves[i])
        kind = (aval.shape, aval.dtype)
        if free[kind]:
            free[kind] -= 1
            usable.append(i)
        else:
            others.append(str(aval))
    if others:
        warn_user(
            f"Some donated buffers were not usable: {', '.join(others)}. No result has their shape "
            "and dtype, so they are kept: do not donate them"
        )
    return tuple(usable)
