"""Which values need a copy before something may update them in place.

With the device named, IREE 3.13 updates a carry in place wherever the body does so, and does not
see that its buffer is also that of a literal, of another carry, or of a value that is read after
the loop: such a loop gives wrong numbers. (Two stacked results of one shape, which start from one
literal zero, are enough.) A carry that the body updates must therefore own its buffer, when the
loop starts and when an iteration ends.

Nor does it see that the result of a branch is the value that the branch was given, or that of a
loop without iterations its initial value: an update of the result overwrote arguments of the
program. Such a result is copied before it is updated.

What a body computes from literals alone becomes a literal, unless it is one value everywhere: an
iteration would find there what the one before wrote. It is copied as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.dialects.mlir import ir

__all__ = [
    "shared_initial_values",
    "shared_leaving_values",
    "updates_argument",
    "updates_its_origin",
    "updates_shared_value",
]

_WHILE, _CASE = "stablehlo.while", "stablehlo.case"
_CONSTANT = "stablehlo.constant"
_WRITES = frozenset({"stablehlo.dynamic_update_slice", "stablehlo.scatter"})
_UPDATES = _WRITES | {_WHILE, _CASE}
# Ops whose result may be a view of their first operand's buffer.
_VIEWS = frozenset(
    f"stablehlo.{name}"
    for name in (
        "bitcast_convert",
        "broadcast_in_dim",
        "concatenate",
        "convert",
        "optimization_barrier",
        "pad",
        "real",
        "reshape",
        "slice",
        "transpose",
    )
)


def shared_initial_values(loop: ir.Operation) -> list[bool]:
    """Which carries need a copy of their initial value."""
    body = loop.regions[1].blocks[0]
    again = _again([_root(value)[0] for value in loop.operands])
    return [
        repeated or (_is_updated(argument) and not _is_owned(value, loop))
        for argument, value, repeated in zip(body.arguments, loop.operands, again, strict=True)
    ]


def shared_leaving_values(loop: ir.Operation) -> list[bool]:
    """Which carries need a copy of the value that they leave the body with."""
    body = loop.regions[1].blocks[0]
    terminator = body.operations[len(body.operations) - 1].operation
    roots = [_root(value)[0] for value in terminator.operands]
    arguments = list(body.arguments)
    return [
        repeated or (_is_updated(argument) and not (root in arguments or _is_made(root, body)))
        for argument, root, repeated in zip(arguments, roots, _again(roots), strict=True)
    ]


def _again(roots: Sequence[ir.Value]) -> list[bool]:
    """Which values were there before: two carries must not start from one buffer."""
    return [root in roots[:i] for i, root in enumerate(roots)]


def _root(value: ir.Value) -> tuple[ir.Value, bool]:
    """What a value may be a view of, and whether nothing else uses the values on the way."""
    alone = True
    while True:
        alone = alone and len(list(value.uses)) == 1
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name not in _VIEWS:
            return value, alone
        operands = list(owner.operands)
        # A barrier has a result for each operand.
        value = (
            operands[list(owner.results).index(value)]
            if len(operands) > 1 and len(owner.results) > 1
            else operands[0]
        )


def _is_updated(argument: ir.Value) -> bool:
    """Whether a body may update an argument, or a view of it, in place."""
    for use in argument.uses:
        user = use.owner
        if user.name in _UPDATES or _is_captured(argument, user):
            return True
        if user.name in _VIEWS and any(_is_updated(result) for result in user.results):
            return True
    return False


def _is_captured(value: ir.Value, user: ir.Operation) -> bool:
    """Whether an op inside of a region uses a value of the block around it."""
    owner = value.owner
    block = owner if isinstance(owner, ir.Block) else owner.operation.block
    return user.operation.block != block


def _is_owned(value: ir.Value, loop: ir.Operation) -> bool:
    """Whether an initial value's buffer is the loop's alone."""
    root, alone = _root(value)
    if not alone:
        return False
    owner = root.owner
    block = loop.block
    if isinstance(owner, ir.Block):
        # A carry of the loop around this one, which owns it: this loop is "updated" by that.
        return owner == block and block.owner.name == _WHILE
    return _is_made(root, block)


def _is_made(value: ir.Value, block: ir.Block) -> bool:
    """Whether an op of a block writes a value into a buffer of its own."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.block != block:
        return False
    if owner.name == _WHILE:
        body = owner.operation.regions[1].blocks[0]
        return _is_updated(body.arguments[list(owner.results).index(value)])
    return owner.name not in (_CASE, _CONSTANT) and not _is_literal(value)


