"""Dynamic ops of StableHLO as ops of ``tensor`` and ``linalg``.

IREE 3.13 does not compile ``dynamic_reshape``, ``dynamic_iota``, ``real_dynamic_slice``, nor a
``gather`` of dynamic indices, but compiles the same computations in these dialects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gnomon.backends.errors import NotDynamic
from gnomon.backends.iree.dynamic.sizes import Size, Sizes, create
from gnomon.backends.iree.legalize.after_lowering.constant_reductions import IDEMPOTENT
from gnomon.dialects.mlir import context, ir, stablehlo
from gnomon.dialects.traits import Form, names_of

__all__ = ["FORMS", "empty", "guard_reductions", "write_forms"]


def _type(value: ir.Value) -> ir.RankedTensorType:
    return ir.RankedTensorType(value.type)


def empty(sizes: Sizes, type_: ir.RankedTensorType, shape: Sequence[Size]) -> ir.Value:
    """An uninitialized tensor."""
    given = [sizes.value(n) for d, n in enumerate(shape) if type_.is_dynamic_dim(d)]
    return create("tensor.empty", given, [type_]).results[0]


def _map(rank: int, results: Sequence[int | None]) -> ir.Attribute:
    """The map from a generic op's loops to the dimensions of an operand; None is the index 0."""
    expressions = [
        ir.AffineConstantExpr.get(0, context()) if d is None else ir.AffineDimExpr.get(d, context())
        for d in results
    ]
    return ir.AffineMapAttr.get(ir.AffineMap.get(rank, 0, expressions, context()))


def _generic(
    operands: Sequence[ir.Value],
    maps: Sequence[Sequence[int | None]],
    output: ir.Value,
    body: Callable[[Sequence[ir.Value]], ir.Value],
    reductions: int = 0,
) -> ir.Value:
    """A ``linalg.generic``: parallel loops over its result's dimensions, then ``reductions``."""
    whole = list(range(_type(output).rank))
    rank = len(whole) + reductions
    kinds = ["parallel"] * len(whole) + ["reduction"] * reductions
    iterators = [ir.Attribute.parse(f"#linalg.iterator_type<{k}>", context()) for k in kinds]
    segments = ir.DenseI32ArrayAttr.get([len(operands), 1], context())
    op = create(
        "linalg.generic",
        [*operands, output],
        [output.type],
        1,
        indexing_maps=ir.ArrayAttr.get([_map(rank, m) for m in (*maps, whole)], context()),
        iterator_types=ir.ArrayAttr.get(iterators, context()),
        operandSegmentSizes=segments,
    )
    elements = [_type(x).element_type for x in (*operands, output)]
    for element in elements:
        if isinstance(element, ir.IntegerType) and not element.is_signless:
            raise NotDynamic(f"an operation on a dynamic shape has the dtype {element}")
    location = ir.Location.unknown(context())
    block = op.regions[0].blocks.append(*elements, arg_locs=[location] * len(elements))
    with ir.InsertionPoint(block), location:
        create("linalg.yield", [body(list(block.arguments))], [])
    return op.results[0]


def _literal(x: ir.Value) -> ir.Value | None:
    """The element of a literal that repeats one value, as a scalar; None for other values."""
    owner = x.owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.constant":
        return None
    value = ir.DenseElementsAttr(owner.attributes["value"])
    if not value.is_splat:
        return None
    element = _type(x).element_type
    return create("arith.constant", [], [element], value=value.get_splat_value()).results[0]


def _broadcast(op: ir.Operation, sizes: Sizes) -> ir.Value:
    x, shape = op.operands
    result, dims = (
        _type(op.results[0]),
        list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"])),
    )
    given = _type(x)
    # A dynamic dimension of the operand has the size of the result's, because dimensions of size 1
    # are static.
    read = [
        None if not given.is_dynamic_dim(i) and given.get_dim_size(i) == 1 else d
        for i, d in enumerate(dims)
    ]
    output = empty(sizes, result, sizes.listed(shape))
    literal = _literal(x)
    if literal is not None:
        return _generic([], [], output, lambda _values: literal)
    return _generic([x], [read], output, lambda values: values[0])


