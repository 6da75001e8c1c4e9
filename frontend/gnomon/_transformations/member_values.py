"""The values of a tracer on the members of a mesh, where they are known during tracing.

`shard_map` traces its function even when it is called outside of traced functions. The operands are
known then, so the program traced so far can be run on all members (the devices of the mesh) to get
the values of a tracer: to print them, or for Python's control flow, if all members have the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon._arrays.array import Array
from gnomon._sharding.device import in_host_memory
from gnomon._sharding.mesh import Mesh
from gnomon._tracing.bind import trace_for
from gnomon._tracing.function import Traced, apply
from gnomon._tracing.stack import outside_of_traces
from gnomon._tracing.trace import Trace
from gnomon.dialects.body import Body, clone_into
from gnomon.dialects.contract import has_effects
from gnomon.dialects.emit import reshape
from gnomon.dialects.mlir import ir
from gnomon.dialects.shard_map import Spec
from gnomon.dialects.shard_map import shard_map as shard_map_op
from gnomon.dialects.types import type_of

__all__ = ["MemberValues"]


class MemberValues:
    """The values of the members, for a `Tracer` that is printed or converted to a Python number.

    Args:
      operands: the whole arrays that the function is applied to.
      in_specs: how they are split over the manual axes.
      mesh, manual: the mesh, and its manual axes.
      checked: whether types say which values are the same for all members.
    """

    def __init__(
        self,
        operands: Sequence[Array],
        in_specs: Sequence[Spec],
        mesh: Mesh,
        manual: Sequence[str],
        *,
        checked: bool,
    ) -> None:
        self._operands = list(operands)
        self._in_specs = tuple(in_specs)
        self._mesh = mesh
        self._manual = tuple(manual)
        self._checked = checked

    @staticmethod
    def of(
        operands: Sequence[Array],
        in_specs: Sequence[Spec],
        mesh: Any,
        manual: Sequence[str],
        *,
        checked: bool,
    ) -> MemberValues | None:
        """The `MemberValues` of a function that is to be traced; None if they are not known."""
        known = isinstance(mesh, Mesh) and trace_for(operands) is None
        if not known or not in_host_memory(mesh._flat[0]) or len(manual) < len(mesh.axis_names):
            return None
        return MemberValues(operands, in_specs, mesh, manual, checked=checked)

    def known(self, trace: Trace, value: ir.Value, vma: frozenset[str]) -> np.ndarray | None:
        """The value of all members; None if their values may differ or are not known."""
        if not self._checked or vma:
            return None
        every = self._every(trace, value)
        return None if every is None else np.asarray(every[(0,) * len(self._manual)])

    def described(self, trace: Trace, value: ir.Value) -> str | None:
        """A text with the value of each member and its device; None if they are not known."""
        every = self._every(trace, value)
        if every is None:
            return None
        names = f"({', '.join(self._manual)},)"
        sizes = [range(self._mesh.shape[name]) for name in self._mesh.axis_names]
        lines = [
            f"On {device} at mesh coordinates {names} = {place}:\n{np.asarray(every[place])}\n"
            for device, place in zip(self._mesh._flat, itertools.product(*sizes), strict=True)
        ]
        return "\n".join(lines)

    def _every(self, trace: Trace, value: ir.Value) -> np.ndarray | None:
        """The values of all members, stacked along leading dimensions, one for each axis."""
        so_far = list(trace.body.operations)
        if any(has_effects(op) for op in so_far):
            return None  # The effects would happen here, and once more when the function runs.

        def emit(*arguments: ir.Value) -> Sequence[ir.Value]:
            env = dict(zip(trace.body.arguments, arguments, strict=True))
            for op in so_far:
                clone_into(op, env)
            local = env[value]
            ones = (1,) * len(self._manual)
            return [reshape(local, (*ones, *type_of(local).shape))]

        body = Body.build(trace.body.argument_types, emit)
        traced = Traced("values", trace.program, body, trace.captures, [], None, None)
        with outside_of_traces():
            (every,) = apply(
                shard_map_op,
                traced,
                [*self._operands, *trace.captures],
                mesh_axes=tuple(map(str, self._mesh.axis_names)),
                mesh_sizes=tuple(self._mesh.axis_sizes),
                manual_axes=self._manual,
                in_specs=(*self._in_specs, *(() for _ in trace.captures)),
                out_specs=(tuple((name,) for name in self._manual),),
                check_vma=False,
            )
        return np.asarray(every)
