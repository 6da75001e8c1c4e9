"""The dynamic forms of StableHLO ops: those of programs with symbolic dimensions.

The result type of most ops follows from their operands, so these ops are the same for all sizes.
Only ops that name a size, in their result type or in an attribute, need a form that takes the size
as an operand: ``dynamic_reshape`` instead of ``reshape``. `sized_form` chooses between the two for
every op that a lowering rule creates.

While a function is lowered, `SizeValues` computes sizes from the dimensions of its arguments. They
are computed in i64, because products of sizes may overflow i32.
"""

from __future__ import annotations

import contextvars
import copy
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from gnomon.dialects.attributes import DENSE, INT, INTS
from gnomon.dialects.errors import NoDynamicForm
from gnomon.dialects.mlir import ir
from gnomon.dialects.symbolic import polynomials as poly
from gnomon.dialects.symbolic.dimension import Dimension, any_symbolic
from gnomon.dialects.symbolic.encoding import is_symbolic_attribute
from gnomon.dialects.symbolic.solving import Step, steps_for
from gnomon.dialects.types import TensorType, mlir_type, type_of

__all__ = [
    "SizeValues",
    "compare",
    "create",
    "current_sizes",
    "has_sizes",
    "lowering_with",
    "require_numbers",
    "sized_form",
]

_SIZE = TensorType((), np.dtype(np.int64))
_MEASURED = TensorType((), np.dtype(np.int32))

Attributes: TypeAlias = "Mapping[str, ir.Attribute]"


def create(
    name: str, operands: Sequence[ir.Value], types: Sequence[TensorType], attributes: Attributes
) -> list[ir.Value]:
    """Create a StableHLO op at the current insertion point; return its results."""
    created = ir.Operation.create(
        f"stablehlo.{name}",
        results=[mlir_type(t) for t in types],
        operands=list(operands),
        attributes=dict(attributes),
    )
    return list(created.results)


def _constant(values: Any) -> ir.Value:
    array = np.asarray(values, np.int64)
    type_ = TensorType(array.shape, array.dtype)
    return create("constant", [], [type_], {"value": DENSE.encode(array)})[0]


def _binary(name: str, x: ir.Value, y: ir.Value) -> ir.Value:
    return create(name, [x, y], [_SIZE], {})[0]