def _reshape(op: ir.Operation, sizes: Sizes) -> ir.Value:
    x, shape = op.operands
    result = _type(op.results[0])
    shape = [n for d, n in enumerate(sizes.listed(shape)) if result.is_dynamic_dim(d)]
    given = [sizes.of_dimension(x, d) for d in range(_type(x).rank) if _type(x).is_dynamic_dim(d)]
    operands = [x, *map(sizes.value, (*given, *shape))]
    # IREE 3.13 refuses ``tensor.reshape`` if the result has rank 1, but takes its own form of it.
    segments = ir.DenseI32ArrayAttr.get([1, len(given), len(shape)], context())
    return create("flow.tensor.reshape", operands, [result], operandSegmentSizes=segments).results[
        0
    ]


def _iota(op: ir.Operation, sizes: Sizes) -> ir.Value:
    (shape,) = op.operands
    result = _type(op.results[0])
    dimension = int(ir.IntegerAttr(op.attributes["iota_dimension"]).value)
    element = result.element_type
    if not isinstance(element, ir.IntegerType) or not element.is_signless:
        raise NotDynamic(f"dynamic_iota of {element}")
    index, i64 = ir.IndexType.get(context()), ir.IntegerType.get_signless(64, context())

    def body(_values: Sequence[ir.Value]) -> ir.Value:
        attribute = ir.IntegerAttr.get(i64, dimension)
        position = create("linalg.index", [], [index], dim=attribute).results[0]
        return create("arith.index_cast", [position], [element]).results[0]

    return _generic([], [], empty(sizes, result, sizes.listed(shape)), body)


def _slice(op: ir.Operation, sizes: Sizes) -> ir.Value:
    x, *given = op.operands
    starts, limits, strides = (sizes.listed(v) for v in given)
    lengths: list[Size] = []
    result = _type(op.results[0])
    for d, (a, b, s) in enumerate(zip(starts, limits, strides, strict=True)):
        if not result.is_dynamic_dim(d):
            lengths.append(int(result.get_dim_size(d)))
            continue
        length = sizes.arithmetic("stablehlo.subtract", b, a)
        if s != 1:
            up = sizes.arithmetic("stablehlo.subtract", s, 1)
            length = sizes.arithmetic(
                "stablehlo.divide", sizes.arithmetic("stablehlo.add", length, up), s
            )
        lengths.append(length)
    dynamic = ir.ShapedType.get_dynamic_size()
    # A size that is dynamic in the type must be a value, even if it is a constant.
    lengths = [sizes.value(n) if result.is_dynamic_dim(d) else n for d, n in enumerate(lengths)]
    operands, segments, attributes = [x], [1], {}
    for name, numbers in ("offsets", starts), ("sizes", lengths), ("strides", strides):
        values = [n for n in numbers if not isinstance(n, int)]
        operands += values
        segments.append(len(values))
        static = [n if isinstance(n, int) else dynamic for n in numbers]
        attributes[f"static_{name}"] = ir.DenseI64ArrayAttr.get(static, context())
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(segments, context())
    return create("tensor.extract_slice", operands, [result], **attributes).results[0]


def _dot_general(op: ir.Operation, sizes: Sizes) -> ir.Value:
    """A product as loops over its dimensions and the contracted ones."""
    lhs, rhs = op.operands
    result = _type(op.results[0])
    element = result.element_type
    if not isinstance(element, (ir.F32Type, ir.F64Type)) or any(
        _type(x).element_type != element for x in (lhs, rhs)
    ):
        raise NotDynamic(f"a product of {_type(lhs).element_type} in {element}")
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batch = list(zip(numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions, strict=True))
    contracted = list(
        zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True)
    )
    loops: list[dict[int, int]] = [{}, {}]
    shape: list[Size] = []
    for pair in batch:
        for side, d in enumerate(pair):
            loops[side][d] = len(shape)
        shape.append(sizes.of_dimension(lhs, pair[0]))
    for side, x in enumerate((lhs, rhs)):
        skipped = {pair[side] for pair in (*batch, *contracted)}
        for d in range(_type(x).rank):
            if d not in skipped:
                loops[side][d] = len(shape)
                shape.append(sizes.of_dimension(x, d))
    rank = len(shape)
    for k, pair in enumerate(contracted):
        for side, d in enumerate(pair):
            loops[side][d] = rank + k
    zero_attribute = ir.FloatAttr.get(element, 0.0)
    zero = create("arith.constant", [], [element], value=zero_attribute).results[0]
    output = _generic([], [], empty(sizes, result, shape), lambda _values: zero)

    def body(values: Sequence[ir.Value]) -> ir.Value:
        x, y, total = values
        product = create("arith.mulf", [x, y], [element]).results[0]
        return create("arith.addf", [total, product], [element]).results[0]

    maps = [[loops[side][d] for d in range(len(loops[side]))] for side in (0, 1)]
    return _generic([lhs, rhs], maps, output, body, reductions=len(contracted))


