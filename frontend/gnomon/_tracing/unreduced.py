"""Unreduced and reduced axes in the types of values.

Over an *unreduced* axis of a mesh, each device holds one term of a value, which is the sum of the
terms. Over a *reduced* axis all devices hold the value, and its cotangents are unreduced. The two
are each other's cotangent types.

Programs compute with values, not with terms: a value that is unreduced is its sum, wherever it is
stored or used, so the numbers, the derivatives and the batching of an op do not depend on these
axes. Its type ensures that the program could compute with the terms just as well: it goes through
linear ops only.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from gnomon._config.current import config
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec
from gnomon.dialects.contract import REGISTRY
from gnomon.dialects.emit import ops
from gnomon.dialects.sharding_rules import SplitUse
from gnomon.dialects.traits import Form

__all__ = ["summed", "sums_of_results", "with_sums", "without_reduced"]

Axes = frozenset[Any]
_NONE: Axes = frozenset()


def _sums(x: Any) -> tuple[Axes, Axes]:
    aval = getattr(x, "aval", None)
    explicit = getattr(aval, "explicit", None)
    return (_NONE, _NONE) if explicit is None else (explicit.spec.unreduced, explicit.spec.reduced)


def sums_of_results(
    use: SplitUse, operands: Sequence[Any], made: Sequence[Any]
) -> tuple[Axes, Axes]:
    """The unreduced and the reduced axes of the results of an op.

    Args:
      use: the op.
      operands: the arrays that it is applied to.
      made: how axes split its results.
    Raises:
      ShardingRuleError: the op is not linear in an unreduced operand, or operands disagree.
    """
    found = [_sums(x) for x in operands]
    # The type of a value that is resharded is set by the caller.
    if use.op == "sharding_constraint" or not any(u or r for u, r in found):
        return _NONE, _NONE
    unreduced = frozenset[Any]().union(*(u for u, _ in found))
    reduced = frozenset[Any]().union(*(r for _, r in found))
    splits = {axis for split in (*use.splits, *made) for axes in split for axis in axes}
    if unreduced:
        _check_linear(use, operands, found, unreduced)
        if both := sorted(unreduced & splits):
            raise use.fail(
                f"of {_listed(operands)}: an operand is split over {both}, over which another one "
                "is unreduced"
            )
        return unreduced, reduced - unreduced
    if use.op == "dot_general":
        return _NONE, _NONE
    varying = frozenset[Any]().union(*(getattr(x.aval, "vma", _NONE) for x in _typed(operands)))
    kept = reduced - splits - varying
    if not any(hasattr(x, "_ssa") for x in operands):
        return _NONE, kept  # A literal cannot be told from an array that is replicated.
    for x, (_, own) in zip(operands, found, strict=True):
        aval: Any = getattr(x, "aval", None)
        if getattr(aval, "explicit", None) is None or aval.weak_type or not aval.ndim:
            continue
        if kept - own:
            raise use.fail(
                f"got {_listed(operands)}: an operand is replicated over {sorted(kept - own)}, "
                "over which another one is reduced. Give both the same type with "
                "gnomon.sharding.reshard"
            )
    return _NONE, kept


def _typed(operands: Sequence[Any]) -> list[Any]:
    return [x for x in operands if hasattr(x, "aval")]


def _listed(operands: Sequence[Any]) -> str:
    return ", ".join(str(x.aval) if hasattr(x, "aval") else repr(x) for x in operands)


def _check_linear(
    use: SplitUse, operands: Sequence[Any], found: Sequence[tuple[Axes, Axes]], axes: Axes
) -> None:
    """Raise an error unless an op of unreduced operands is a linear function of their terms."""
    advice = "Sum it first, with gnomon.sharding.reshard, or with gnomon.lax.psum in shard_map"
    given = _listed(operands)
    own = [u for u, _ in found]
    if use.op == "mul":
        (left, right), (left_reduced, right_reduced) = own, [r for _, r in found]
        if left and right:
            raise use.fail(f"of {given}: a product of unreduced values is not linear. {advice}")
        if (right_reduced if left else left_reduced) >= axes:
            return
        raise use.fail(
            f"of {given}: the other factor of a value that is unreduced over {sorted(axes)} must "
            "be reduced over the same axes"
        )
    places = _summed_together(use.op, [i for i, u in enumerate(own) if u], len(own))
    if places is None:
        raise use.fail(f"of {given}: the op is not linear in an unreduced value. {advice}")
    if use.op == "convert" and not _keeps_sums(use, operands[0]):
        raise use.fail(f"of {given}: the conversion of a sum is not that of its terms. {advice}")
    if any(own[i] != axes for i in places):
        raise use.fail(
            f"of {given}: the operands must be unreduced over the same axes, {sorted(axes)}. "
            "Sum those that are unreduced with gnomon.sharding.reshard"
        )


def _summed_together(name: str, unreduced: Sequence[int], count: int) -> Collection[int] | None:
    """The operands of which all must be unreduced, since the op is linear in them together.

    Returns:
      Their positions; None if the op is not linear in the unreduced operands, or has factors.
    """
    op = REGISTRY.get(f"gnomon.{name}")
    if op is None or op.linear is None or op.linear.has_factors or op.form is Form.COLLECTIVE:
        return None
    # The padding of an unreduced array is not a sum.
    return op.linear.group_of(unreduced, 1 if name == "pad" else count)


def _keeps_sums(use: SplitUse, x: Any) -> bool:
    """Whether a conversion maps a sum to the sum of the converted terms, up to rounding."""
    kinds = "fcV" if x.dtype.kind in "fcV" else "iufcV"
    return x.dtype.kind != "b" and use.params["dtype"].kind in kinds


def summed(trace: Any, array: Any, names: Sequence[str]) -> Any:
    """The unreduced value whose terms are a varying value of a `shard_map`."""
    value = trace.bind(ops.psum_invariant, (array,), {"axes": tuple(names)})
    unreduced = array.aval.unreduced.union(names)
    vma = array.aval.vma.difference(names)
    return with_sums(trace, value, unreduced, array.aval.reduced, vma)


def with_sums(
    trace: Any, array: Any, unreduced: Axes, reduced: Axes, vma: frozenset[str] | None = None
) -> Any:
    """An array of a trace with other unreduced, reduced and varying axes in its type."""
    aval = array.aval
    sharding = aval.explicit
    if sharding is None:
        mesh: Any = config.mesh_context[1]
        sharding = NamedSharding(mesh, PartitionSpec(*(None,) * array.ndim))
    sharding = sharding.update(spec=sharding.spec.update(unreduced=unreduced, reduced=reduced))
    vma = aval.vma if vma is None else vma
    return trace.tracer(trace.value(array), array.weak_type, None, vma, sharding)


def without_reduced(
    sharding: NamedSharding, axes: Collection[Any], mesh: Any = None
) -> NamedSharding:
    """A sharding that is not reduced over the given axes, over the same or another mesh."""
    spec = sharding.spec
    if spec.reduced.intersection(axes):
        spec = spec.update(reduced=spec.reduced.difference(axes))
    return NamedSharding(sharding.mesh if mesh is None else mesh, spec)
