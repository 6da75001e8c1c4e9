"""Einstein's summation convention: products of any number of arrays, in a good order."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import opt_einsum
from opt_einsum.parser import parse_einsum_input

from gnomon import lax
from gnomon._api.explicit_axes import with_out_sharding
from gnomon._arrays.annotations import DTypeLike, OutSharding
from gnomon._arrays.array import Array
from gnomon._tracing.bind import bind
from gnomon.dialects.emit import ops
from gnomon.dialects.symbolic.dimension import is_symbolic_dim
from gnomon.lax._contraction import PrecisionLike
from gnomon.numpy._arguments import promoted
from gnomon.numpy._linear_algebra import preferred_dtype
from gnomon.numpy._manipulation import broadcast_to, moveaxis, reshape, transpose
from gnomon.numpy._reductions import sum as sum_

__all__ = ["einsum", "einsum_path"]


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: str | bool | list[Any] = "auto",
    precision: PrecisionLike = None,
    preferred_element_type: DTypeLike | None = None,
    _dot_general: Any = None,
    out_sharding: OutSharding | None = None,
) -> Array:
    """Products and sums of arrays in Einstein's notation.

    Args:
      subscripts: a text such as ``"ij,jk->ik"``: labels that the result lacks are summed over, and
        ``...`` means dimensions that broadcast. Or alternating operands and lists of labels.
      operands: arrays, one for each group of labels.
      out: must be None, because arrays are immutable.
      optimize: how to find the order of contractions, as in ``opt_einsum``.
      precision: the accuracy that the product needs, see `gnomon.lax.Precision`; None is the
        default.
      preferred_element_type: the dtype to accumulate in and to return; None means the promoted
        dtype.
      out_sharding: the sharding of the result on a mesh with explicit axes; None infers it.
    Raises:
      ValueError: the subscripts do not fit the operands.

    Example:
      >>> import gnomon.numpy as gnp
      >>> gnp.einsum("ij,j->i", gnp.ones((2, 3)), gnp.arange(3.0))
      Array([3., 3.], dtype=float32)
      >>> gnp.einsum("ii", gnp.array([[1, 2], [3, 4]]))
      Array(5, dtype=int32)

    See also:
      `einsum_path`, `matmul`, `tensordot`
    """
    if out is not None:
        raise NotImplementedError("The 'out' argument to einsum is not supported.")
    if not isinstance(subscripts, str):
        operands, subscripts = _interleaved(subscripts, operands)
    if out_sharding is not None:

        def compute(*arrays: Any) -> Array:
            return einsum(
                subscripts,
                *arrays,
                optimize=optimize,
                precision=precision,
                preferred_element_type=preferred_element_type,
            )

        return with_out_sharding("einsum", out_sharding, compute, *operands)
    arrays = promoted("einsum", *operands) if operands else []
    if not arrays:
        raise TypeError("einsum: at least one operand is needed")
    subscripts, arrays = _without_broadcast_dimensions(subscripts, arrays)
    # The path depends only on the shapes.
    dummies = [np.broadcast_to(np.zeros((), np.float32), s) for s in _path_shapes(arrays)]
    strategy = "optimal" if optimize is True else optimize
    if strategy is False:
        strategy = [tuple(range(len(arrays)))]
    preferred = preferred_dtype(preferred_element_type)
    work = list(arrays)
    for positions, expression in _path(subscripts, dummies, strategy):
        taken = [work.pop(i) for i in sorted(positions, reverse=True)]
        inputs, result = expression.split("->")
        labels = inputs.split(",")
        # Remove operands from the back: the labels of the path are in that order.
        pieces = list(zip(labels, taken, strict=True))
        while len(pieces) > 2:
            (one, x), (two, y) = pieces.pop(), pieces.pop()
            rest = set("".join(label for label, _ in pieces)) | set(result)
            keep = "".join(dict.fromkeys(c for c in one + two if c in rest))
            pieces.append((keep, _pair(one, x, two, y, keep, precision, preferred)))
        if len(pieces) == 1:
            work.append(_single(*pieces[0], result))
        else:
            (one, x), (two, y) = pieces
            work.append(_pair(one, x, two, y, result, precision, preferred))
    return work[0]


# The size that a symbolic dimension is assumed to have when the order of contractions is chosen.
_ASSUMED = 64


def _path_shapes(arrays: Sequence[Array]) -> list[tuple[int, ...]]:
    """The shapes for finding a path, with a number for each symbolic dimension."""
    numbers: dict[Any, int] = {}
    return [
        tuple(
            numbers.setdefault(n, _ASSUMED + len(numbers)) if is_symbolic_dim(n) else n
            for n in x.shape
        )
        for x in arrays
    ]


def _path(
    subscripts: str, dummies: Sequence[Any], strategy: Any
) -> list[tuple[tuple[int, ...], str]]:
    _, info = opt_einsum.contract_path(subscripts, *dummies, optimize=strategy)
    return [(tuple(step[0]), step[2]) for step in info.contraction_list]


def _without_broadcast_dimensions(subscripts: str, arrays: list[Array]) -> tuple[str, list[Array]]:
    """Subscripts and operands without dimensions of size one that are broadcast to longer ones.

    An operand is repeated along these dimensions, so it does not depend on their labels.
    """
    if all(1 not in x.shape for x in arrays):
        return subscripts, arrays
    inputs, result, _ = parse_einsum_input((subscripts, *(x.shape for x in arrays)), shapes=True)
    labels = inputs.split(",")
    pairs = [list(zip(own, x.shape, strict=False)) for own, x in zip(labels, arrays, strict=True)]
    # Labels whose length is not one in some operand.
    long = {label for pair in pairs for label, n in pair if n != 1}
    kept = [[i for i, (c, n) in enumerate(pair) if n != 1 or c not in long] for pair in pairs]
    rest = [
        x if len(axes) == len(own) else reshape(x, [x.shape[i] for i in axes])
        for own, x, axes in zip(labels, arrays, kept, strict=True)
    ]
    spelled = ["".join(own[i] for i in axes) for own, axes in zip(labels, kept, strict=True)]
    return f"{','.join(spelled)}->{result}", rest


def _interleaved(first: Any, rest: tuple[Any, ...]) -> tuple[tuple[Any, ...], str]:
    """Convert alternating operands and lists of labels to a subscript string."""
    parts = [first, *rest]
    result = parts.pop() if len(parts) % 2 else None
    counts = Counter(itertools.chain.from_iterable(parts[1::2]))
    labels = [label for label in counts if label is not Ellipsis]
    with contextlib.suppress(TypeError):  # labels that have no order
        labels.sort()
    if result is None:
        # Labels that occur once, in their own order, which is not that of the symbols.
        result = [label for label in labels if counts[label] == 1]
        result = [Ellipsis, *result] if Ellipsis in counts else result
    symbols = {label: opt_einsum.get_symbol(i) for i, label in enumerate(labels)}
    symbols[Ellipsis] = "..."

    def spell(labels: Sequence[Any]) -> str:
        return "".join(
            symbols.setdefault(label, opt_einsum.get_symbol(len(symbols))) for label in labels
        )

    text = ",".join(spell(part) for part in parts[1::2])
    return tuple(parts[::2]), f"{text}->{spell(result)}"


def _diagonal_of(labels: str, x: Array) -> tuple[str, Array]:
    """Take diagonals until no label is repeated."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            size = x.shape[i]
            moved = moveaxis(x, (i, j), (-2, -1))
            eye = np.eye(size, dtype=bool)
            masked = bind(
                ops.select,
                broadcast_to(eye, moved.shape),
                moved,
                lax.full_like(moved, 0),
            )
            x = sum_(masked, -1, dtype=x.dtype)
            rest = labels[:i] + labels[i + 1 : j] + labels[j + 1 :]
            labels = rest + label
    return labels, x


