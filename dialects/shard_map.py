"""``gnomon.shard_map``: a function that runs once per member of a mesh, on the members' shards.

The op names a function on local values. A spec gives, for each leading dimension of a value, the
mesh axes over which the dimension is split, the major one first. Along the axes that its spec does
not mention, a value is the same for all members.

The op is lowered in one of two ways. In a program for one device, the pass
``expand-transformations`` maps the function over the manual axes with the vectorizer. In a program
that is partitioned over a mesh (see `shardy`), the op is kept: transformations derive functions
from the one that it names, and it is lowered to a manual computation. The residuals are then
results of the forward function, with a new leading dimension that is split over all manual axes.

Without ``check_vma``, it is not known which values are equal on all members. The cotangent of an
operand is then summed over the axes that the operand's spec does not mention. The cotangent of a
result is divided evenly among the members along the axes that the result's spec does not mention.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import BOOL, INTS, SPECS, STRINGS, SYMBOL
from gnomon.dialects.body import Body
from gnomon.dialects.combinators import Tangents, Values, require
from gnomon.dialects.contract import EXPANDED, Instance, MappedAxis, Op
from gnomon.dialects.control_flow.bodies import chosen, nonzero_mask, present, split, spread
from gnomon.dialects.emit import move_dim, ops, reshape, scale, transpose
from gnomon.dialects.functions import Signature, check_operands, emit_call, resolve_signature
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import BODIES, Form
from gnomon.dialects.types import TensorType, type_of

# The mesh axes that split each of the leading dimensions of a value.
Spec = Sequence[Sequence[str]]


class Partition(NamedTuple):
    """The split of a value over the members of a mesh.

    Attributes:
      spec: the axes of each leading dimension.
      sizes: the sizes of the axes, in the order of the mesh.
    """

    spec: Spec
    sizes: Mapping[str, int]

    @property
    def axes(self) -> list[str]:
        """The axes that the spec mentions, in the order of the mesh."""
        mentioned = {name for names in self.spec for name in names}
        return [name for name in self.sizes if name in mentioned]

    def parts(self, dimension: int) -> int:
        """The number of parts of a dimension."""
        names = self.spec[dimension] if dimension < len(self.spec) else ()
        return math.prod(self.sizes[name] for name in names)

    def whole(self, local: TensorType) -> TensorType:
        """The type of the whole value, given the type of a shard."""
        return local.with_shape(tuple(n * self.parts(d) for d, n in enumerate(local.shape)))

    def split(self, x: ir.Value) -> ir.Value:
        """The shards of a value, stacked along leading dimensions: one for each axis of `axes`."""
        shape, order, local = self._split_shape(type_of(x).shape)
        return transpose(reshape(x, shape), [*order, *local])

    def join(self, x: ir.Value) -> ir.Value:
        """The inverse of `split`."""
        axes = self.axes
        local = type_of(x).shape[len(axes) :]
        whole = [n * self.parts(d) for d, n in enumerate(local)]
        shape, order, rest = self._split_shape(whole)
        places = [*order, *rest]
        inverse = [places.index(d) for d in range(len(shape))]
        return reshape(transpose(x, inverse), whole)

    def _split_shape(self, whole: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
        """The shape with dimensions split into axes and local parts, and the positions of both."""
        shape: list[int] = []
        place: dict[str, int] = {}
        local = []
        for dimension, size in enumerate(whole):
            for name in self.spec[dimension] if dimension < len(self.spec) else ():
                place[name] = len(shape)
                shape.append(self.sizes[name])
            local.append(len(shape))
            shape.append(size // self.parts(dimension))
        return shape, [place[name] for name in self.axes], local


def partitions(
    specs: Sequence[Spec], mesh_axes: Sequence[str], mesh_sizes: Sequence[int]
) -> list[Partition]:
    """The partitions of values over a mesh."""
    sizes = dict(zip(mesh_axes, mesh_sizes, strict=True))
    return [Partition(spec, sizes) for spec in specs]


def _check_spec(what: str, spec: Spec, rank: int, manual: Sequence[str]) -> None:
    names = [name for dimension in spec for name in dimension]
    require(len(spec) <= rank, "shard_map", f"{what}: {spec} is too long for rank {rank}")
    require(len(set(names)) == len(names), "shard_map", f"{what}: {spec} repeats an axis name")
    unknown = [name for name in names if name not in manual]
    require(not unknown, "shard_map", f"{what}: {unknown} are not manual axes {list(manual)}")


def _infer(
    *types: TensorType,
    callee: str,
    mesh_axes: tuple[str, ...],
    mesh_sizes: tuple[int, ...],
    manual_axes: tuple[str, ...],
    in_specs: Sequence[Spec],
    out_specs: Sequence[Spec],
    check_vma: bool,
    signature: Signature,
) -> tuple[TensorType, ...]:
    name = "shard_map"
    arguments, results = signature
    require(
        len(mesh_axes) == len(mesh_sizes), name, f"the axes {mesh_axes} have the sizes {mesh_sizes}"
    )
    require(len(set(mesh_axes)) == len(mesh_axes), name, f"axis names must differ: {mesh_axes}")
    require(all(n > 0 for n in mesh_sizes), name, f"sizes must be positive: {mesh_sizes}")
    require(
        set(manual_axes) <= set(mesh_axes),
        name,
        f"the manual axes {manual_axes} must be axes of the mesh, {mesh_axes}",
    )
    require(
        len(in_specs) == len(arguments) and len(out_specs) == len(results),
        name,
        f"{len(in_specs)} in_specs and {len(out_specs)} out_specs for a function of "
        f"{len(arguments)} arguments and {len(results)} results",
    )
    for what, specs, local in (
        ("in_specs", in_specs, arguments),
        ("out_specs", out_specs, results),
    ):
        for spec, type_ in zip(specs, local, strict=True):
            _check_spec(what, spec, type_.rank, manual_axes)
    given = partitions(in_specs, mesh_axes, mesh_sizes)
    check_operands(
        "gnomon.shard_map", [p.whole(t) for p, t in zip(given, arguments, strict=True)], types
    )
    returned = partitions(out_specs, mesh_axes, mesh_sizes)
    return tuple(p.whole(t) for p, t in zip(returned, results, strict=True))


# ---------------------------------------------------------------------------- transformations


def _apply(
    inst: Instance,
    body: Body,
    kind: str,
    operands: Sequence[ir.Value],
    in_specs: Sequence[Spec],
    out_specs: Sequence[Spec],
) -> list[ir.Value]:
    """Apply a function that was derived from the op's function, over the same mesh."""
    program, original = inst.engine.program, inst.params["callee"]
    name = program.add(f"{original}.{kind}", body, like=original)
    params = {k: v for k, v in inst.params.items() if k not in ("callee", "signature")}
    params |= {"in_specs": tuple(in_specs), "out_specs": tuple(out_specs)}
    return emit_call(program, shard_map, name, operands, **params)


