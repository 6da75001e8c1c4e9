"""Rule combinators: facets that a whole family of ops shares."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import DENSE, INTS, Kind
from gnomon.dialects.contract import (
    NOT_LINEAR,
    Facet,
    Instance,
    MappedAxis,
    Op,
    Rule,
    TypeRuleError,
    Verdict,
)
from gnomon.dialects.emit import add_tangents, at_dim, move_dim, ops, zeros
from gnomon.dialects.mlir import ir
from gnomon.dialects.sized_forms import current_sizes, has_sizes, sized_form
from gnomon.dialects.symbolic.dimension import any_symbolic
from gnomon.dialects.traits import Cost, Form, Linearity
from gnomon.dialects.types import (
    FLOATING,
    TensorType,
    is_complex,
    is_integer,
    mlir_type,
    short_name,
    type_of,
)
from gnomon.dialects.window_folds import dilated
from gnomon.dialects.work_rules import WorkRule

Values: TypeAlias = "Sequence[ir.Value]"
Tangents: TypeAlias = "Sequence[ir.Value | None]"


def stablehlo(
    name: str, operands: Values, types: Sequence[TensorType], **attributes: ir.Attribute
) -> list[ir.Value]:
    """Create a StableHLO op at the current insertion point; return its results.

    In a function with symbolic dimensions, an op that names a size gets its dynamic form.
    """
    if has_sizes():
        return sized_form(name, operands, types, attributes)
    created = ir.Operation.create(
        f"stablehlo.{name}",
        results=[mlir_type(t) for t in types],
        operands=list(operands),
        attributes=attributes,
    )
    return list(created.results)


class LowerTo:
    """A lowering to one StableHLO op with the same operands and results.

    Args:
      name: the name of the StableHLO op.
      parameters: the op's parameters that become its attributes, by the attributes' names.

    Attributes:
      stablehlo: the names of the StableHLO ops, as `Op` declares them.
    """

    def __init__(self, name: str, **parameters: str) -> None:
        self.stablehlo = (name,)
        self._parameters = parameters

    def __call__(self, inst: Instance) -> list[ir.Value]:
        """The results of the StableHLO op."""
        attributes = {
            attribute: inst.op.attributes[parameter].encode(inst.params[parameter])
            for attribute, parameter in self._parameters.items()
        }
        (name,) = self.stablehlo
        return stablehlo(name, inst.operands, inst.result_types, **attributes)


def parse(text: str) -> ir.Attribute:
    """Parse a StableHLO attribute."""
    return ir.Attribute.parse(text)


def describe(types: Sequence[TensorType]) -> str:
    """Format types for an error message."""
    return ", ".join(map(str, types))


def require(condition: bool, op: str, message: str) -> None:
    """Raise a `TypeRuleError` that names ``op`` unless ``condition`` holds."""
    if not condition:
        raise TypeRuleError(f"gnomon.{op}: {message}")


def require_dtype(op: str, type_: TensorType, dtypes: Collection[np.dtype]) -> None:
    """Raise `TypeRuleError` unless the op takes this dtype."""
    if type_.dtype not in dtypes:
        accepted = ", ".join(sorted({short_name(d) for d in dtypes}))
        raise TypeRuleError(f"gnomon.{op} takes {accepted}; got {type_}")


# ---------------------------------------------------------------------------------------- batching


def batch_elementwise(
    inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
) -> tuple[list[ir.Value], list[int]]:
    """The batching rule of elementwise ops: align the batch dimensions, then apply the op."""
    at = next(d for d in dims if d is not None)
    aligned = [at_dim(x, d, axis.size, at) for x, d in zip(operands, dims, strict=True)]
    results = inst.op.build(aligned, inst.params)
    return results, [at] * len(results)


def to_front(
    operands: Values, dims: Sequence[int | None], axis: MappedAxis, only_batched: bool = False
) -> list[ir.Value]:
    """Move batch dimensions to the front; broadcast unbatched operands unless ``only_batched``."""
    return [
        x if only_batched and d is None else at_dim(x, d, axis.size, 0)
        for x, d in zip(operands, dims, strict=True)
    ]


def batch_structural(shift: Callable[[Mapping[str, Any], int], dict[str, Any]]) -> Rule:
    """The batching rule of one-operand ops that a leading batch dimension changes by a shift.

    ``shift(params, size)`` returns the parameters for an operand with a leading batch dimension.
    """

    def rule(
        inst: Instance, operands: Values, dims: Sequence[int | None], axis: MappedAxis
    ) -> tuple[list[ir.Value], list[int]]:
        (x,), (dim,) = operands, dims
        assert dim is not None
        results = inst.op.build([move_dim(x, dim, 0)], shift(inst.params, axis.size))
        return results, [0] * len(results)

    return rule


# --------------------------------------------------------------------------------- differentiation


def jvp_linear(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value]:
    """The jvp of an op that is jointly linear in all its operands: the op itself."""
    full = [
        zeros(type_) if t is None else t
        for t, type_ in zip(tangents, inst.operand_types, strict=True)
    ]
    return inst.op.build(full, inst.params)


def jvp_linear_in(*positions: int) -> Rule:
    """The jvp of an op linear in each operand of ``positions``; other tangents are zero."""

    def rule(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
        total: ir.Value | None = None
        for i in positions:
            if tangents[i] is not None:
                operands = list(inst.operands)
                operands[i] = tangents[i]
                (term,) = inst.op.build(operands, inst.params)
                total = add_tangents(total, term)
        return [total]

    return rule


Partial: TypeAlias = "Callable[..., ir.Value]"


def jvp_partials(*partials: Partial | None) -> Rule:
    """The jvp of an elementwise op: each tangent times its partial derivative, summed.

    A partial derivative is a function of ``(*operands, out)``, or ``None`` if it is zero.
    """

    def rule(inst: Instance, outs: Values, tangents: Tangents) -> list[ir.Value | None]:
        total: ir.Value | None = None
        for tangent, partial in zip(tangents, partials, strict=True):
            if tangent is not None and partial is not None:
                factor = partial(*inst.operands, outs[0])
                total = add_tangents(total, ops.mul(tangent, factor))
        return [total]

    return rule


# -------------------------------------------------------------------------------------- elementwise

ResultDtype = Callable[..., np.dtype]


def nary(
    name: str,
    arity: int,
    *,
    doc: str,
    cost: Cost,
    dtypes: Collection[np.dtype],
    evaluate: Rule,
    jvp: Facet,
    linear: Linearity | None = None,
    transpose: Facet = NOT_LINEAR,
    stablehlo: tuple[str, ...] = (),
    lower: Facet | str,
    result_dtype: ResultDtype | None = None,
    attributes: Mapping[str, Kind] | None = None,
    example: str = "",
    work: WorkRule | None = None,
) -> Op:
    """Declare an elementwise op: all operands have one type; the result has their shape.

    Args:
      name, arity, doc: the name, the number of operands, and the description.
      cost: the class of the cost of an element.
      dtypes: the operand dtypes that the op accepts.
      evaluate: the NumPy function, on arrays (and parameters).
      jvp: a rule (see `jvp_partials`, `jvp_linear`) or a verdict.
      linear, transpose: the operands in which the op is linear, and its transpose rule.
      lower: a rule, or the name of the StableHLO op.
      stablehlo: the StableHLO ops that a rule lowers to one-to-one.
      result_dtype: the result dtype from the operands' dtype and the parameters; by default the
        operands' dtype.
      work: the rule for the work, if it does not follow from the cost.
    """
    operands = {1: ("x",), 2: ("x", "y"), 3: ("x", "y", "z")}[arity]

    def infer(*types: TensorType, **params: Any) -> TensorType:
        first = types[0]
        require_dtype(name, first, dtypes)
        for other in types[1:]:
            if other != first:
                raise TypeRuleError(
                    f"gnomon.{name} takes operands of one shape and dtype, got {describe(types)}"
                )
        return first.with_dtype(result_dtype(first.dtype, **params)) if result_dtype else first

    arguments = ", ".join(f"%{o}" for o in operands)
    tensors = ", ".join(["tensor<4xf32>"] * arity)
    return Op(
        name=name,
        doc=doc,
        example=example or f'%r = "gnomon.{name}"({arguments}) : ({tensors}) -> tensor<4xf32>',
        attributes=attributes or {},
        operands=operands,
        form=Form.ELEMENTWISE,
        cost=cost,
        work=work or work_rules.BY_COST[cost],
        infer=infer,
        evaluate=evaluate,
        jvp=jvp,
        linear=linear,
        transpose=transpose,
        batch=batch_elementwise,
        sharding=sharding_rules.elementwise,
        stablehlo=stablehlo,
        lower=LowerTo(lower) if isinstance(lower, str) else lower,
    )


def unary(
    name: str, *, jvp: Partial | Verdict | None = None, rule: Rule | None = None, **facets: Any
) -> Op:
    """`nary` of one operand; ``jvp`` is a partial ``(x, out) -> d`` or a verdict, or see ``rule``.

    ``rule`` is a jvp rule for ops that are not described by a partial derivative.
    """
    chosen: Facet = rule or (jvp if isinstance(jvp, Verdict) else jvp_partials(jvp))
    return nary(name, 1, jvp=chosen, **facets)


def binary(
    name: str,
    *,
    jvp: tuple[Partial | None, Partial | None] | Verdict | None = None,
    rule: Rule | None = None,
    **facets: Any,
) -> Op:
    """`nary` of two operands; ``jvp`` is a pair of partials ``(x, y, out) -> d`` or a verdict.

    ``rule`` is a jvp rule for ops that are not described by partial derivatives.
    """
    if rule is None:
        if isinstance(jvp, Verdict):
            return nary(name, 2, jvp=jvp, **facets)
        rule = jvp_partials(*(jvp or (None, None)))
    return nary(name, 2, jvp=rule, **facets)


def require_linear_in(inst: Instance, linear: Sequence[bool], *positions: int) -> None:
    """Raise ``TypeError`` if an index, an operand that is not at ``positions``, is linear."""
    for position, is_linear in enumerate(linear):
        if is_linear and position not in positions:
            raise TypeError(f"{inst.op.full_name} is not linear in operand {position}, an index")


# ------------------------------------------------------------------------------------ shape helpers


def shape_of(x: ir.Value) -> tuple[int, ...]:
    """The shape of an SSA value."""
    return type_of(x).shape


def normalized(dims: Sequence[int], rank: int, op: str) -> tuple[int, ...]:
    """Check that ``dims``, in any order, are distinct dimensions of an operand of ``rank``."""
    require(
        all(0 <= d < rank for d in dims) and len(set(dims)) == len(dims),
        op,
        f"{tuple(dims)} must be distinct dimensions in [0, {rank})",
    )
    return tuple(dims)


# ------------------------------------------------------------------------------- StableHLO builders


def stablehlo_constant(value: np.ndarray) -> ir.Value:
    """A StableHLO literal; a complex one is built from its parts (see `emit.constant`)."""
    type_ = TensorType(value.shape, value.dtype)
    if is_complex(value.dtype):
        parts = [stablehlo_constant(value.real), stablehlo_constant(value.imag)]
        return stablehlo("complex", parts, [type_])[0]
    return stablehlo("constant", [], [type_], value=DENSE.encode(value))[0]


def stablehlo_region(
    region: ir.Region,
    types: Sequence[TensorType],
    emit: Callable[..., Sequence[ir.Value]],
) -> None:
    """Fill the region of a StableHLO op; ``emit`` maps the block arguments to the results."""
    location = ir.Location.unknown()
    block = region.blocks.append(*(mlir_type(t) for t in types), arg_locs=[location] * len(types))
    with ir.InsertionPoint(block):
        results = list(emit(*block.arguments))
        ir.Operation.create("stablehlo.return", operands=results)


def stablehlo_reduce(
    operands: Values,
    initial: Values,
    axes: Sequence[int],
    combine: Callable[..., Sequence[ir.Value]],
) -> list[ir.Value]:
    """Reduce operands of one shape jointly over ``axes``.

    ``combine`` takes the accumulated scalars, then the next ones, and returns the new ones.
    """
    types = [type_of(x) for x in operands]
    scalars = [t.with_shape(()) for t in types]
    shape = tuple(n for d, n in enumerate(types[0].shape) if d not in axes)
    created = ir.Operation.create(
        "stablehlo.reduce",
        results=[mlir_type(t.with_shape(shape)) for t in types],
        operands=[*operands, *initial],
        attributes={"dimensions": INTS.encode(sorted(axes))},
        regions=1,
    )
    stablehlo_region(created.regions[0], [*scalars, *scalars], combine)
    return list(created.results)


def stablehlo_full(type_: TensorType, value: Any) -> ir.Value:
    """A StableHLO literal that repeats one value, stored as a splat."""
    array = np.asarray(value).astype(type_.dtype)
    if any_symbolic(type_.shape):
        dims = INTS.encode(range(type_.rank - array.ndim, type_.rank))
        literal = stablehlo_constant(array)
        return stablehlo("broadcast_in_dim", [literal], [type_], broadcast_dimensions=dims)[0]
    return stablehlo_constant(np.broadcast_to(array, type_.shape))


def padded(
    x: ir.Value, value: ir.Value, low: Sequence[Any], high: Sequence[Any], dilation: Sequence[Any]
) -> ir.Value:
    """A StableHLO value that is dilated, then padded with a scalar; sizes may be symbolic."""
    type_ = type_of(x)
    shape = [
        dilated(n, apart) + before + after
        for n, apart, before, after in zip(type_.shape, dilation, low, high, strict=True)
    ]
    (result,) = stablehlo(
        "pad",
        [x, value],
        [type_.with_shape(tuple(shape))],
        edge_padding_low=INTS.encode(low),
        edge_padding_high=INTS.encode(high),
        interior_padding=INTS.encode([n - 1 for n in dilation]),
    )
    return result


def stablehlo_sizes(sizes: Sequence[Any], dtype: np.dtype) -> ir.Value:
    """Sizes as a rank-1 array: a literal, or computed if any of them is symbolic."""
    if any_symbolic(sizes):
        return current_sizes().vector(sizes, dtype)
    return stablehlo_constant(np.array(sizes, dtype))


class _Lowered:
    """Attribute access to the StableHLO forms of the registry's ops."""

    def __getattr__(self, name: str) -> Callable[..., ir.Value]:
        op: Op = getattr(ops, name)

        def emit(*operands: ir.Value, **params: Any) -> ir.Value:
            types = [type_of(x) for x in operands]
            result_types = op.infer_types(types, params)
            assert not isinstance(op.lower, Verdict)
            (result,) = op.lower(Instance(op, operands, types, result_types, params))
            return result

        setattr(self, name, emit)
        return emit

    def full_like(self, x: ir.Value, value: Any) -> ir.Value:
        """A constant of the type of ``x``."""
        return stablehlo_full(type_of(x), value)


