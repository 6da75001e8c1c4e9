"""Parts of ``custom_jvp`` and ``custom_vjp``: failures of rules, and checks of operands.

The function and its rules are the closed bodies of one op, so a program is complete without the
Python code from which it was traced. The op is defined by its first body, which replaces it after
differentiation. The rules are not traced if nothing differentiates the op; it then has one body.

The first ``consts`` operands are the values that the bodies close over. A rule does not give the
derivative with respect to these, so it is an error if one that the function reads has a tangent. A
value that only the rules read does not affect the first derivative; for higher derivatives, the
expanded rules are differentiated with respect to it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NoReturn

from gnomon.dialects.body import Body
from gnomon.dialects.combinators import Tangents, Values, require
from gnomon.dialects.contract import Instance
from gnomon.dialects.control_flow.bodies import check_arguments, in_front, instantiated
from gnomon.dialects.errors import UnexpectedTracerError
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, is_inexact

# The errors that rules raised while they were traced, by their text, which is an attribute of the
# op. A rule that failed matters only if it is used; then the user's original exception is raised.
_failures: OrderedDict[str, Exception] = OrderedDict()
_MAX_FAILURES = 256


def remember_failure(error: Exception) -> str:
    """Keep the error of a rule until the rule is used; return the text that identifies it."""
    text = f"{type(error).__name__}: {error}"
    _failures[text] = error
    while len(_failures) > _MAX_FAILURES:
        _failures.popitem(last=False)
    return text


def raise_failure(inst: Instance) -> None:
    """Raise the error that an op's rule raised while it was traced, if any."""
    failure, name = inst.params["failure"], inst.params["name"]
    if failure in _failures:
        raise _failures[failure]
    if failure:
        raise TypeError(f"the derivative rule of {name} raised {failure}")


def raise_no_rule(inst: Instance) -> NoReturn:
    """Raise the error for an op that is differentiated although it has no rule."""
    raise_failure(inst)
    name = inst.params["name"]
    raise TypeError(
        f"{inst.op.full_name}: the rule of {name} is not in the program, since nothing "
        "differentiated it when it was traced"
    )


def check_closed_over(inst: Instance, tangents: Tangents) -> None:
    """Raise an error if the function closes over a value that has a tangent.

    Values that only the rules close over are allowed: the result does not depend on them.
    """
    closed_over = inst.bodies[0].arguments[: inst.params["consts"]]
    for argument, tangent in zip(closed_over, tangents, strict=False):
        if tangent is not None and next(iter(argument.uses), None) is not None:
            raise closed_over_error(inst.op.name, inst.params["name"])


_ADVICE = {
    "custom_jvp": "handle its tangent in the rule",
    "custom_vjp": "return its cotangent from the backward rule",
}


def closed_over_error(kind: str, name: str) -> UnexpectedTracerError:
    """The error for a tangent of a value that a function with custom rules closes over."""
    return UnexpectedTracerError(
        f"differentiation of the {kind} function {name} with respect to a value that it closes "
        "over: its rule gives only the derivative with respect to its arguments. Pass the value as "
        f"an argument, and {_ADVICE[kind]}."
    )


def is_constant(inst: Instance, tangents: Tangents) -> bool:
    """Whether all results have zero tangents: no argument has one, or no result is inexact.

    Raises:
      UnexpectedTracerError: a value that the function closes over has a tangent.
    """
    check_closed_over(inst, tangents)
    arguments = tangents[inst.params["consts"] :]
    return all(t is None for t in arguments) or not inexact_types(inst.result_types)


def without_tangents(inst: Instance) -> tuple[list[ir.Value], list[ir.Value | None]]:
    """The op itself, with zero tangents for all results."""
    outs = inst.op.build(inst.operands, inst.params, [body.clone() for body in inst.bodies])
    return outs, [None] * len(outs)


def tangents_by_wrt(inst: Instance, tangents: Tangents) -> list[ir.Value]:
    """The tangents of the arguments ``wrt``; a symbolic zero becomes an array of zeros."""
    consts, wrt = inst.params["consts"], inst.params["wrt"]
    mask = [i - consts in wrt for i in range(len(inst.operands))]
    return instantiated(tangents, inst.operand_types, mask)


def rebuild_batched(
    inst: Instance,
    operands: Values,
    dims: Sequence[int | None],
    bodies: Sequence[Body],
    batched_results: Sequence[bool],
) -> tuple[list[ir.Value], list[int | None]]:
    """Build the op with batched bodies; return its results and their batch dimensions.

    The bodies take and return values whose batch dimension, if any, is in front.
    """
    results = inst.op.build(in_front(operands, dims), inst.params, bodies)
    return results, [0 if batched else None for batched in batched_results]


def inexact_types(types: Sequence[TensorType]) -> list[TensorType]:
    """The types that have tangents."""
    return [t for t in types if is_inexact(t.dtype)]


def check_function(
    op: str, types: Sequence[TensorType], consts: int, wrt: Sequence[int], bodies: Sequence[Body]
) -> list[TensorType]:
    """Check the function of an op, its first body; return the types of the results."""
    _check_wrt(op, consts, wrt, types)
    check_arguments(op, "function", types, bodies[0].argument_types, "its operands")
    return bodies[0].result_types


def _check_wrt(op: str, consts: int, wrt: Sequence[int], types: Sequence[TensorType]) -> None:
    """Check that ``wrt`` names arguments of inexact dtypes."""
    arguments = types[consts:]
    for i in wrt:
        require(
            0 <= i < len(arguments) and is_inexact(arguments[i].dtype),
            op,
            f"wrt contains {i}, which is not an argument of an inexact dtype; the function has "
            f"{len(arguments)} arguments",
        )
