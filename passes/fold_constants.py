"""``fold-constants``: evaluate expressions whose operands are small literals.

Derivatives contain many such expressions: the transpose of a mean divides the cotangent 1 by the
number of elements, and the transpose of a broadcast sums equal elements. A compiler would make a
kernel of each, which takes as long to compile as any other kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gnomon.dialects.body import PLAIN, Body, erase, operands_of, results_of
from gnomon.dialects.contract import REGISTRY, Op, bodies_of, params_of
from gnomon.dialects.control_flow.bodies import split
from gnomon.dialects.emit import constant, full
from gnomon.dialects.functions import Program, symbol_name
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic.dimension import any_symbolic
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType, type_of

# The maximum number of elements of a small literal.
_SMALL = 4
# The maximum number of elements of a splat whose reduction is evaluated.
_EVALUATED = 1 << 20
# Views of large splats that are replaced by literals.
_VIEWS = ("gnomon.rev", "gnomon.slice", "gnomon.transpose")


def fold_constants(program: Program) -> None:
    """Fold the small constants of a program in place."""
    for function in program.functions:
        _fold(program.body(symbol_name(function)))


# A forward reference, because an import must not load the deferred MLIR bindings.
_Values = dict["ir.Value", np.ndarray]


def _fold(body: Body, small: _Values | None = None, splats: _Values | None = None) -> None:
    """Fold the constants of a body.

    Args:
      body: the body.
      small: the values of the small arguments that are constant.
      splats: the elements of the larger arguments that are constant splats.
    """
    small, splats = small or {}, splats or {}
    for op in body.operations:
        name = op.name
        definition = REGISTRY.get(name)
        if definition is None:
            continue
        if name not in PLAIN:
            for inner, sources in _sources(op) if definition.is_control_flow else ():
                _fold(inner, *_of_arguments(inner, sources, small, splats))
            continue
        if name == "gnomon.constant":
            (result,) = op.results
            if not _is_large(type_of(result)):
                small[result] = definition.evaluate(**params_of(op, definition))  # type: ignore[operator]
            elif (element := element_of_splat(op, definition)) is not None:
                splats[result] = element
            continue
        results = results_of(op)
        if len(results) != 1:
            continue
        if name == "gnomon.select" and (chosen := _chosen(op, small, splats)) is not None:
            results[0].replace_all_uses_with(chosen)
            erase(op)
            continue
        value = _value_of(op, definition, small, splats)
        if value is None:
            continue
        type_ = type_of(results[0])
        large = _is_large(type_)
        if large and name not in _VIEWS:
            splats[results[0]] = value
            continue
        with ir.InsertionPoint(op), op.location:
            # IREE 3.13 rejects updates of a splat reversed with a stride, as in ``zeros(8)[::-2]``.
            folded = full(type_, value) if large else constant(value)
        (splats if large else small)[folded] = value
        results[0].replace_all_uses_with(folded)
        erase(op)


def element_of_splat(op: ir.Operation, definition: Op) -> np.ndarray | None:
    """The element of a constant all of whose elements are equal; otherwise None."""
    value = op.attributes["value"]
    if not isinstance(value, ir.DenseElementsAttr) or not value.is_splat:
        return None
    array: np.ndarray = definition.evaluate(**params_of(op, definition))  # type: ignore[operator]
    return array[(0,) * array.ndim].reshape(()) if array.size else None


def _is_large(type_: TensorType, limit: int = _SMALL) -> bool:
    """Whether a type has more elements than a limit; one with symbolic dimensions may have."""
    return any_symbolic(type_.shape) or type_.size > limit


def _sources(op: ir.Operation) -> list[tuple[Body, Sequence[ir.Value | None]]]:
    """Each body of a control-flow op, with the operand that each of its arguments comes from.

    An argument that iterates over a scanned operand comes from that operand. A carry comes from its
    initial value if the body returns it unchanged; otherwise it has no source.
    """
    operands, bodies = operands_of(op), bodies_of(op)
    if op.name == "gnomon.switch":
        return [(body, operands[1:]) for body in bodies]
    if op.name == "gnomon.scan":
        params = params_of(op)
        consts, carry, xs = split(operands, params["consts"], params["carry"])
        (body,) = bodies
        return [(body, [*consts, *_unchanged(body, len(consts), carry), *xs])]
    if op.name == "gnomon.while":
        params = params_of(op)
        for_cond, for_body, carry = split(operands, params["cond_consts"], params["body_consts"])
        cond, body = bodies
        carried = _unchanged(body, len(for_body), carry)
        return [(cond, [*for_cond, *carried]), (body, [*for_body, *carried])]
    return [(body, [None] * len(body.arguments)) for body in bodies]


def _unchanged(body: Body, consts: int, carry: Sequence[ir.Value]) -> list[ir.Value | None]:
    """The initial values of the carries that a loop's body returns unchanged; None for others."""
    entering = body.arguments[consts : consts + len(carry)]
    return [
        initial if result == argument else None
        for initial, argument, result in zip(carry, entering, body.results, strict=False)
    ]