def compare(direction: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """``stablehlo.compare`` of two signed integers."""
    attributes = {
        "comparison_direction": _parsed(f"#stablehlo<comparison_direction {direction}>"),
        "compare_type": _parsed("#stablehlo<comparison_type SIGNED>"),
    }
    return create("compare", [x, y], [_SIZE.with_dtype(np.dtype(np.bool_))], attributes)[0]


@functools.cache
def _parsed(text: str) -> ir.Attribute:
    return ir.Attribute.parse(text)


class SizeValues:
    """Computes sizes from the dimensions of a function's arguments.

    Args:
      arguments: the function's arguments.
    """

    def __init__(self, arguments: Sequence[ir.Value]) -> None:
        self._arguments = list(arguments)
        shapes: list[tuple[Any, ...]] = [type_of(x).shape for x in arguments]
        steps, _ = steps_for(shapes)
        self.steps: dict[str, Step] = {step.variable: step for step in steps}
        # A dimension of an argument is read, and not computed from its variables.
        self._read: dict[poly.Polynomial, tuple[int, int]] = {}
        for i, shape in enumerate(shapes):
            for axis, size in enumerate(shape):
                if isinstance(size, Dimension):
                    self._read.setdefault(size.polynomial, (i, axis))

    def of_variables(self) -> SizeValues:
        """Sizes computed from the variables even where an argument has the dimension."""
        found = copy.copy(self)
        found._read = {}
        return found

    def measured(self, argument: int, axis: int) -> ir.Value:
        """The size of a dimension of an argument."""
        attributes = {"dimension": INT.encode(axis)}
        (size,) = create("get_dimension_size", [self._arguments[argument]], [_MEASURED], attributes)
        return create("convert", [size], [_SIZE], {})[0]

    def scalar(self, size: Any) -> ir.Value:
        """A size as a rank-0 i64."""
        if not isinstance(size, Dimension):
            return _constant(operator.index(size))
        return self.polynomial(size.polynomial, size)

    def vector(self, sizes: Sequence[Any], dtype: Any = np.int64) -> ir.Value:
        """Sizes as a rank-1 array."""
        target = TensorType((len(sizes),), np.dtype(dtype))
        if not any_symbolic(sizes):
            array = np.asarray(sizes, target.dtype)
            return create("constant", [], [target], {"value": DENSE.encode(array)})[0]
        one = _SIZE.with_shape((1,))
        parts = [create("reshape", [self.scalar(n)], [one], {})[0] for n in sizes]
        found = parts[0]
        if len(parts) > 1:
            whole = one.with_shape((len(parts),))
            (found,) = create("concatenate", parts, [whole], {"dimension": INT.encode(0)})
        if target.dtype != _SIZE.dtype:
            (found,) = create("convert", [found], [target], {})
        return found

    def variable(self, name: str, user: Any) -> ir.Value:
        """The value of a variable.

        Raises:
          NoDynamicForm: no dimension of the function's arguments determines it.
        """
        step = self.steps.get(name)
        if step is None:
            raise NoDynamicForm(
                f"the size {user} does not follow from the dimensions of the function's arguments"
            )
        size = self.measured(step.argument, step.axis)
        if step.rest:
            size = _binary("subtract", size, self.polynomial(step.rest, user))
        if step.factor != 1:
            size = _binary("divide", size, _constant(step.factor))
        return size

    def polynomial(self, size: poly.Polynomial, user: Any) -> ir.Value:
        """The value of a polynomial; ``user`` is the dimension that it belongs to."""
        value = poly.constant_value(size)
        if value is not None:
            return _constant(value)
        if size in self._read:
            return self.measured(*self._read[size])
        total: ir.Value | None = None
        for monomial, coefficient in size:
            term: ir.Value | None = None
            for which, power in monomial:
                factor = self._atom(which, user)
                for _ in range(power):
                    term = factor if term is None else _binary("multiply", term, factor)
            if term is None or coefficient != 1:
                number = _constant(coefficient)
                term = number if term is None else _binary("multiply", term, number)
            total = term if total is None else _binary("add", total, term)
        assert total is not None
        return total

    def _atom(self, which: poly.Atom, user: Any) -> ir.Value:
        itself = poly.atom(which)
        if itself in self._read:
            return self.measured(*self._read[itself])
        if isinstance(which, str):
            return self.variable(which, user)
        x, y = (self.polynomial(argument, user) for argument in which.arguments)
        if which.kind in ("max", "min"):
            return _binary({"max": "maximum", "min": "minimum"}[which.kind], x, y)
        if isinstance(user, Dimension):
            bounds = user.scope.bounds
            if bounds(which.arguments[0])[0] >= 0 and bounds(which.arguments[1])[0] > 0:
                return _binary("divide" if which.kind == "floordiv" else "remainder", x, y)
        return _floor(which.kind, x, y)


def _floor(kind: str, x: ir.Value, y: ir.Value) -> ir.Value:
    """Python's ``//`` or ``%`` of two integers, from the truncated division."""
    rest = _binary("remainder", _binary("add", _binary("remainder", x, y), y), y)
    return rest if kind == "mod" else _binary("divide", _binary("subtract", x, rest), y)


# ------------------------------------------------------------------------- the function's sizes

_current: contextvars.ContextVar[SizeValues | None] = contextvars.ContextVar("sizes", default=None)


@contextmanager
def lowering_with(sizes: SizeValues) -> Iterator[None]:
    """Within the block, lowering rules compute sizes with ``sizes``."""
    token = _current.set(sizes)
    try:
        yield
    finally:
        _current.reset(token)


def has_sizes() -> bool:
    """Whether the function that is being lowered has symbolic dimensions."""
    return _current.get() is not None


def current_sizes() -> SizeValues:
    """The sizes of the function that is being lowered.

    Raises:
      NoDynamicForm: no function is being lowered.
    """
    found = _current.get()
    if found is None:
        raise NoDynamicForm("symbolic dimensions occur outside of a function that is lowered")
    return found


# ------------------------------------------------------------------------------- dynamic forms


def _shaped(name: str) -> Callable[..., list[ir.Value]]:
    """An op that takes the shape of its result as its last operand."""

    def form(
        operands: Sequence[ir.Value], types: Sequence[TensorType], attributes: Attributes
    ) -> list[ir.Value]:
        shape = current_sizes().vector(types[0].shape)
        return create(name, [*operands, shape], types, attributes)

    return form


def _slice(
    operands: Sequence[ir.Value], types: Sequence[TensorType], attributes: Attributes
) -> list[ir.Value]:
    names = ("start_indices", "limit_indices", "strides")
    given = [current_sizes().vector(INTS.decode(attributes[name])) for name in names]
    return create("real_dynamic_slice", [*operands, *given], types, {})


def _pad(
    operands: Sequence[ir.Value], types: Sequence[TensorType], attributes: Attributes
) -> list[ir.Value]:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    if not any(is_symbolic_attribute(attributes[name]) for name in names):
        return create("pad", operands, types, attributes)
    given = [current_sizes().vector(INTS.decode(attributes[name])) for name in names]
    return create("dynamic_pad", [*operands, *given], types, {})


def _dynamic_slice(
    operands: Sequence[ir.Value], types: Sequence[TensorType], attributes: Attributes
) -> list[ir.Value]:
    """A slice from starts that are clamped as ``stablehlo.dynamic_slice`` clamps them."""
    if not is_symbolic_attribute(attributes["slice_sizes"]):
        return create("dynamic_slice", operands, types, attributes)
    (x, *indices), lengths = operands, INTS.decode(attributes["slice_sizes"])
    sizes, rank = current_sizes(), len(lengths)
    one, row = _SIZE.with_shape((1,)), _SIZE.with_shape((rank,))
    parts = []
    for index in indices:
        (wide,) = create("convert", [index], [_SIZE], {})
        parts += create("reshape", [wide], [one], {})
    (starts,) = create("concatenate", parts, [row], {"dimension": INT.encode(0)})
    room = sizes.vector([n - m for n, m in zip(type_of(x).shape, lengths, strict=True)])
    (starts,) = create("maximum", [starts, _constant([0] * rank)], [row], {})
    (starts,) = create("minimum", [starts, room], [row], {})
    (limits,) = create("add", [starts, sizes.vector(lengths)], [row], {})
    return create("real_dynamic_slice", [x, starts, limits, _constant([1] * rank)], types, {})


def _gather(
    operands: Sequence[ir.Value], types: Sequence[TensorType], attributes: Attributes
) -> list[ir.Value]:
    given = dict(attributes)
    if not is_symbolic_attribute(given["slice_sizes"]):
        return create("gather", operands, types, given)
    lengths = current_sizes().vector(INTS.decode(given.pop("slice_sizes")))
    return create("dynamic_gather", [*operands, lengths], types, given)


_FORMS: dict[str, Callable[..., list[ir.Value]]] = {
    "broadcast_in_dim": _shaped("dynamic_broadcast_in_dim"),
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "iota": _shaped("dynamic_iota"),
    "pad": _pad,
    "reshape": _shaped("dynamic_reshape"),
    "slice": _slice,
}


def require_numbers(name: str, attributes: Attributes) -> None:
    """Require that no attribute of a StableHLO op, which has no dynamic form, is a symbolic size.

    Raises:
      NoDynamicForm: one is.
    """
    if any(map(is_symbolic_attribute, attributes.values())):
        raise NoDynamicForm(f"StableHLO has no form of {name} with sizes that are operands")


def sized_form(
    name: str, operands: Sequence[ir.Value], types: Sequence[TensorType], attributes: Attributes
) -> list[ir.Value]:
    """Create a StableHLO op, in its dynamic form if it names a symbolic size.

    Raises:
      NoDynamicForm: it names a symbolic size, and StableHLO has no dynamic form of it.
    """
    named = any(map(is_symbolic_attribute, attributes.values()))
    form = _FORMS.get(name)
    if form is not None and (named or any(any_symbolic(t.shape) for t in types)):
        return form(operands, types, attributes)
    require_numbers(name, attributes)
    if name == "constant" and any(any_symbolic(t.shape) for t in types):
        raise NoDynamicForm("StableHLO has no form of constant with sizes that are operands")
    return create(name, operands, types, attributes)
