"""Sharding rules for explicit mesh axes: the shardings of results from those of operands.

The rules are the ``sharding`` facets of ops. A rule never guesses: it is an error if operands
disagree, or if a result could be split in several ways. The operands of an op without a rule must
not be split.

For automatic axes, `gnomon.passes.propagate_shardings` propagates shardings through whole programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "ShardingRuleError",
    "SplitUse",
    "along_axis",
    "batch_dimensions",
    "bits",
    "concatenated",
    "convolution",
    "creation",
    "dot",
    "each_operand",
    "elementwise",
    "expanded",
    "gathered",
    "reduced",
    "require_unsplit",
    "reshaped",
    "resized",
    "scattered",
    "spec_text",
    "transposed",
    "updated",
]

Axes: TypeAlias = tuple[str, ...]
Split: TypeAlias = tuple[Axes, ...]
Shape: TypeAlias = tuple[int, ...]


class ShardingRuleError(Exception):
    """The shardings of operands contradict each other, or do not determine a result's sharding."""


class SplitUse(NamedTuple):
    """One operation, as a sharding rule sees it.

    Attributes:
      op: the name of the op without ``gnomon.``.
      params: its parameters.
      operands, results: their shapes.
      splits: the axes that split each dimension of each operand.
      sizes: the size of each axis of the mesh.
    """

    op: str
    params: Mapping[str, Any]
    operands: Sequence[Shape]
    results: Sequence[Shape]
    splits: Sequence[Split]
    sizes: Mapping[str, int]

    def count(self, axes: Axes) -> int:
        """The number of parts that axes split a dimension into."""
        return math.prod(self.sizes[axis] for axis in axes)

    def typed(self, i: int) -> str:
        """An operand as messages show it, such as ``[8@x,4]``."""
        return _typed(self.operands[i], self.splits[i])

    def all_typed(self) -> str:
        """The operands as messages show them."""
        return ", ".join(map(self.typed, range(len(self.operands))))

    def fail(self, problem: str) -> ShardingRuleError:
        """An error that says what is wrong with the op."""
        return ShardingRuleError(f"{self.op} {problem}")


def _typed(shape: Shape, split: Split) -> str:
    return f"[{','.join(map(spec_text, shape, split))}]"


def spec_text(size: int, axes: Axes) -> str:
    """A dimension with the axes that split it: ``8``, ``8@x``, ``8@(x,y)``."""
    if not axes:
        return str(size)
    return f"{size}@{axes[0]}" if len(axes) == 1 else f"{size}@({','.join(axes)})"


def _checked(use: SplitUse, split: Sequence[Axes], shape: Shape) -> Split:
    """The split of a result; an error if an axis is used twice or does not divide a dimension."""
    axes = [axis for of_dimension in split for axis in of_dimension]
    if len(set(axes)) != len(axes):
        raise use.fail(
            f"of {use.all_typed()} would give {_typed(shape, tuple(split))}: an axis of the mesh "
            "can split only one dimension"
        )
    for dimension, (size, of_dimension) in enumerate(zip(shape, split, strict=True)):
        if size % use.count(of_dimension):
            raise use.fail(
                f"of {use.all_typed()} would give {_typed(shape, tuple(split))}: the size {size} "
                f"of dimension {dimension} is not divisible by the {use.count(of_dimension)} "
                f"parts of {_names(of_dimension)}"
            )
    return tuple(split)


def _names(axes: Axes) -> str:
    return " and ".join(map(repr, axes))


def _agreed(use: SplitUse, given: Sequence[tuple[int, Axes]]) -> Axes:
    """The axes that split a dimension of a result, on which the numbered operands agree."""
    found: tuple[int, Axes] | None = None
    for operand, axes in given:
        if not axes:
            continue
        if found is None:
            found = operand, axes
        elif found[1] != axes:
            raise use.fail(
                f"got operands with incompatible shardings, {use.typed(found[0])} and "
                f"{use.typed(operand)}: one is split over {_names(found[1])} where the other is "
                f"split over {_names(axes)}"
            )
    return found[1] if found else ()


