"""`shard_map` as older programs call it; new ones use `gnomon.shard_map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gnomon._sharding.mesh import AbstractMesh, Mesh
from gnomon._transformations import shard_map as current

__all__ = ["shard_map"]


def shard_map(
    f: Callable[..., Any],
    mesh: Mesh | AbstractMesh,
    in_specs: Any,
    out_specs: Any,
    check_rep: bool = True,
) -> Callable[..., Any]:
    """A function that runs ``f`` once per device of a mesh, each on its shards of the arguments.

    Deprecated: `gnomon.shard_map` is the same function with keywords only.

    Args:
      f: a function of positional arguments.
      mesh: the mesh; ``f`` is mapped over all its axes.
      in_specs: a pytree of `P`, a prefix of the tuple of arguments.
      out_specs: a pytree of `P`, a prefix of the result.
      check_rep: ``check_vma`` of `gnomon.shard_map`.
    Returns:
      A function of whole arrays.

    Example:
      >>> import gnomon.numpy as gnp
      >>> import gnomon as gn
      >>> from gnomon.experimental.shard_map import shard_map
      >>> mesh = gn.make_mesh((1,), ("x",))
      >>> spec = gn.sharding.PartitionSpec("x")
      >>> shard_map(lambda x: 2 * x, mesh, spec, spec)(gnp.arange(4))
      Array([0, 2, 4, 6], dtype=int32)
    """
    return current.shard_map(
        f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep
    )
