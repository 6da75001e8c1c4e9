"""`with_sharding_constraint`: where values of a program are to be."""

from __future__ import annotations

from typing import Any

from gnomon import tree_util
from gnomon._api.devices import device_put
from gnomon._arrays.sharding import Sharding
from gnomon._tracing.bind import as_operand
from gnomon._trees.prefixes import broadcast_prefix


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """Demand that arrays be spread over devices in a given way.

    Args:
      x: a pytree of arrays.
      shardings: a `gnomon.sharding.SingleDeviceSharding`, or a pytree of them that is a prefix of
        ``x``. Arrays with values are put on that device; traced values are where the program runs.
    Returns:
      ``x``.
    Raises:
      ValueError: ``shardings`` is None, or no prefix of ``x``.
      TypeError: it holds something that is not a sharding.
      NotImplementedError: a sharding is one of several devices.

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
            "gnomon.sharding.SingleDeviceSharding(device), got None"
        )
    wanted = broadcast_prefix(
        shardings,
        x,
        lambda leaf: isinstance(leaf, Sharding),
        prefix_name="with_sharding_constraint: shardings",
        full_name="x",
    )
    for sharding in wanted:
        _check(sharding)
    placed = [
        device_put(as_operand(leaf), sharding)
        for leaf, sharding in zip(leaves, wanted, strict=True)
    ]
    return tree_util.tree_unflatten(tree, placed)


def _check(sharding: Any) -> None:
    if not isinstance(sharding, Sharding):
        raise TypeError(
            "with_sharding_constraint takes shardings, such as "
            f"gnomon.sharding.SingleDeviceSharding(device), got {sharding!r}"
        )
    if sharding.num_devices > 1:
        raise NotImplementedError(
            f"with_sharding_constraint: {sharding!r} spreads an array over "
            f"{sharding.num_devices} devices; programs run on one device so far"
        )


__all__ = ["with_sharding_constraint"]