def _aligned(use: SplitUse, operands: Sequence[Sequence[Any]], result: Sequence[Any]) -> Split:
    """The split of a result, each dimension split like the operand dimensions of equal label."""
    split = []
    for label in result:
        given = [
            (i, axes)
            for i, (labels, of_operand) in enumerate(zip(operands, use.splits, strict=True))
            for mine, axes in zip(labels, of_operand, strict=True)
            if label is not None and mine == label
        ]
        split.append(_agreed(use, given))
    return tuple(split)


# ---------------------------------------------------------------------------- rules of the families


def elementwise(use: SplitUse) -> list[Split]:
    """Split each result like the operands of its shape; ignore the other operands."""
    made = []
    for shape in use.results:
        labels = [range(len(s)) if s == shape else (None,) * len(s) for s in use.operands]
        made.append(_checked(use, _aligned(use, labels, range(len(shape))), shape))
    return made


def each_operand(use: SplitUse) -> list[Split]:
    """Split each result like the operand at the same position."""
    return list(use.splits[: len(use.results)])


def creation(use: SplitUse) -> list[Split]:
    """Leave the results whole: no operand determines their sharding."""
    return [((),) * len(shape) for shape in use.results]


def expanded(use: SplitUse) -> list[Split]:
    """`broadcast_in_dim`: new dimensions are not split."""
    (result,) = use.results
    split: list[Axes] = [()] * len(result)
    for size, axes, target in zip(use.operands[0], use.splits[0], use.params["dims"], strict=True):
        if size == result[target]:
            split[target] = axes
    return [_checked(use, split, result)]


def transposed(use: SplitUse) -> list[Split]:
    """`transpose`: the axes move with the dimensions."""
    return [tuple(use.splits[0][d] for d in use.params["permutation"])]


def reduced(use: SplitUse) -> list[Split]:
    """The remaining dimensions keep their axes."""
    axes = use.params["axes"] if "axes" in use.params else (use.params["axis"],)
    return [tuple(a for d, a in enumerate(use.splits[0]) if d not in axes) for _ in use.results]


def resized(use: SplitUse) -> list[Split]:
    """Split the results like the first operand, although their sizes may differ."""
    return [_checked(use, use.splits[0], shape) for shape in use.results]


def along_axis(name: str) -> Callable[[SplitUse], list[Split]]:
    """The rule of ops that work along the axis in parameter ``name``, which must not be split."""

    def rule(use: SplitUse) -> list[Split]:
        axis = use.params[name] % len(use.operands[0])
        for i, split in enumerate(use.splits):
            if axis < len(split) and split[axis]:
                raise use.fail(
                    f"works along axis {axis}, along which operands must not be split, "
                    f"got {use.typed(i)}"
                )
        labels = [range(len(s)) for s in use.operands]
        return [_checked(use, _aligned(use, labels, range(len(s))), s) for s in use.results]

    return rule


def concatenated(use: SplitUse) -> list[Split]:
    """`concatenate`: all operands must have the same sharding."""
    if any(split != use.splits[0] for split in use.splits):
        raise use.fail(f"takes operands with the same sharding, got {use.all_typed()}")
    return resized(use)


def updated(use: SplitUse) -> list[Split]:
    """`dynamic_update_slice`: split like the operand, and so is the update.

    Dimensions of the update that cover the operand's need not be split.
    """
    operand, update = use.operands[:2]
    for d, (old, new) in enumerate(zip(use.splits[0], use.splits[1], strict=True)):
        if old != new and (new or operand[d] != update[d]):
            raise use.fail(
                "takes an update that is split like the operand, got "
                f"{use.typed(0)} and {use.typed(1)}"
            )
    return [use.splits[0]]


def batch_dimensions(use: SplitUse) -> list[Split]:
    """The rule of ops on matrices: only batch dimensions may be split."""
    for i, (shape, split) in enumerate(zip(use.operands, use.splits, strict=True)):
        matrix = min(2, len(shape))
        if any(split[len(shape) - matrix :]):
            raise use.fail(f"takes operands whose matrices are not split, got {use.typed(i)}")
    batch = max(len(use.operands[0]) - 2, 0)
    labels = [[d if d < batch else None for d in range(len(s))] for s in use.operands]
    return [
        _checked(use, _aligned(use, labels, [d if d < batch else None for d in range(len(s))]), s)
        for s in use.results
    ]


# ------------------------------------------------------------------------------------- contractions


