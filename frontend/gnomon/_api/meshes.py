"""The mesh that is set for programs: `set_mesh`, `get_mesh`, `use_abstract_mesh`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gnomon._config.current import config
from gnomon._sharding.mesh import AbstractMesh, Mesh
from gnomon._tracing.stack import staging

__all__ = ["get_abstract_mesh", "get_mesh", "set_mesh", "use_abstract_mesh", "use_mesh"]

_NO_DEVICES = Mesh(np.array(None, dtype=object), ())
_NO_AXES = AbstractMesh((), ())


class set_mesh:  # noqa: N801 (a function to its users)
    """Set the mesh of this thread, for a ``with`` block or until another mesh is set.

    From then on, a spec without a mesh means a sharding over this mesh.

    Args:
      mesh: a `gnomon.sharding.Mesh`, or None for no mesh.
    Raises:
      ValueError: ``mesh`` is neither a mesh nor None, or a function is being traced.

    Example:
      >>> import gnomon as gn
      >>> with gn.set_mesh(gn.make_mesh((1,), ("data",))):
      ...     gn.device_put(gn.numpy.zeros(4), gn.P("data")).sharding.spec
      P('data',)
    """

    def __init__(self, mesh: Mesh | None) -> None:
        if staging():
            raise ValueError(
                "set_mesh cannot be used in a function that is being traced; see "
                "gnomon.sharding.use_abstract_mesh"
            )
        if not (mesh is None or isinstance(mesh, Mesh)):
            raise ValueError(f"set_mesh takes a gnomon.sharding.Mesh, got {type(mesh).__name__}")
        self._before = config.mesh_context
        self._mesh = mesh
        abstract = None if mesh is None else mesh.abstract_mesh
        config.set_mesh_context((mesh, abstract, self._before[2]))

    def __enter__(self) -> Mesh | None:
        return self._mesh

    def __exit__(self, *exception: object) -> None:
        config.set_mesh_context(self._before)


@contextmanager
def use_mesh(mesh: Mesh) -> Iterator[Mesh]:
    """A context manager that sets the mesh inside of its block.

    Args:
      mesh: the mesh.

    Example:
      >>> import gnomon as gn
      >>> mesh = gn.make_mesh((1,), ("x",))
      >>> with gn.sharding.use_mesh(mesh):
      ...     print(gn.get_mesh().axis_names)
      ('x',)

    See also:
      `gnomon.set_mesh`
    """
    with set_mesh(mesh):
        yield mesh


@contextmanager
def use_abstract_mesh(mesh: AbstractMesh) -> Iterator[AbstractMesh]:
    """A context manager in which programs are traced for an abstract mesh.

    Args:
      mesh: a `gnomon.sharding.AbstractMesh`.
    Raises:
      ValueError: ``mesh`` is not an abstract mesh, or its size differs from that of the mesh that
        is set.

    Example:
      >>> import gnomon as gn
      >>> mesh = gn.sharding.AbstractMesh((2,), ("x",))
      >>> with gn.sharding.use_abstract_mesh(mesh):
      ...     print(gn.sharding.get_abstract_mesh().axis_names)
      ('x',)
    """
    if not isinstance(mesh, AbstractMesh):
        raise ValueError(
            f"use_abstract_mesh takes a gnomon.sharding.AbstractMesh, got {type(mesh).__name__}"
        )
    before = config.mesh_context
    if before[1] is not None and before[1].size != mesh.size:
        raise ValueError(
            f"use_abstract_mesh cannot change the size of the mesh: it is {before[1]}, got {mesh}"
        )
    config.set_mesh_context((before[0], mesh, before[2]))
    try:
        yield mesh
    finally:
        config.set_mesh_context(before)


def get_mesh() -> Mesh:
    """The mesh that `set_mesh` has set, or an empty mesh.

    Raises:
      ValueError: a function is being traced; use `get_abstract_mesh` there.

    Example:
      >>> import gnomon as gn
      >>> gn.get_mesh().empty
      True
    """
    if staging():
        raise ValueError(
            "get_mesh cannot be used in a function that is being traced; see "
            "gnomon.sharding.get_abstract_mesh"
        )
    mesh: Any = config.mesh_context[0]
    return _NO_DEVICES if mesh is None else mesh


def get_abstract_mesh() -> AbstractMesh:
    """The mesh of the program without its devices, or an empty mesh if none is set.

    Example:
      >>> import gnomon as gn
      >>> gn.get_abstract_mesh().empty
      True

    See also:
      `use_abstract_mesh`, `get_mesh`
    """
    mesh: Any = config.mesh_context[1]
    return _NO_AXES if mesh is None else mesh