def _is_literal(value: ir.Value) -> bool:
    """Whether a value is computed from literals alone."""
    pending, seen = [value], {value}
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, ir.Block) or len(owner.operation.regions):
            return False
        for operand in owner.operands:
            if operand not in seen:
                seen.add(operand)
                pending.append(operand)
    return True


def _is_fill(value: ir.Value) -> bool:
    """Whether a literal is one value everywhere: it is made anew where it is written into."""
    while value.owner.name in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
        value = value.owner.operands[0]
    if value.owner.name != _CONSTANT:
        return False
    return bool(ir.DenseElementsAttr(value.owner.attributes["value"]).is_splat)


def _is_repeated(op: ir.Operation) -> bool:
    """Whether an op stands in the body of a loop."""
    parent = op.operation.parent
    while parent is not None and parent.name != _WHILE:
        parent = parent.operation.parent
    return parent is not None


def updates_shared_value(op: ir.Operation) -> bool:
    """Whether an op writes into a value that others may have too.

    That is the result of a loop or branch, or in the body of a loop a literal.
    """
    if op.name not in _WRITES:
        return False
    operand = op.operands[0]
    if _is_repeated(op) and _is_literal(operand) and not _is_fill(operand):
        return True
    root, _ = _root(operand)
    owner = root.owner
    if isinstance(owner, ir.Block) or owner.name not in (_WHILE, _CASE):
        return False
    return not _is_made(root, owner.operation.block)


def updates_argument(op: ir.Operation) -> bool:
    """Whether an op writes into an argument of the function that it stands in, or a view of one.

    The compiler does that in place if nothing else reads the argument, though others may have it.
    """
    if op.name not in _WRITES:
        return False
    value = op.operands[0]
    while not isinstance(value.owner, ir.Block):
        owner = value.owner
        if owner.name not in _VIEWS or _grows(owner):
            return False
        value = owner.operands[list(owner.results).index(value)]
    return bool(value.owner.owner.operation.name == "func.func")


def _grows(op: ir.Operation) -> bool:
    """Whether an op that may give a view puts elements beside those of its operand instead."""
    return (
        op.name in ("stablehlo.concatenate", "stablehlo.pad")
        and op.results[0].type != op.operands[0].type
    )


def updates_its_origin(update: ir.Value) -> bool:
    """Whether a value is written into something that it is made from, or shares an origin with.

    Looked at are the ops of the block; literals do not count.
    """
    return any(
        use.owner.name == "stablehlo.dynamic_update_slice"
        and use.operand_number == 1
        and not _origins(update).isdisjoint(_origins(use.owner.operands[0]))
        for use in update.uses
    )


def _origins(start: ir.Value) -> set[ir.Value]:
    found: set[ir.Value] = set()
    pending = [start]
    while pending:
        value = pending.pop()
        owner = value.owner
        if value in found or (not isinstance(owner, ir.Block) and owner.name == _CONSTANT):
            continue
        found.add(value)
        if not isinstance(owner, ir.Block):
            pending.extend(owner.operands)
            if len(owner.operation.regions):
                pending.extend(_captured(owner.operation))
    return found


def _captured(op: ir.Operation) -> list[ir.Value]:
    values: list[ir.Value] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        values.extend(inner.operands)
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    return values