def dot(use: SplitUse) -> list[Split]:
    """`dot_general`: a contracted dimension may be split in only one of the operands."""
    p = use.params
    lhs, rhs = use.splits
    for a, b in zip(p["lhs_contracting"], p["rhs_contracting"], strict=True):
        if not (lhs[a] and rhs[b]):
            continue
        if lhs[a] != rhs[b]:
            raise use.fail(
                f"got operands with incompatible shardings, {use.all_typed()}: the contracted "
                f"dimensions are split over {_names(lhs[a])} and over {_names(rhs[b])}"
            )
        raise use.fail(
            f"of {use.all_typed()}: the contracted dimensions are split over {_names(lhs[a])}, so "
            "the sharding of the result is ambiguous. Specify it with out_sharding="
        )
    of_lhs: list[Any] = [("l", d) for d in range(len(lhs))]
    of_rhs: list[Any] = [("r", d) for d in range(len(rhs))]
    batch = []
    for i, (a, b) in enumerate(zip(p["lhs_batch"], p["rhs_batch"], strict=True)):
        of_lhs[a] = of_rhs[b] = ("b", i)
        batch.append(("b", i))
    removed_lhs = {*p["lhs_batch"], *p["lhs_contracting"]}
    removed_rhs = {*p["rhs_batch"], *p["rhs_contracting"]}
    free = [label for d, label in enumerate(of_lhs) if d not in removed_lhs]
    free += [label for d, label in enumerate(of_rhs) if d not in removed_rhs]
    split = _aligned(use, [of_lhs, of_rhs], [*batch, *free])
    return [_checked(use, split, use.results[0])]


def convolution(use: SplitUse) -> list[Split]:
    """Images may be split along the batch and spatial dimensions; kernels must not be split."""
    p = use.params
    images, kernel = use.splits
    batch, feature, *space = p["lhs_spec"]
    if any(kernel) or images[feature] or (images[batch] and p["batch_group_count"] != 1):
        raise use.fail(
            "takes images that are split along batch or spatial dimensions only, and kernels that "
            f"are not split, got {use.all_typed()}"
        )
    (result,) = use.results
    split: list[Axes] = [()] * len(result)
    split[p["out_spec"][0]] = images[batch]
    for mine, target in zip(space, p["out_spec"][2:], strict=True):
        split[target] = images[mine]
    return [_checked(use, split, result)]


# ------------------------------------------------------------------------------------------ reshape


def reshaped(use: SplitUse) -> list[Split]:
    """`reshape`: one split dimension may become several, or several may become one."""
    (shape,), (result,) = use.operands, use.results
    (given,) = use.splits
    split: list[Axes] = [()] * len(result)
    if not any(given):
        return [tuple(split)]
    wide = [d for d in range(len(shape)) if shape[d] != 1 or given[d]]
    others = [d for d in range(len(result)) if result[d] != 1]
    groups = _groups([shape[d] for d in wide], [result[d] for d in others])
    changed = [g for g in groups if len(g[0]) != 1 or len(g[1]) != 1]
    for sources, targets in groups:
        axes = [given[wide[s]] for s in sources]
        places = [others[t] for t in targets]
        if not any(axes):
            continue
        if len(changed) > 1:
            raise _ambiguous_result(use)
        if len(axes) == len(places) == 1:
            split[places[0]] = axes[0]
        elif len(places) == 1:
            split[places[0]] = _merged(use, axes)
        elif len(axes) == 1:
            for place, part in zip(
                places, _divided(use, axes[0], [result[d] for d in places]), strict=True
            ):
                split[place] = part
        else:
            raise _ambiguous_result(use)
    return [_checked(use, split, result)]


def _ambiguous_result(use: SplitUse) -> ShardingRuleError:
    return use.fail(
        f"of {use.typed(0)} to {tuple(use.results[0])}: the sharding of the result does not follow "
        "from that of the operand. Specify it with out_sharding="
    )