def _gather(op: ir.Operation, sizes: Sizes) -> ir.Value:
    """A gather that reads each element at computed positions."""
    operand, starts, *sliced = op.operands
    result = _type(op.results[0])
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    lengths: list[Size] = (
        sizes.listed(sliced[0])
        if sliced
        else list(ir.DenseI64ArrayAttr(op.attributes["slice_sizes"]))
    )
    offset_dims, starts_map = list(numbers.offset_dims), list(numbers.start_index_map)
    batching = list(numbers.operand_batching_dims)
    vector_dim, starts_rank = numbers.index_vector_dim, _type(starts).rank
    batch_dims = [d for d in range(result.rank) if d not in offset_dims]
    whole = [
        d
        for d in range(_type(operand).rank)
        if d not in numbers.collapsed_slice_dims and d not in batching
    ]
    index, i64 = ir.IndexType.get(context()), ir.IntegerType.get_signless(64, context())
    room = [
        sizes.value(sizes.arithmetic("stablehlo.subtract", sizes.of_dimension(operand, d), n))
        for d, n in enumerate(lengths)
    ]
    zero = sizes.value(0)
    # If an index vector has one element, its dimension may be missing.
    columns = [sizes.value(k) for k in range(len(starts_map))]
    # The shape is that of the batch dimensions of the starts and of the windows.
    batch_sizes = [sizes.of_dimension(starts, d) for d in range(starts_rank) if d != vector_dim]
    shape: list[Size] = [0] * result.rank
    for d, n in zip(batch_dims, batch_sizes, strict=True):
        shape[d] = n
    for d, k in zip(offset_dims, whole, strict=True):
        shape[d] = lengths[k]

    def position(d: int) -> ir.Value:
        attribute = ir.IntegerAttr.get(i64, d)
        return create("linalg.index", [], [index], dim=attribute).results[0]

    def body(_values: Sequence[ir.Value]) -> ir.Value:
        batch = [position(d) for d in batch_dims]
        read: list[ir.Value] = [zero] * len(lengths)
        for k, d in enumerate(starts_map):
            at = list(batch)
            if vector_dim < starts_rank:
                at.insert(vector_dim, columns[k])
            element = _type(starts).element_type
            start = create("tensor.extract", [starts, *at], [element]).results[0]
            start = create("arith.index_cast", [start], [index]).results[0]
            start = create("arith.maxsi", [start, zero], [index]).results[0]
            read[d] = create("arith.minsi", [start, room[d]], [index]).results[0]
        for d, source in zip(batching, numbers.start_indices_batching_dims, strict=True):
            read[d] = batch[source - (source > vector_dim)]
        for d, k in zip(offset_dims, whole, strict=True):
            read[k] = create("arith.addi", [read[k], position(d)], [index]).results[0]
        element = create("tensor.extract", [operand, *read], [result.element_type])
        return element.results[0]

    return _generic([], [], empty(sizes, result, shape), body)


FORMS: dict[str, Callable[[ir.Operation, Sizes], ir.Value]] = {
    "stablehlo.dynamic_broadcast_in_dim": _broadcast,
    "stablehlo.dynamic_gather": _gather,
    "stablehlo.dynamic_iota": _iota,
    "stablehlo.dynamic_reshape": _reshape,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.gather": _gather,
    "stablehlo.real_dynamic_slice": _slice,
}
"""For each op of StableHLO by name, the function that writes it in another dialect."""


_GUARDED = names_of("stablehlo", Form.REDUCTION, Form.WINDOW)


