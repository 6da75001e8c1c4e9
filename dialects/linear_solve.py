"""``gnomon.custom_linear_solve``: the solution of a linear system, differentiated implicitly.

The bodies are a solver and the linear map, followed by their transposes if the transposed system
can be solved. The solver itself is not differentiated: the tangent satisfies ``A dx = db - dA x``,
which follows from ``A x = b``, and the cotangent of ``b`` solves the transposed system.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import INT
from gnomon.dialects.body import Body
from gnomon.dialects.combinators import Tangents, Values, require, to_front
from gnomon.dialects.contract import EXPANDED, Instance, MappedAxis, Op
from gnomon.dialects.control_flow.bodies import (
    check_arguments,
    instantiated,
    nonzero_mask,
    present,
    split,
    spread,
)
from gnomon.dialects.emit import add_tangents, ops
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import BODIES, Form
from gnomon.dialects.types import TensorType


def _infer(*types: TensorType, consts: int, bodies: Sequence[Body]) -> tuple[TensorType, ...]:
    op = "custom_linear_solve"
    require(len(bodies) in (2, 4), op, f"two or four bodies, got {len(bodies)}")
    names = ("solver", "linear map", "transposed solver", "transposed map")
    system = list(types[consts:])
    for name, body in zip(names, bodies, strict=False):
        check_arguments(op, name, types, body.argument_types, "constants and one side")
        require(
            body.result_types[: len(system)] == system,
            op,
            f"the {name} must return values of the types of the right-hand side",
        )
    return tuple(bodies[0].result_types)


def _evaluate(*operands: np.ndarray, consts: int, bodies: Sequence[Any]) -> Any:
    return bodies[0](*operands)


def _solve(inst: Instance, operands: Values) -> list[ir.Value]:
    return inst.op.build(operands, inst.params, [body.clone() for body in inst.bodies])


def _differentiate(
    inst: Instance, tangents: Tangents
) -> tuple[list[ir.Value], list[ir.Value | None]]:
    consts, _ = split(inst.operands, inst.params["consts"])
    d_consts, rhs = split(tangents, inst.params["consts"])
    count = len(rhs)
    outs = _solve(inst, inst.operands)
    solution = outs[:count]
    if any(t is not None for t in d_consts):
        # Linearized, so that reverse mode can separate the tangent of the map from its value.
        parts = inst.engine.linearize(inst.bodies[1], [*nonzero_mask(d_consts), *[False] * count])
        residuals = parts.forward.inline([*consts, *solution])[len(parts.out_nonzero) :]
        change = spread(parts.linear.inline([*residuals, *present(d_consts)]), parts.out_nonzero)
        rhs = [
            add_tangents(db, None if da is None else ops.neg(da))
            for db, da in zip(rhs, change[:count], strict=True)
        ]
    nothing: list[ir.Value | None] = [None] * len(outs)
    if all(t is None for t in rhs):
        return outs, nothing
    types = inst.operand_types[len(consts) :]
    found = _solve(inst, [*consts, *instantiated(rhs, types, [True] * count)])
    return outs, [*found[:count], *nothing[count:]]


def _transpose(
    inst: Instance, cotangents: Tangents, linear: Sequence[bool]
) -> list[ir.Value | None]:
    consts = inst.params["consts"]
    if len(inst.bodies) < 4:
        raise TypeError(
            "reverse-mode differentiation of custom_linear_solve needs transpose_solve, or "
            "symmetric=True"
        )
    types = inst.operand_types[consts:]
    given = instantiated(cotangents[: len(types)], types, [True] * len(types))
    solve, matvec, transposed, vecmat = inst.bodies
    bodies = [body.clone() for body in (transposed, vecmat, solve, matvec)]
    found = inst.op.build([*inst.operands[:consts], *given], inst.params, bodies)
    return [*[None] * consts, *found[: len(types)]]


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    consts = inst.params["consts"]
    mapped = [d is not None for d in dims[:consts]] + [True] * (len(dims) - consts)
    fixed = to_front(operands[:consts], dims[:consts], axis, only_batched=True)
    sides = to_front(operands[consts:], dims[consts:], axis)
    bodies = [inst.engine.batch(body, mapped, axis, True)[0] for body in inst.bodies]
    results = inst.op.build([*fixed, *sides], inst.params, bodies)
    return results, [0] * len(results)


# A diagonal system.
_EXAMPLE = """\
%x = "gnomon.custom_linear_solve"(%diagonal, %b) ({
  "gnomon.branch"() ({
  ^bb0(%d: tensor<3xf32>, %rhs: tensor<3xf32>):
    %solution = "gnomon.div"(%rhs, %d) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    "gnomon.yield"(%solution) : (tensor<3xf32>) -> ()
  }) : () -> ()
  "gnomon.branch"() ({
  ^bb0(%d: tensor<3xf32>, %a: tensor<3xf32>):
    %image = "gnomon.mul"(%d, %a) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    "gnomon.yield"(%image) : (tensor<3xf32>) -> ()
  }) : () -> ()
}) {consts = 1 : i64} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>"""


custom_linear_solve = Op(
    name="custom_linear_solve",
    doc="the solution of a linear system by a solver (the first body), differentiated implicitly "
    "through the linear map (the second body)",
    example=_EXAMPLE,
    attributes={"consts": INT},
    results=None,
    regions=...,
    form=Form.CONTROL,
    work=work_rules.nothing,
    infer=_infer,
    evaluate=_evaluate,
    jvp=_differentiate,
    linearize=_differentiate,
    linear=BODIES,
    transpose=_transpose,
    batch=_batch,
    sharding=sharding_rules.undetermined,
    lower=EXPANDED,
    inline=lambda inst: inst.bodies[0].inline(inst.operands),
)

__all__ = ["custom_linear_solve"]
