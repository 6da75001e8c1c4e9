"""Sharding rules: the shardings of results from those of operands.

The rules are the ``sharding`` facets of ops. Most follow from *labels*, one for each dimension of
the operands and results: a dimension of a result is split like the operand dimensions of the same
label. A rule answers for both kinds of mesh axes:

- for explicit axes it never guesses: it is an error if operands disagree, or if a result could be
  split in several ways;
- for automatic axes a dimension is not split if the operands disagree;
  `gnomon.passes.propagate_shardings` propagates these shardings through whole programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "Labels",
    "Shape",
    "ShardingRule",
    "ShardingRuleError",
    "Split",
    "SplitUse",
    "along_axis",
    "automatic_batch",
    "batch_dimensions",
    "bits",
    "by_labels",
    "concatenated",
    "convolution",
    "creation",
    "dot",
    "each_operand",
    "elementwise",
    "expanded",
    "gathered",
    "generated",
    "reduced",
    "reshaped",
    "resized",
    "scattered",
    "sliced",
    "spec_text",
    "transposed",
    "undetermined",
    "updated",
    "valid_axes",
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
        return math.prod(self.sizes.get(axis, 1) for axis in axes)

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


def _merged_axes(use: SplitUse, operands: Sequence[Sequence[Any]], result: Sequence[Any]) -> Split:
    """The split of a result, like `_aligned`, but operands may disagree.

    If operands split a dimension over different axes, it is not split, unless the axes of one
    operand begin with those of the other: then the longer list is taken.
    """
    axes_of: dict[Any, Axes] = {}
    for labels, split in zip(operands, use.splits, strict=True):
        for label, axes in zip(labels, split, strict=True):
            if label is None or not axes or label not in result:
                continue
            before = axes_of.setdefault(label, axes)
            if before == axes:
                continue
            shorter, longer = sorted((before, axes), key=len)
            axes_of[label] = longer if longer[: len(shorter)] == shorter else ()
    return tuple(() if label is None else axes_of.get(label, ()) for label in result)


def valid_axes(use: SplitUse, split: Sequence[Axes], shape: Shape) -> Split:
    """A split without axes that are used twice or do not divide a dimension."""
    used: set[str] = set()
    valid: list[Axes] = []
    for axes, size in zip(split, shape, strict=True):
        fits = used.isdisjoint(axes) and size % use.count(axes) == 0 and size > 0
        valid.append(tuple(axes) if fits else ())
        used.update(valid[-1])
    return tuple(valid)


# -------------------------------------------------------------------------------------------- rules


class Labels(NamedTuple):
    """Labels of the dimensions of an op.

    Attributes:
      operands, results: the labels of each value; ``None`` for a dimension that is related to none.
      partial: labels of dimensions of which results may hold a part, or other elements: results are
        split along them over explicit axes only.
    """

    operands: Sequence[Sequence[Any]]
    results: Sequence[Sequence[Any]]
    partial: Collection[Any] = ()


@dataclass(frozen=True)
class ShardingRule:
    """How the results of an op are split.

    Attributes:
      explicit: for explicit axes; raises `ShardingRuleError`.
      automatic: for automatic axes.
    """

    explicit: Callable[[SplitUse], list[Split]]
    automatic: Callable[[SplitUse], list[Split]]


def by_labels(
    labels: Callable[[SplitUse], Labels], check: Callable[[SplitUse], None] | None = None
) -> ShardingRule:
    """The rule that follows from labels.

    Args:
      labels: the labels.
      check: raises `ShardingRuleError` if explicit axes split the operands in other ways than the
        op allows.
    """

    def explicit(use: SplitUse) -> list[Split]:
        if check is not None:
            check(use)
        operands, results, _ = labels(use)
        return [
            _checked(use, _aligned(use, operands, result), shape)
            for result, shape in zip(results, use.results, strict=True)
        ]

    def automatic(use: SplitUse) -> list[Split]:
        operands, results, partial = labels(use)
        whole = [[None if label in partial else label for label in result] for result in results]
        return [
            valid_axes(use, _merged_axes(use, operands, result), shape)
            for result, shape in zip(whole, use.results, strict=True)
        ]

    return ShardingRule(explicit, automatic)


def _unlabelled(shapes: Sequence[Shape]) -> list[tuple[None, ...]]:
    return [(None,) * len(shape) for shape in shapes]


def _of_equal_shape(use: SplitUse) -> Labels:
    def labels(shapes: Sequence[Shape]) -> list[list[Any]]:
        return [[(shape, d) for d in range(len(shape))] for shape in shapes]

    return Labels(labels(use.operands), labels(use.results))


def _of_first_operand(use: SplitUse) -> Labels:
    first, *others = use.operands
    return Labels([range(len(first)), *_unlabelled(others)], [range(len(s)) for s in use.results])


def _of_dimensions(use: SplitUse) -> Labels:
    return Labels([range(len(s)) for s in use.operands], [range(len(s)) for s in use.results])


def _of_position(use: SplitUse) -> Labels:
    labels = [[(i, d) for d in range(len(shape))] for i, shape in enumerate(use.operands)]
    return Labels(labels, labels[: len(use.results)])


def _of_nothing(use: SplitUse) -> Labels:
    return Labels(_unlabelled(use.operands), _unlabelled(use.results))


def _require_unsplit(use: SplitUse) -> None:
    if any(any(split) for split in use.splits):
        raise use.fail(
            f"has no sharding rule, so its operands must not be split, got "
            f"{use.all_typed()}. Replicate them with gnomon.sharding.reshard, or call the function "
            "in gnomon.sharding.auto_axes"
        )


# Each result is split like the operands of its shape.
elementwise = by_labels(_of_equal_shape)
# Each result is split like the operand at the same position.
each_operand = by_labels(_of_position)
# No operand determines the sharding of the results.
creation = by_labels(_of_nothing)
generated = by_labels(_of_nothing, _require_unsplit)
# Explicit axes must not split the operands; over automatic axes a result is split like the operands
# of its shape. This is for ops that call functions, and for parts of other ops.
undetermined = by_labels(_of_equal_shape, _require_unsplit)
# The results are split like the first operand, although their sizes may differ.
resized = by_labels(_of_first_operand)


def _expanded(use: SplitUse) -> Labels:
    (shape,), (result,) = use.operands, use.results
    dims = use.params["dims"]
    labels = [d if size == result[d] else None for size, d in zip(shape, dims, strict=True)]
    return Labels([labels], [range(len(result))])


def _transposed(use: SplitUse) -> Labels:
    return Labels([range(len(use.operands[0]))], [use.params["permutation"]])


def _reduced(use: SplitUse) -> Labels:
    axes = use.params["axes"] if "axes" in use.params else (use.params["axis"],)
    dimensions = range(len(use.operands[0]))
    kept = [d for d in dimensions if d not in axes]
    return Labels([dimensions], [kept] * len(use.results))


expanded = by_labels(_expanded)
transposed = by_labels(_transposed)
reduced = by_labels(_reduced)


def _sliced(use: SplitUse) -> Labels:
    """Over automatic axes only dimensions that are taken whole keep their axes."""
    sizes = zip(use.operands[0], use.results[0], strict=True)
    return _of_first_operand(use)._replace(partial={d for d, (n, m) in enumerate(sizes) if n != m})


sliced = by_labels(_sliced)


def along_axis(name: str) -> ShardingRule:
    """The rule of ops that work along the axis in parameter ``name``.

    Explicit axes must not split it.
    """

    def axis_of(use: SplitUse) -> int:
        return int(use.params[name]) % len(use.operands[0])

    def check(use: SplitUse) -> None:
        axis = axis_of(use)
        for i, split in enumerate(use.splits):
            if axis < len(split) and split[axis]:
                raise use.fail(
                    f"works along axis {axis}, along which operands must not be split, "
                    f"got {use.typed(i)}"
                )

    def labels(use: SplitUse) -> Labels:
        axis = axis_of(use)
        is_partial = use.results[0][axis] != use.operands[0][axis]
        return _of_dimensions(use)._replace(partial={axis} if is_partial else ())

    return by_labels(labels, check)


def _check_concatenated(use: SplitUse) -> None:
    if any(split != use.splits[0] for split in use.splits):
        raise use.fail(f"takes operands with the same sharding, got {use.all_typed()}")


concatenated = by_labels(_of_dimensions, _check_concatenated)


def _check_updated(use: SplitUse) -> None:
    operand, update = use.operands[:2]
    for d, (old, new) in enumerate(zip(use.splits[0], use.splits[1], strict=True)):
        # Dimensions of the update that cover the operand's need not be split.
        if old != new and (new or operand[d] != update[d]):
            raise use.fail(
                "takes an update that is split like the operand, got "
                f"{use.typed(0)} and {use.typed(1)}"
            )


updated = by_labels(_of_first_operand, _check_updated)


def _of_batch(use: SplitUse) -> Labels:
    batch = max(len(use.operands[0]) - 2, 0)

    def labels(shapes: Sequence[Shape]) -> list[list[int | None]]:
        return [[d if d < batch else None for d in range(len(shape))] for shape in shapes]

    return Labels(labels(use.operands), labels(use.results))


def _check_matrices(use: SplitUse) -> None:
    for i, (shape, split) in enumerate(zip(use.operands, use.splits, strict=True)):
        matrix = min(2, len(shape))
        if any(split[len(shape) - matrix :]):
            raise use.fail(f"takes operands whose matrices are not split, got {use.typed(i)}")


# Ops on matrices: only batch dimensions are split.
batch_dimensions = by_labels(_of_batch, _check_matrices)
# Explicit axes must not split the operands at all.
automatic_batch = by_labels(_of_batch, _require_unsplit)


# ------------------------------------------------------------------------------------- contractions


def _of_product(use: SplitUse) -> Labels:
    p = use.params
    lhs: list[Any] = [("l", d) for d in range(len(use.operands[0]))]
    rhs: list[Any] = [("r", d) for d in range(len(use.operands[1]))]
    for i, (a, b) in enumerate(zip(p["lhs_batch"], p["rhs_batch"], strict=True)):
        lhs[a] = rhs[b] = ("b", i)
    for i, (a, b) in enumerate(zip(p["lhs_contracting"], p["rhs_contracting"], strict=True)):
        lhs[a] = rhs[b] = ("c", i)
    batch = [("b", i) for i in range(len(p["lhs_batch"]))]
    free = [label for label in (*lhs, *rhs) if label[0] in "lr"]
    return Labels([lhs, rhs], [[*batch, *free]])


def _check_product(use: SplitUse) -> None:
    """A contracted dimension may be split in only one of the operands."""
    lhs, rhs = use.splits
    contracted = use.params["lhs_contracting"], use.params["rhs_contracting"]
    for a, b in zip(*contracted, strict=True):
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


dot = by_labels(_of_product, _check_product)


def _of_convolution(use: SplitUse) -> Labels:
    p = use.params
    images: list[Any] = [None] * len(use.operands[0])
    kernel: list[Any] = [None] * len(use.operands[1])
    out: list[Any] = [None] * len(use.results[0])
    if p["batch_group_count"] == 1:
        images[p["lhs_spec"][0]] = out[p["out_spec"][0]] = "batch"
    if p["feature_group_count"] == 1:
        kernel[p["rhs_spec"][0]] = out[p["out_spec"][1]] = "feature"
    space = list(zip(p["lhs_spec"][2:], p["out_spec"][2:], strict=True))
    for mine, target in space:
        images[mine] = out[target] = mine
    return Labels([images, kernel], [out], partial=[mine for mine, _ in space])


def _check_convolution(use: SplitUse) -> None:
    images, kernel = use.splits
    batch, feature, *_ = use.params["lhs_spec"]
    if any(kernel) or images[feature] or (images[batch] and use.params["batch_group_count"] != 1):
        raise use.fail(
            "takes images that are split along batch or spatial dimensions only, and kernels that "
            f"are not split, got {use.all_typed()}"
        )


convolution = by_labels(_of_convolution, _check_convolution)


# ------------------------------------------------------------------------------------------ reshape


def _reshaped(use: SplitUse) -> list[Split]:
    """Over explicit axes, one split dimension may become several, or several may become one."""
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


def _reshaped_automatically(use: SplitUse) -> list[Split]:
    (shape,), (result,) = use.operands, use.results
    split: list[tuple[str, ...]] = [()] * len(result)
    for dims, result_dims in _whole_groups(shape, result):
        # Only the axes of the outermost dimension carry over: a shard of an inner dimension is
        # not one contiguous range of the reshaped dimension.
        wide = [d for d in dims if shape[d] > 1]
        targets = [d for d in result_dims if result[d] > 1]
        if wide and targets:
            axes = use.splits[0][wide[0]]
            fits = result[targets[0]] % use.count(axes) == 0
            split[targets[0]] = axes if fits else ()
    return [valid_axes(use, split, result)]


def _whole_groups(shape: Shape, result: Shape) -> list[tuple[list[int], list[int]]]:
    """Consecutive dimensions of two shapes of one size that hold the same elements."""
    if 0 in shape:
        return []
    groups = []
    i = j = 0
    while i < len(shape) and j < len(result):
        dims, result_dims = [i], [j]
        left, right = shape[i], result[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left *= shape[i]
                dims.append(i)
                i += 1
            else:
                right *= result[j]
                result_dims.append(j)
                j += 1
        groups.append((dims, result_dims))
    return groups


reshaped = ShardingRule(_reshaped, _reshaped_automatically)


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


def _of_gather(use: SplitUse) -> Labels:
    """Dimensions that are taken whole keep their axes, and so do those of the indices."""
    p = use.params
    operand, indices = use.operands
    (result,) = use.results
    labels: list[Any] = [None] * len(operand)
    of_indices: list[Any] = [None] * len(indices)
    out: list[Any] = [None] * len(result)
    dropped = {*p["collapsed_slice_dims"], *p["operand_batching_dims"]}
    window = [d for d in range(len(operand)) if d not in dropped]
    for d, place in zip(window, p["offset_dims"], strict=True):
        if p["slice_sizes"][d] == operand[d]:
            labels[d] = out[place] = ("o", d)
    for d, place in enumerate(d for d in range(len(result)) if d not in p["offset_dims"]):
        of_indices[d] = out[place] = ("i", d)
    pairs = zip(p["operand_batching_dims"], p["start_indices_batching_dims"], strict=True)
    for d, i in pairs:
        labels[d] = of_indices[i]
    return Labels([labels, of_indices], [out])


def _check_gather(use: SplitUse) -> None:
    p, operand = use.params, use.operands[0]
    batching = p["operand_batching_dims"]
    indexed = [
        d for d, size in enumerate(operand) if d not in batching and p["slice_sizes"][d] != size
    ]
    _unsliced(use, use.splits[0], indexed, "get")
    unbatched = range(len(use.results[0]) - len(p["offset_dims"]))
    for d in unbatched:
        if use.splits[1][d] and d not in p["start_indices_batching_dims"]:
            raise use.fail(
                f"of {use.typed(0)} at indices {use.typed(1)}: indices must not be split, unless "
                "the sharding of the result is given with x.at[...].get(out_sharding=)"
            )


def _check_scatter(use: SplitUse) -> None:
    """Indexed dimensions must not be split, and the others like those of the updates."""
    p = use.params
    operand, _, update = use.operands
    dropped = {*p["inserted_window_dims"], *p["operand_batching_dims"]}
    window = [d for d in range(len(operand)) if d not in dropped]
    indexed = list(p["inserted_window_dims"])
    for d, place in zip(window, p["update_window_dims"], strict=True):
        if update[place] != operand[d]:
            indexed.append(d)
        else:
            _agreed(use, [(0, use.splits[0][d]), (2, use.splits[2][place])])
    _unsliced(use, use.splits[0], indexed, "set")


gathered = by_labels(_of_gather, _check_gather)
scattered = by_labels(_of_first_operand, _check_scatter)


def _of_bits(use: SplitUse) -> Labels:
    """A last dimension for the parts of an element is added or removed."""
    (operand,), (result,) = use.operands, use.results
    shared = range(min(len(operand), len(result)))
    labels = [[d if d in shared else None for d in range(len(s))] for s in (operand, result)]
    return Labels(labels[:1], labels[1:])


bits = by_labels(_of_bits)
