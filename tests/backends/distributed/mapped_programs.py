"""Mapped programs over a mesh of 2 x 2 devices, for the engines that are compared with each other.

Every collective is a row: a function of a shard of shape (4, 4). `nested_programs` has the nestings
of `tests.frontend.test_shard_map_nesting`. All rows are one jitted function, compiled once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gnomon as gn
import gnomon.numpy as gnp
from gnomon import P, lax
from gnomon.sharding import AxisType
from tests.frontend import test_shard_map_nesting as nesting
from tests.frontend.many_devices import _PRELUDE

__all__ = ["ROWS", "A", "mapped_over", "mesh_of", "nested_programs", "unsharded", "values_of"]

A = np.cos(np.arange(64.0)).reshape(8, 8)
BOTH, SWAP = ("x", "y"), [(0, 1), (1, 0)]
GROUPS = [[0, 3], [1, 2]]
WEIGHTS = np.sin(np.arange(16.0)).reshape(4, 4)


def _ragged(x: Any) -> Any:
    """Each member sends one row to itself and two to the other."""
    index = lax.axis_index("x")
    ours, sizes = np.array([[0, 1], [2, 0]]), np.array([[1, 2], [2, 1]])
    places = np.array([[0, 2], [1, 0]])
    own = [gnp.asarray(t)[index] for t in (ours, sizes, places, sizes.T)]
    return lax.ragged_all_to_all(x, x * 2, *own, axis_name="x")


ROWS: dict[str, Callable[[Any], Any]] = {
    "psum": lambda x: x * lax.psum(x, "x"),
    "psum of both": lambda x: x * lax.psum(x, BOTH),
    "psum of groups": lambda x: x * lax.psum(x, BOTH, axis_index_groups=GROUPS),
    "pmean": lambda x: x - lax.pmean(x * x, "y"),
    "pmax": lambda x: x * lax.pmax(x, "x"),
    "pmin": lambda x: x * lax.pmin(x, BOTH),
    "ppermute": lambda x: x * lax.ppermute(x, "y", SWAP),
    "ppermute of both": lambda x: lax.ppermute(x, BOTH, [(0, 1), (1, 2), (2, 3)]) * WEIGHTS,
    "pshuffle": lambda x: x * lax.pshuffle(x, "x", [1, 0]),
    "pbroadcast": lambda x: x * lax.pbroadcast(x, "x", 1),
    "all_gather": lambda x: lax.all_gather(x, "x").sum(1) * 3.0,
    "all_gather tiled": lambda x: lax.all_gather(x, BOTH, axis=1, tiled=True),
    "all_gather of groups": lambda x: lax.all_gather(x, BOTH, axis_index_groups=GROUPS, tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "y", 1, 0, tiled=True),
    "all_to_all of both": lambda x: lax.all_to_all(x, BOTH, 0, 1),
    "psum_scatter": lambda x: lax.psum_scatter(x * WEIGHTS, "x", tiled=True),
    "psum_scatter of both": lambda x: lax.psum_scatter(x, BOTH, scatter_dimension=1)[:, None],
    "ragged_all_to_all": _ragged,
    "axis_index": lambda x: x * (lax.axis_index(BOTH) + lax.axis_size("x")),
}


def mesh_of(devices: Any) -> Any:
    """The mesh of 2 x 2 devices."""
    return gn.make_mesh((2, 2), BOTH, (AxisType.Auto,) * 2, devices=devices)


def mapped_over(mesh: Any) -> Callable[[Any], Any]:
    """The mapping of a function of shards to one of whole arrays, over a mesh."""
    specs = {"in_specs": P("x", "y"), "out_specs": P("x", "y"), "check_vma": False}
    return lambda f: gn.shard_map(f, mesh=mesh, **specs)


def unsharded(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same mapping without a mesh: two calls of `vmap` bind the axes."""

    def whole(a: Any) -> Any:
        blocks = a.reshape(2, 4, 2, 4).transpose(0, 2, 1, 3)
        out = gn.vmap(gn.vmap(f, axis_name="y"), axis_name="x")(blocks)
        _, _, rows, columns = out.shape
        return out.transpose(0, 2, 1, 3).reshape(2 * rows, 2 * columns)

    return whole


def loss_of(whole: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A number that depends on all elements."""
    return lambda a: gnp.sum(gnp.sin(whole(a)))


def values_of(apply: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """All rows and their gradients, as a function of the array."""

    def every(a: Any) -> Any:
        wholes = {name: apply(f) for name, f in ROWS.items()}
        return {name: (whole(a), gn.grad(loss_of(whole))(a)) for name, whole in wholes.items()}

    return every


# Each of these is compiled alone, or runs Python.
_NOT_JITTED = ("while", "jit of grad")


def nested_programs(devices: Any, *, sharded: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """All nestings of `shard_map` in transformations, as a function of arrays, and the arrays."""
    scope: dict[str, Any] = {"devices": devices}
    before = nesting._BEFORE.replace("(4, 2), ('x', 'y')", "(2, 2), ('x', 'y'), devices=devices")
    uses = {name: use for name, use in nesting.AROUND.items() if name not in _NOT_JITTED}
    program = ", ".join(f"{name!r}: {use}" for name, use in uses.items())
    exec(_PRELUDE.format(name="gnomon"), scope)
    exec(
        f"SHARDED = {sharded}\n{before}\nS = of(layer)\nout = lambda W, X, D: {{{program}}}", scope
    )
    return scope["out"], tuple(np.asarray(scope[name]) for name in "WXD")