def _groups(shape: Sequence[int], result: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Groups of consecutive dimensions of two shapes, of equal size, with the same elements."""
    groups = []
    i = j = 0
    while i < len(shape) and j < len(result):
        sources, targets = [i], [j]
        left, right = shape[i], result[j]
        i, j = i + 1, j + 1
        while left != right and i <= len(shape) and j <= len(result):
            if (left < right or right == 0) and i < len(shape):
                left *= shape[i]
                sources.append(i)
                i += 1
            elif j < len(result):
                right *= result[j]
                targets.append(j)
                j += 1
            else:
                break
        groups.append((sources, targets))
    return groups


def _merged(use: SplitUse, axes: Sequence[Axes]) -> Axes:
    """The axes of the dimensions that become one; only leading ones may be split."""
    leading = 0
    while leading < len(axes) and axes[leading]:
        leading += 1
    if not leading or any(axes[leading:]):
        raise _ambiguous_result(use)
    return tuple(axis for of_dimension in axes for axis in of_dimension)


def _divided(use: SplitUse, axes: Axes, sizes: Sequence[int]) -> list[Axes]:
    """Distribute the axes of a dimension over those that it becomes, outermost first."""
    made = []
    rest = axes
    for size in sizes:
        count = len(rest)
        while size % use.count(rest[:count]):
            count -= 1
        part, rest = rest[:count], rest[count:]
        if rest and use.count(part) != size:
            raise _ambiguous_result(use)
        made.append(part)
    return made


# ----------------------------------------------------------------------------------------- indexing


def _unsliced(use: SplitUse, split: Split, dimensions: Sequence[int], argument: str) -> None:
    """Raise an error if an indexed dimension is split."""
    for d in dimensions:
        if split[d]:
            raise use.fail(
                f"of {use.typed(0)}: dimension {d}, which is indexed, is split over "
                f"{_names(split[d])}. Specify the sharding of the result with "
                f"x.at[...].{argument}(..., out_sharding=)"
            )


def gathered(use: SplitUse) -> list[Split]:
    """`gather`: dimensions that are taken whole keep their axes; indices must not be split."""
    p = use.params
    operand, indices = use.operands
    (result,) = use.results
    batching = tuple(p["operand_batching_dims"])
    dropped = {*p["collapsed_slice_dims"], *batching}
    indexed = [
        d for d, size in enumerate(operand) if d not in batching and p["slice_sizes"][d] != size
    ]
    _unsliced(use, use.splits[0], indexed, "get")
    split: list[Axes] = [()] * len(result)
    window = [d for d in range(len(operand)) if d not in dropped]
    for d, place in zip(window, p["offset_dims"], strict=True):
        split[place] = use.splits[0][d]
    of_batch = dict(zip(p["start_indices_batching_dims"], batching, strict=True))
    places = [d for d in range(len(result)) if d not in p["offset_dims"]]
    for d, place in enumerate(places):
        if d >= len(indices):
            continue
        axes = use.splits[1][d]
        if d in of_batch:
            split[place] = _agreed(use, [(1, axes), (0, use.splits[0][of_batch[d]])])
        elif axes:
            raise use.fail(
                f"of {use.typed(0)} at indices {use.typed(1)}: indices must not be split, unless "
                "the sharding of the result is given with x.at[...].get(out_sharding=)"
            )
    return [_checked(use, split, result)]


def scattered(use: SplitUse) -> list[Split]:
    """`scatter`: split like the operand, whose indexed dimensions must not be split."""
    p = use.params
    operand = use.operands[0]
    update = use.operands[2]
    batching = tuple(p["operand_batching_dims"])
    dropped = {*p["inserted_window_dims"], *batching}
    window = [d for d in range(len(operand)) if d not in dropped]
    indexed = list(p["inserted_window_dims"])
    for d, place in zip(window, p["update_window_dims"], strict=True):
        if update[place] != operand[d]:
            indexed.append(d)
        else:
            _agreed(use, [(0, use.splits[0][d]), (2, use.splits[2][place])])
    _unsliced(use, use.splits[0], indexed, "set")
    return [use.splits[0]]


def require_unsplit(use: SplitUse) -> list[Split]:
    """The rule of ops without a specific rule: no operand may be split."""
    if any(any(split) for split in use.splits):
        raise use.fail(
            f"has no sharding rule, so its operands must not be split, got "
            f"{use.all_typed()}. Replicate them with gnomon.sharding.reshard, or call the function "
            "in gnomon.sharding.auto_axes"
        )
    return creation(use)


def bits(use: SplitUse) -> list[Split]:
    """`bitcast_convert`: a last dimension for the parts of an element is added or removed."""
    (shape,) = use.results
    return [_checked(use, (*use.splits[0], ())[: len(shape)], shape)]