def guard_reductions(module: ir.Module) -> None:
    """Add a hidden zero to the reduced values of a module, as `constant_reductions` does."""
    for op in _ops_named(module, frozenset(_GUARDED)):
        region = op.regions[0].blocks[0]
        if all(inner.operation.name in IDEMPOTENT for inner in region.operations):
            continue
        for i in range(len(op.results)):
            value = op.operands[i]
            with ir.InsertionPoint(op), op.location:
                op.operands[i] = _plus_hidden_zero(value)


def _plus_hidden_zero(value: ir.Value) -> ir.Value:
    """A value plus a zero that the compiler cannot see."""
    type_, sizes = _type(value), Sizes()
    element = type_.element_type
    if isinstance(element, ir.ComplexType) or element == ir.IntegerType.get_signless(1):
        return value
    # The identity of addition of floats is -0, since adding 0 would turn -0 into 0.
    if isinstance(element, ir.IntegerType):
        signless = ir.IntegerType.get_signless(element.width)
        attribute, add = ir.IntegerAttr.get(signless, 0), "arith.addi"
        if element != signless:
            raise NotDynamic(f"a reduction of {element} that may be of a constant")
    else:
        attribute, add = ir.FloatAttr.get(element, -0.0), "arith.addf"
    scalar = ir.RankedTensorType.get((), element)
    literal = ir.DenseElementsAttr.get_splat(scalar, attribute)
    zero = create("stablehlo.constant", [], [scalar], value=literal).results[0]
    hidden = create("stablehlo.optimization_barrier", [zero], [scalar]).results[0]
    output = empty(sizes, type_, [sizes.of_dimension(value, d) for d in range(type_.rank)])

    def body(values: Sequence[ir.Value]) -> ir.Value:
        return create(add, [values[0], values[1]], [element]).results[0]

    return _generic([value, hidden], [list(range(type_.rank)), []], output, body)


def _is_dynamic(op: ir.Operation) -> bool:
    return any(not _type(x).has_static_shape for x in (*op.operands, *op.results))


def _ops_named(module: ir.Module, names: frozenset[str]) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in names:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _bits(value: ir.Value, element: ir.Type) -> ir.Value:
    """The bits of an integer value as another integer type of the same width."""
    type_ = _type(value)
    target = ir.RankedTensorType.get(type_.shape, element)
    return create("stablehlo.bitcast_convert", [value], [target]).results[0]


def _write(op: ir.Operation) -> ir.Value:
    """The other form of an op; unsigned integers are computed as signless ones."""
    element = _type(op.results[0]).element_type
    form = FORMS[op.name]
    if not isinstance(element, ir.IntegerType) or element.is_signless:
        return form(op, Sizes())
    signless = ir.IntegerType.get_signless(element.width)
    attributes = {name: op.attributes[name] for name in op.attributes}
    operands = [_bits(x, signless) if _type(x).element_type == element else x for x in op.operands]
    type_ = ir.RankedTensorType.get(_type(op.results[0]).shape, signless)
    other = create(op.name, operands, [type_], **attributes)
    result = _bits(form(other, Sizes()), element)
    other.erase()
    return result


def _tie_shapes(op: ir.Operation) -> None:
    """Tell IREE that the results of a barrier have the sizes of its operands."""
    sizes = Sizes()
    for x, result in zip(list(op.operands), list(op.results), strict=True):
        type_ = _type(result)
        if type_.has_static_shape:
            continue
        with ir.InsertionPoint(op):
            dynamic = [d for d in range(type_.rank) if type_.is_dynamic_dim(d)]
            given = [sizes.value(sizes.of_dimension(x, d)) for d in dynamic]
        with ir.InsertionPoint.after(op):
            tied = create("flow.tensor.tie_shape", [result, *given], [type_])
        result.replace_all_uses_except(tied.results[0], tied)


def write_forms(module: ir.Module) -> None:
    """Replace dynamic ops of StableHLO, and drop the checks of sizes, which callers make.

    The dialects that it writes must be loaded, see `other_dialects`.

    Raises:
      NotDynamic: an op has no other form.
    """
    for op in _ops_named(module, frozenset({"stablehlo.custom_call"})):
        op.erase()
    for op in _ops_named(module, frozenset({"stablehlo.optimization_barrier"})):
        with op.location:
            _tie_shapes(op)
    for op in _ops_named(module, frozenset(FORMS)):
        if _is_dynamic(op):
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(_write(op))
            op.erase()
