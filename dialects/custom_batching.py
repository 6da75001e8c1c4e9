"""``gnomon.custom_vmap``: a function with a custom batching rule.

The op is defined by its body. Its rule is Python code, to which the program refers by the number of
a `Callback`. The rule cannot be traced earlier, because it depends on the size of the mapped axis
and on which arguments are mapped, which only the transformation knows. A rule takes the size and
the mask of the mapped arguments. It returns a function in a separate program, which takes mapped
arguments with the mapped axis leading, and the mask of the mapped results.

Forward mode turns the op into a custom_vmap of primals and tangents, whose batching rule is the jvp
of the original rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import INT, STRING
from gnomon.dialects.body import Body
from gnomon.dialects.callbacks import Callback, callback_of
from gnomon.dialects.combinators import Tangents, Values, require
from gnomon.dialects.contract import EXPANDED, Instance, MappedAxis, Op
from gnomon.dialects.control_flow.bodies import (
    check_arguments,
    chosen,
    either,
    evaluate_body,
    in_front,
    inline_body,
    nonzero_mask,
    present,
    split,
    spread,
    transpose_body,
)
from gnomon.dialects.emit import broadcast_new_dim
from gnomon.dialects.functions import Program, call, emit_call
from gnomon.dialects.mlir import ir
from gnomon.dialects.traits import BODIES, Form
from gnomon.dialects.types import TensorType

# Takes the size of the mapped axis and the mask of mapped arguments; returns a program, the name of
# a function in it, and the mask of mapped results.
BatchingRule = Callable[[int, Sequence[bool]], tuple[Program, str, list[bool]]]


def _infer(
    *types: TensorType, consts: int, rule: int, name: str, bodies: Sequence[Body]
) -> tuple[TensorType, ...]:
    require(
        0 <= consts <= len(types),
        "custom_vmap",
        f"consts is {consts}, but the op has {len(types)} operands",
    )
    check_arguments("custom_vmap", "function", types, bodies[0].argument_types, "its operands")
    return tuple(bodies[0].result_types)


def _batch(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int | None]]:
    consts, name = inst.params["consts"], inst.params["name"]
    mapped = [d is not None for d in dims]
    front = in_front(operands, dims)
    if axis.of_devices:
        # Each device runs the function itself; the rule is for `vmap`.
        body, out = inst.engine.batch(inst.bodies[0], mapped, axis)
        return body.inline(front), [0 if m else None for m in out]
    if any(mapped[:consts]):
        raise TypeError(
            f"vmap of the custom_vmap function {name} over a value that it closes over: its rule "
            "takes only arguments. Pass the value as an argument"
        )
    if not any(mapped):
        # No operand is mapped: the op is batched because a collective in its body names the axis.
        body, out = inst.engine.batch(inst.bodies[0], mapped, axis)
        results = inst.op.build(front, inst.params, [body])
    else:
        program, function, out = callback_of(inst.params["rule"]).function(
            axis.size, mapped[consts:]
        )
        own = inst.engine.program
        imported = own.import_function(program, function, {})
        results = emit_call(own, call, imported, front[consts:])
    return results, [0 if m else None for m in out]


def _jvp(inst: Instance, tangents: Tangents) -> tuple[list[ir.Value], list[ir.Value | None]]:
    consts = inst.params["consts"]
    if any(t is not None for t in tangents[:consts]):
        raise TypeError(
            f"differentiation of the custom_vmap function {inst.params['name']} with respect to a "
            "value that it closes over: its rule takes only arguments. Pass the value as an "
            "argument"
        )
    nonzero = nonzero_mask(tangents)
    body, out_nonzero = inst.engine.jvp(inst.bodies[0], nonzero)
    rule: Any = callback_of(inst.params["rule"]).function
    derived = Callback(_jvp_of(rule, nonzero[consts:], out_nonzero, type(inst.engine)))
    inst.engine.program.callbacks.append(derived)
    values = inst.op.build(
        [*inst.operands, *present(tangents)], {**inst.params, "rule": derived.number}, [body]
    )
    outs, found = split(values, len(out_nonzero))
    return outs, spread(found, out_nonzero)


def _jvp_of(
    rule: BatchingRule,
    nonzero: Sequence[bool],
    out_nonzero: Sequence[bool],
    differentiator: Callable[[Program], Any],
) -> BatchingRule:
    """The batching rule of a function's jvp: the jvp of its batching rule.

    An argument counts as mapped if it or its tangent is mapped.
    """

    def derived(size: int, mapped: Sequence[bool]) -> tuple[Program, str, list[bool]]:
        primals, given = split(mapped, len(nonzero))
        tangents = spread(given, nonzero)
        mapped_pairs = either(primals, [bool(t) for t in tangents])
        program, function, out = rule(size, mapped_pairs)
        inner, inner_nonzero = differentiator(program).jvp(
            program.body(function), nonzero, instantiate=out_nonzero
        )
        wanted = [*mapped_pairs, *chosen(mapped_pairs, nonzero)]
        types = [
            t if has or not want else t.with_shape(t.shape[1:])
            for t, has, want in zip(inner.argument_types, mapped, wanted, strict=True)
        ]

        def emit(*arguments: ir.Value) -> list[ir.Value]:
            full = [
                broadcast_new_dim(v, size) if want and not has else v
                for v, has, want in zip(arguments, mapped, wanted, strict=True)
            ]
            outs, found = split(inner.inline(full), len(out))
            return [*outs, *chosen(spread(found, inner_nonzero), out_nonzero)]

        name = program.add(f"{function}.jvp", Body.build(types, emit))
        return program, name, [*out, *chosen(out, out_nonzero)]

    return derived


def _no_reverse_mode(inst: Instance, tangents: Tangents) -> NoReturn:
    raise ValueError(
        "custom_vmap functions have no reverse mode (grad, vjp, jacrev): the batching rule of "
        f"{inst.params['name']} does not define how cotangents flow. Wrap the function in "
        "custom_vjp, with custom_vmap inside"
    )


_EXAMPLE = """\
%y = "gnomon.custom_vmap"(%x) ({
^bb0(%a: tensor<f32>):
  %sine = "gnomon.sin"(%a) : (tensor<f32>) -> tensor<f32>
  "gnomon.yield"(%sine) : (tensor<f32>) -> ()
}) {consts = 0 : i64, rule = 0 : i64, name = "f"} : (tensor<f32>) -> tensor<f32>"""


custom_vmap = Op(
    name="custom_vmap",
    doc="a function whose batching rule is a Python function",
    example=_EXAMPLE,
    attributes={"consts": INT, "rule": INT, "name": STRING},
    results=None,
    regions=("function",),
    form=Form.CONTROL,
    work=work_rules.nothing,
    infer=_infer,
    evaluate=evaluate_body,
    jvp=_jvp,
    linearize=_no_reverse_mode,
    linear=BODIES,
    transpose=transpose_body,
    batch=_batch,
    sharding=sharding_rules.undetermined,
    lower=EXPANDED,
    inline=inline_body,
)

__all__ = ["BatchingRule", "custom_vmap"]
