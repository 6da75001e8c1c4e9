"""`with_sharding_constraint`: the shardings of values inside of a program."""

from __future__ import annotations

import itertools
from typing import Any

from gnomon import tree_util
from gnomon._api.devices import device_put
from gnomon._arrays.aval import explicit_sharding, split_alike
from gnomon._arrays.sharded import ShardedArray
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec, Unconstrained
from gnomon._sharding.sharding import Sharding
from gnomon._tracing.bind import as_operand
from gnomon._tracing.constraints import constrained, resolved
from gnomon._tracing.partitioned import split_of
from gnomon._tracing.shardings import sharding_in
from gnomon._tracing.stack import staging
from gnomon._tracing.trace import is_tracer
from gnomon._trees.prefixes import broadcast_prefix


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Constrain the sharding of arrays inside of a program.

    Args:
      x: a pytree of arrays.
      shardings: a `gnomon.sharding.Sharding`, a `gnomon.P` of the mesh that is set, or a pytree of
        those that is a prefix of ``x``. Concrete arrays are moved.
    Returns:
      ``x``.
    Raises:
      ValueError: ``shardings`` is None or not a prefix of ``x``, or a spec has more entries than an
        array has dimensions.
      TypeError: ``shardings`` holds something that is not a sharding.
      RuntimeError: ``shardings`` holds a spec, and no mesh is set.
      AssertionError: all axes of the mesh are explicit, and the type of an array has another
        sharding: see `gnomon.sharding.reshard`.

    Example:
      >>> import gnomon as gn
      >>> here = gn.sharding.SingleDeviceSharding(gn.devices()[0])
      >>> gn.lax.with_sharding_constraint(gn.numpy.arange(3), here)
      Array([0, 1, 2], dtype=int32)
    """
    leaves, tree = tree_util.tree_flatten(x)
    if shardings is None:
        raise ValueError(
            "with_sharding_constraint takes a sharding, such as "
            "gnomon.NamedSharding(mesh, spec), got None"
        )
    wanted = broadcast_prefix(
        shardings,
        x,
        lambda leaf: isinstance(leaf, (Sharding, PartitionSpec)),
        prefix_name="with_sharding_constraint: shardings",
        full_name="x",
    )
    placed = [
        _constrained(as_operand(leaf), sharding)
        for leaf, sharding in zip(leaves, wanted, strict=True)
    ]
    return tree_util.tree_unflatten(tree, placed)


def _constrained(x: Any, sharding: Any) -> Any:
    """Constrain one array."""
    sharding = resolved(sharding, "with_sharding_constraint")
    if not isinstance(sharding, Sharding):
        raise TypeError(
            "with_sharding_constraint takes shardings, such as gnomon.NamedSharding(mesh, spec), "
            f"got {sharding!r}"
        )
    if not isinstance(sharding, NamedSharding):
        if sharding.num_devices > 1:
            raise NotImplementedError(
                f"with_sharding_constraint: {sharding!r} is over {sharding.num_devices} devices; "
                "pass a gnomon.NamedSharding"
            )
        return device_put(x, sharding)
    try:
        sharding.check_compatible_aval(x.shape)
    except ValueError as error:
        raise ValueError(f"with_sharding_constraint: {error}") from None
    if sharding.mesh.are_all_axes_explicit and (is_tracer(x) or type(x) is ShardedArray):
        _assert_type(x, sharding)
        return x
    if is_tracer(x) or staging():
        return constrained(x, sharding)
    if not any(isinstance(entry, Unconstrained) for entry in sharding.spec.partitions):
        return device_put(x, sharding)
    split = split_of(sharding_in(x), sharding.mesh, x.ndim)
    spec = (
        old if isinstance(entry, Unconstrained) else entry
        for entry, old in itertools.zip_longest(sharding.spec.partitions, split)
    )
    return device_put(x, sharding.update(spec=PartitionSpec(*spec)))


def _assert_type(x: Any, sharding: NamedSharding) -> None:
    """Raise ``AssertionError`` unless the type of an array has the given sharding."""
    wanted = x.aval.replicated().update(sharding=explicit_sharding(sharding, x.ndim))
    if not split_alike(x.aval, wanted):
        raise AssertionError(
            "with_sharding_constraint: if all axes of the mesh are explicit, it only checks the "
            f"type of the array, which is {x.aval} instead of {wanted}. Move the array with "
            "gnomon.sharding.reshard"
        )


__all__ = ["with_sharding_constraint"]