def _function(inst: Instance) -> Body:
    body: Body = inst.engine.program.body(inst.params["callee"])
    return body


def _jvp(inst: Instance, tangents: Tangents) -> tuple[list[ir.Value], list[ir.Value | None]]:
    ins, outs = inst.params["in_specs"], inst.params["out_specs"]
    nonzero = nonzero_mask(tangents)
    body, out_nonzero = inst.engine.jvp(_function(inst), nonzero)
    values = _apply(
        inst,
        body,
        "jvp",
        [*inst.operands, *present(tangents)],
        [*ins, *chosen(ins, nonzero)],
        [*outs, *chosen(outs, out_nonzero)],
    )
    results, outgoing = split(values, len(outs))
    return results, spread(outgoing, out_nonzero)


def _linearize(inst: Instance, tangents: Tangents) -> tuple[list[ir.Value], list[ir.Value | None]]:
    ins, outs = inst.params["in_specs"], inst.params["out_specs"]
    nonzero = nonzero_mask(tangents)
    parts = inst.engine.linearize(_function(inst), nonzero)
    # A residual that is an operand need not be returned.
    places = parts.residual_arguments
    own = [place is None for place in places]
    stacked: Spec = (tuple(inst.params["manual_axes"]),)

    def forward(*shards: ir.Value) -> list[ir.Value]:
        results, residuals = split(parts.forward.inline(shards), len(outs))
        return [*results, *(_with_leading_one(r) for r in chosen(residuals, own))]

    body = Body.build(parts.forward.argument_types, forward)
    saved_specs = [stacked] * sum(own)
    values = _apply(inst, body, "forward", inst.operands, ins, [*outs, *saved_specs])
    results, kept = split(values, len(outs))
    saved = iter(kept)
    residuals = [next(saved) if p is None else inst.operands[p] for p in places]
    types = [
        t.with_shape((1, *t.shape)) if mine else t
        for t, mine in zip(parts.residual_types, own, strict=True)
    ]

    def linear(*shards: ir.Value) -> list[ir.Value]:
        given = [
            reshape(x, t.shape) for x, t in zip(shards, parts.linear.argument_types, strict=True)
        ]
        return parts.linear.inline(given)

    count = len(types)
    outgoing = (
        _apply(
            inst,
            Body.build([*types, *parts.linear.argument_types[count:]], linear),
            "linear",
            [*residuals, *present(tangents)],
            [*(stacked if p is None else ins[p] for p in places), *chosen(ins, nonzero)],
            chosen(outs, parts.out_nonzero),
        )
        if any(parts.out_nonzero)
        else []
    )
    return results, spread(outgoing, parts.out_nonzero)