def _of_arguments(
    body: Body,
    sources: Sequence[ir.Value | None],
    small: Mapping[ir.Value, np.ndarray],
    splats: Mapping[ir.Value, np.ndarray],
) -> tuple[_Values, _Values]:
    """The values of a body's small constant arguments, and the elements of its splats."""
    small_inside: _Values = {}
    splats_inside: _Values = {}
    for argument, source in zip(body.arguments, sources, strict=True):
        if source is None or (source not in small and source not in splats):
            continue
        type_ = type_of(argument)
        if type_ == type_of(source):
            inside, values = (splats_inside, splats) if source in splats else (small_inside, small)
            inside[argument] = values[source]
        elif (number := _number(source, small, splats)) is not None:
            # Each slice of a scanned splat is a splat.
            if _is_large(type_):
                splats_inside[argument] = number
            else:
                small_inside[argument] = np.broadcast_to(number, type_.shape)
    return small_inside, splats_inside


def _chosen(
    op: ir.Operation,
    small: Mapping[ir.Value, np.ndarray],
    splats: Mapping[ir.Value, np.ndarray],
) -> ir.Value | None:
    """The operand from which a select takes all elements; None if that is not known."""
    predicate, on_true, on_false = operands_of(op)
    values = splats.get(predicate, small.get(predicate))
    if values is None or not values.size or values.any() != values.all():
        return None
    return on_true if values.all() else on_false


def _value_of(
    op: ir.Operation,
    definition: Op,
    small: Mapping[ir.Value, np.ndarray],
    splats: Mapping[ir.Value, np.ndarray],
) -> np.ndarray | None:
    """The value of an op, or the element of a large splat; None if it is not known."""
    operands = operands_of(op)
    type_ = type_of(results_of(op)[0])
    if op.name == "gnomon.iota" and type_.shape[params_of(op, definition)["dimension"]] == 1:
        return np.zeros(() if _is_large(type_) else type_.shape, type_.dtype)
    if not operands or any(x not in small and x not in splats for x in operands):
        return None
    if definition.form is Form.REDUCTION:
        shape = type_of(operands[0]).shape
        if _is_large(type_) or _is_large(type_of(operands[0]), _EVALUATED):
            return None
        # Reductions have one operand.
        number = _number(operands[0], small, splats)
        values = [small[operands[0]] if number is None else np.broadcast_to(number, shape)]
    elif definition.form is Form.VIEW:
        number = _number(operands[0], small, splats)
        if number is not None:
            return number if _is_large(type_) else np.broadcast_to(number, type_.shape)
        if _is_large(type_):
            return None
        values = [small[x] for x in operands]
    elif definition.form is not Form.ELEMENTWISE:
        return None
    elif _is_large(type_):
        numbers = [_number(x, small, splats) for x in operands]
        values = [n for n in numbers if n is not None]
        if len(values) < len(numbers):
            return None
    else:
        values = [small[x] for x in operands]
    with np.errstate(all="ignore"):
        value = definition.evaluate(*values, **params_of(op, definition))  # type: ignore[operator]
    return np.asarray(value, type_.dtype)


def _number(
    value: ir.Value, small: Mapping[ir.Value, np.ndarray], splats: Mapping[ir.Value, np.ndarray]
) -> np.ndarray | None:
    """The element of a splat or of a one-element value, as a rank-0 array; otherwise None."""
    if value in splats:
        return splats[value]
    return small[value].reshape(()) if small[value].size == 1 else None


__all__ = ["element_of_splat", "fold_constants"]