# Composes lowering rules: ``lowered.mul(x, lowered.cos(y))`` emits StableHLO.
lowered: Any = _Lowered()


# ------------------------------------------------------------------------------- facts about dtypes

_ACCUMULATORS = {d: np.dtype(np.float32) for d in FLOATING if d.itemsize < 4}


def accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype in which sums and products are accumulated before one final rounding."""
    return _ACCUMULATORS.get(dtype, dtype)


@functools.cache
def lowest(dtype: np.dtype) -> np.ndarray:
    """The identity of max: the lowest value of the dtype, as a rank-0 array."""
    return _extreme(dtype, -1)


@functools.cache
def highest(dtype: np.dtype) -> np.ndarray:
    """The identity of min: the highest value of the dtype, as a rank-0 array."""
    return _extreme(dtype, 1)


def _extreme(dtype: np.dtype, sign: int) -> np.ndarray:
    if dtype == np.bool_:
        return np.array(sign > 0)
    if is_complex(dtype):
        return np.array(complex(sign * np.inf, sign * np.inf), dtype)
    if is_integer(dtype):
        integers = ml_dtypes.iinfo(dtype)
        return np.array(integers.max if sign > 0 else integers.min).astype(dtype)
    finite = ml_dtypes.finfo(dtype)
    with np.errstate(all="ignore"):
        infinite = np.array(sign * np.inf).astype(dtype)
    if np.isinf(infinite):
        return infinite
    return np.array(finite.max if sign > 0 else finite.min, dtype)


# ------------------------------------------------------------------------- combiners of reductions


def combiner(name: str) -> Rule:
    """The StableHLO form of an op on two scalars; the op is looked up at lowering time."""

    def combine(x: ir.Value, y: ir.Value) -> ir.Value:
        return getattr(lowered, name)(x, y)

    return combine


def larger(x: ir.Value, y: ir.Value) -> ir.Value:
    """The StableHLO form of the larger of two values; nan if one is nan.

    Complex numbers are ordered by real part, then by imaginary part.
    """
    return _beyond(x, y, "maximum", lowered.gt)


def smaller(x: ir.Value, y: ir.Value) -> ir.Value:
    """The StableHLO form of the smaller of two values; see `larger`."""
    return _beyond(x, y, "minimum", lowered.lt)


def _beyond(x: ir.Value, y: ir.Value, native: str, is_beyond: Rule) -> ir.Value:
    type_ = type_of(x)
    if not is_complex(type_.dtype):
        return stablehlo(native, [x, y], [type_])[0]
    x_real, y_real = lowered.real(x), lowered.real(y)
    tie = lowered.and_(lowered.eq(x_real, y_real), is_beyond(lowered.imag(x), lowered.imag(y)))
    # Comparisons of real parts miss a nan in an imaginary part, so require y == y.
    first = lowered.and_(lowered.or_(is_beyond(x_real, y_real), tie), lowered.eq(y, y))
    return lowered.select(lowered.or_(first, lowered.ne(x, x)), x, y)