def _with_leading_one(x: ir.Value) -> ir.Value:
    return reshape(x, (1, *type_of(x).shape))


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    ins, outs = inst.params["in_specs"], inst.params["out_specs"]
    nonzero = nonzero_mask(cotangents)
    body = inst.engine.transpose(_function(inst), linear, nonzero)
    constants = [not is_linear for is_linear in linear]
    found = chosen(ins, linear)
    if not inst.params["check_vma"]:
        body = _with_shared_cotangents(inst, body, sum(constants), chosen(outs, nonzero), found)
    values = _apply(
        inst,
        body,
        "transpose",
        [*present(inst.operands), *present(cotangents)],
        [*chosen(ins, constants), *chosen(outs, nonzero)],
        found,
    )
    return spread(values, linear)


def _with_shared_cotangents(
    inst: Instance, body: Body, constants: int, given: Sequence[Spec], found: Sequence[Spec]
) -> Body:
    """Divide the cotangents that a function takes among members; sum those that it returns."""
    sizes = dict(zip(inst.params["mesh_axes"], inst.params["mesh_sizes"], strict=True))

    def others(spec: Spec) -> list[str]:
        mentioned = {name for names in spec for name in names}
        return [name for name in inst.params["manual_axes"] if name not in mentioned]

    def emit(*shards: ir.Value) -> list[ir.Value]:
        fixed, cotangents = split(shards, constants)
        shares = [
            scale(ct, 1 / math.prod(sizes[name] for name in others(spec))) if others(spec) else ct
            for ct, spec in zip(cotangents, given, strict=True)
        ]
        return [
            ops.psum(ct, axes=tuple(others(spec)), groups=()) if others(spec) else ct
            for ct, spec in zip(body.inline([*fixed, *shares]), found, strict=True)
        ]

    return Body.build(body.argument_types, emit)


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    ins, outs = inst.params["in_specs"], inst.params["out_specs"]
    require(
        not axis.name or axis.name not in inst.params["mesh_axes"],
        "shard_map",
        f"an enclosing vmap has the axis name {axis.name!r}, which is an axis of the mesh; rename "
        "one of them",
    )
    mapped = [d is not None for d in dims]
    body, out_mapped = inst.engine.batch(_function(inst), mapped, axis)

    def batched(specs: Sequence[Spec], mask: Sequence[bool]) -> list[Spec]:
        return [((), *spec) if m else spec for spec, m in zip(specs, mask, strict=True)]

    front = [x if d is None else move_dim(x, d, 0) for x, d in zip(operands, dims, strict=True)]
    values = _apply(inst, body, "vmap", front, batched(ins, mapped), batched(outs, out_mapped))
    return values, [0 if m else None for m in out_mapped]


def _lower(inst: Instance) -> list[ir.Value]:
    results: list[ir.Value] = inst.engine.manual_computation(inst)
    return results


shard_map = Op(
    name="shard_map",
    doc="a function applied by each member of a mesh to its shards of the operands",
    example='%y = "gnomon.shard_map"(%x) {callee = @f, mesh_axes = ["i"], '
    'mesh_sizes = array<i64: 4>, manual_axes = ["i"], in_specs = [[]], out_specs = [[]], '
    "check_vma = true} : (tensor<f32>) -> tensor<f32>",
    attributes={
        "callee": SYMBOL,
        "mesh_axes": STRINGS,
        "mesh_sizes": INTS,
        "manual_axes": STRINGS,
        "in_specs": SPECS,
        "out_specs": SPECS,
        "check_vma": BOOL,
    },
    results=None,
    resolve=resolve_signature,
    form=Form.CONTROL,
    work=work_rules.nothing,
    infer=_infer,
    evaluate=EXPANDED,
    jvp=_jvp,
    linearize=_linearize,
    linear=BODIES,
    transpose=_transpose,
    batch=_batch,
    sharding=sharding_rules.undetermined,
    lower=_lower,
)

__all__ = ["Partition", "Spec", "partitions", "shard_map"]
