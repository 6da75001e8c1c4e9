"""Arrays that are made while a mesh is set: they are replicated over it."""

from __future__ import annotations

import functools
from typing import Any

from gnomon._arrays.concrete import ConcreteArray
from gnomon._arrays.sharded import sharded
from gnomon._config.current import config
from gnomon._sharding.device import is_described
from gnomon._sharding.mesh import AbstractMesh, Mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._tracing.partitioned import named
from gnomon._tracing.stack import state

__all__ = ["replicated_over_mesh"]


def replicated_over_mesh(value: Any, weak_type: bool) -> ConcreteArray | None:
    """An array of a computed NumPy value over the mesh that is set.

    It is None where no mesh is set, and while a function is traced: the program of the function
    decides where its values are.
    """
    concrete, abstract, _ = config.mesh_context
    if concrete is None or state.stack:
        return None
    sharding = _replicated(concrete, abstract, value.ndim)
    return None if sharding is None else sharded(value, sharding, weak_type)


@functools.lru_cache(256)
def _replicated(mesh: Mesh, abstract: AbstractMesh | None, ndim: int) -> NamedSharding | None:
    if mesh.empty or is_described(mesh._flat[0]):
        return None
    if abstract is not None:
        if abstract.manual_axes or abstract.shape != mesh.shape:
            return None
        mesh = mesh.update(axis_types=abstract.axis_types)
    return named(mesh, ((),) * ndim)
