"""`with_sharding_constraint`: the shardings of values inside of a program."""

from __future__ import annotations

import itertools
from typing import Any

from gnomon import tree_util
from gnomon._api.devices import device_put
from gnomon._arrays.aval import explicit_sharding, split_alike
from gnomon._arrays.sharded import ShardedArray
from gnomon._config.current import config
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec, Unconstrained, axes_of
from gnomon._sharding.sharding import Sharding
from gnomon._tracing.bind import as_operand
from gnomon._tracing.constraints import constrained, resolved
from gnomon._tracing.explicit import with_devices
from gnomon._tracing.partitioned import split_of
from gnomon._tracing.shardings import sharding_in
from gnomon._tracing.stack import staging
from gnomon._tracing.trace import is_tracer
from gnomon._trees.prefixes import broadcast_prefix


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Constrain the sharding of arrays inside of a program.

    Args:
      x: a pytree of arrays.
      shardings: a `gnomon.sharding.Sharding`, a `gnomon.P` of the mesh that is set, or a pytree
        prefix of ``x`` with these as leaves. Concrete arrays are moved.
    Returns:
      ``x``.
    Raises:
      ValueError: ``shardings`` is None or not a prefix of ``x``, or a spec has more entries than an
        array has dimensions.
      TypeError: ``shardings`` holds something that is not a sharding.
      RuntimeError: ``shardings`` holds a spec, and no mesh is set.
      AssertionError: ``shardings`` and the type of an array disagree about explicit axes of the
        mesh; use `gnomon.sharding.reshard` to move the array.

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
    staged = is_tracer(x) or staging()
    if _only_checks(sharding) and (staged or type(x) is ShardedArray):
        _assert_type(x, sharding)
        return x
    if staged:
        return constrained(x, _with_axes_of_type(x, sharding))
    sharding = with_devices(sharding, x)
    if not any(isinstance(entry, Unconstrained) for entry in sharding.spec.partitions):
        return device_put(x, sharding)
    split = split_of(sharding_in(x), sharding.mesh, x.ndim)
    spec = (
        old if isinstance(entry, Unconstrained) else entry
        for entry, old in itertools.zip_longest(sharding.spec.partitions, split)
    )
    return device_put(x, sharding.update(spec=PartitionSpec(*spec)))


def _only_checks(sharding: NamedSharding) -> bool:
    """Whether a constraint only checks the type of an array.

    All axes of its mesh are explicit, and it names axes or the mesh that is set is explicit, too.
    """
    mesh, context = sharding.mesh, config.mesh_context[1]
    if not mesh.are_all_axes_explicit:
        return False
    return any(sharding._axes) or (context is not None and context.are_all_axes_explicit)


def _with_axes_of_type(x: Any, sharding: NamedSharding) -> NamedSharding:
    """A sharding with its explicit axes replaced by those in the type of an array.

    A constraint is about automatic axes. It cannot move explicit axes: if the sharding splits a
    dimension over explicit axes, they must be those of the type.
    """
    mesh, typed = sharding.mesh, x.aval.explicit
    explicit = mesh.explicit_axes
    if not explicit or (typed is not None and typed.mesh.shape != mesh.shape):
        return sharding
    entries: list[Any] = []
    for entry, there in itertools.zip_longest(sharding.spec.partitions, x.aval.split):
        if isinstance(entry, Unconstrained) and not there:
            entries.append(entry)
            continue
        wanted = () if isinstance(entry, Unconstrained) else axes_of(entry)
        if any(axis in explicit for axis in wanted) and wanted[: len(there) or 1] != there:
            raise _wrong_type(x, sharding)
        entries.append((*there, *(axis for axis in wanted if axis not in explicit)))
    return sharding.update(spec=sharding.spec.update(partitions=entries))


def _assert_type(x: Any, sharding: NamedSharding) -> None:
    """Raise ``AssertionError`` unless the type of an array has the given sharding."""
    wanted = x.aval.replicated().update(sharding=explicit_sharding(sharding, x.ndim))
    if not split_alike(x.aval, wanted):
        raise _wrong_type(x, sharding)


def _wrong_type(x: Any, sharding: NamedSharding) -> AssertionError:
    wanted = x.aval.replicated().update(sharding=explicit_sharding(sharding, x.ndim))
    return AssertionError(
        "with_sharding_constraint: along explicit axes of the mesh, it only checks the type of the "
        f"array, which is {x.aval} instead of {wanted}. Move the array with gnomon.sharding.reshard"
    )