def _single(labels: str, x: Array, result: str) -> Array:
    labels, x = _diagonal_of(labels, x)
    summed = tuple(i for i, label in enumerate(labels) if label not in result)
    if summed:
        x = sum_(x, summed, dtype=x.dtype)
        labels = "".join(label for label in labels if label in result)
    return transpose(x, [labels.index(label) for label in result])


def _pair(
    one: str, x: Array, two: str, y: Array, result: str, precision: PrecisionLike, preferred: Any
) -> Array:
    one, x = _reduced(one, x, two + result)
    two, y = _reduced(two, y, one + result)
    batch = [label for label in one if label in two and label in result]
    summed = [label for label in one if label in two and label not in result]
    out = lax.dot_general(
        x,
        y,
        (
            ([one.index(c) for c in summed], [two.index(c) for c in summed]),
            ([one.index(c) for c in batch], [two.index(c) for c in batch]),
        ),
        precision=precision,
        preferred_element_type=preferred,
    )
    order = [*batch, *(c for c in one if c not in two), *(c for c in two if c not in one)]
    return transpose(out, [order.index(c) for c in result])


def _reduced(labels: str, x: Array, needed: str) -> tuple[str, Array]:
    """Take diagonals, and sum over labels that occur nowhere else."""
    labels, x = _diagonal_of(labels, x)
    summed = tuple(i for i, label in enumerate(labels) if label not in needed)
    if summed:
        x = sum_(x, summed, dtype=x.dtype)
    return "".join(label for label in labels if label in needed), x


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: bool | str | list[tuple[int, ...]] = "auto"
) -> tuple[list[tuple[int, ...]], Any]:
    """The order in which `einsum` contracts its operands, and its cost.

    Args:
      subscripts, operands: as for `einsum`.
      optimize: the search method: a name that opt_einsum knows, True for the best order, or False
        for a single step with all operands.
    Returns:
      For each step the positions of the operands to contract, and a description of the path.

    Example:
      >>> import gnomon.numpy as gnp
      >>> x = gnp.ones((2, 2))
      >>> einsum_path("ij,jk,kl", x, x, x)[0]
      [(0, 1), (0, 1)]
    """
    search: Any = optimize
    if isinstance(optimize, bool):
        search = "optimal" if optimize else [tuple(range(len(operands)))]
    return opt_einsum.contract_path(subscripts, *operands, optimize=search)
