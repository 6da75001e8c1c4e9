"""Lowering a program with symbolic dimensions to one input of the compiler for all sizes.

IREE compiles dynamic shapes for a part of what it compiles for static ones, and most of the
legalizations are written for static shapes. So a program is lowered for all sizes only if each of
these holds, and is otherwise refined for the sizes of each call:

- The rewrites on the gnomon dialect decide what they do without the sizes.
- It has neither control flow nor calls of the host.
- No array can be empty.
- Lowered for sample sizes, it needs none of the rewrites of StableHLO that make results right,
  except `constant-reductions`, which has a form for dynamic shapes.
- Its ops are among `OPS`, its dtypes among `DTYPES` and the processor among `MACHINES`: tests run
  these at many sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from gnomon.backends.compilation import Lowering
from gnomon.backends.errors import NotDynamic
from gnomon.backends.iree.dynamic.forms import FORMS, guard_reductions, write_forms
from gnomon.backends.iree.legalize.legalization import Kind, OnModule, Stage, of_stage
from gnomon.backends.iree.pipeline import Pipeline, legalize
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir, other_dialects
from gnomon.dialects.refinement import refined
from gnomon.dialects.symbolic import polynomials as poly
from gnomon.dialects.symbolic.dimension import Dimension, SymbolicScope, substituted
from gnomon.dialects.symbolic.encoding import decode_sizes, is_symbolic_type
from gnomon.dialects.symbolic.errors import InconclusiveDimensionOperation
from gnomon.passes.lower import LoweringError
from gnomon.passes.symbolic_sizes import SHAPE_ASSERTION

__all__ = ["DTYPES", "MACHINES", "OPS", "lower_for_all_sizes"]

_ELEMENTWISE = (
    "abs add and ceil clamp compare convert divide exponential floor is_finite log maximum minimum "
    "multiply negate not or remainder round_nearest_afz round_nearest_even rsqrt select shift_left "
    "shift_right_arithmetic shift_right_logical sign sqrt subtract xor"
)
_OTHERS = (
    "bitcast_convert broadcast_in_dim concatenate constant dot_general gather get_dimension_size "
    "optimization_barrier pad reduce reshape return reverse slice transpose"
)
OPS = frozenset(
    [f"stablehlo.{name}" for name in f"{_ELEMENTWISE} {_OTHERS}".split()]
    + list(FORMS)
    + ["func.func", "func.return", "builtin.module"]
)
"""The ops that IREE is known to compile rightly for dynamic shapes, in the forms of `forms`."""

# Sizes for which a program is lowered to see which rewrites it needs: small and large, even and
# odd, and next to the lengths of vectors.
_SAMPLES = (2, 5, 16, 100, 1, 3, 8, 1000)
_MOST_SAMPLES = 3
DTYPES = frozenset({"f32", "i1", "i32", "ui32"})
"""The element types of arrays with symbolic dimensions with which tests run the ops."""

MACHINES = frozenset({"x86_64"})
"""The processors on which tests run the ops, as `platform.machine` names them."""

_GUARDS = "constant-reductions"
_WRONG = (Kind.MISCOMPILED, Kind.INACCURATE)


def _samples(scope: SymbolicScope, variables: list[str]) -> Iterator[dict[str, int]]:
    """Sizes of the variables that fulfil the constraints."""
    found = 0
    same = ([n] * len(variables) for n in _SAMPLES)
    mixed = itertools.islice(itertools.product(_SAMPLES, repeat=len(variables)), 4096)
    for sizes in itertools.chain(same, mixed):
        values = dict(zip(variables, sizes, strict=True))
        if _holds(scope, values):
            yield values
            found += 1
            if found == _MOST_SAMPLES:
                return


def _holds(scope: SymbolicScope, values: Mapping[str, int]) -> bool:
    for relation, left, right in scope.relations:
        if not (poly.variables(left) | poly.variables(right)) <= values.keys():
            continue
        one, other = substituted(left, values), substituted(right, values)
        if not {"==": one == other, ">=": one >= other, "<=": one <= other}[relation]:
            return False
    return True


def _dimensions(module: ir.Module) -> list[Dimension]:
    """The symbolic dimensions of all arrays of a module."""
    types: dict[ir.Type, None] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        types.update(dict.fromkeys(r.type for r in op.results))
        for region in op.regions:
            for block in region.blocks:
                types.update(dict.fromkeys(a.type for a in block.arguments))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    found: dict[Dimension, None] = {}
    for type_ in types:
        if is_symbolic_type(type_):
            sizes = decode_sizes(ir.RankedTensorType(type_).encoding)
            found.update((n, None) for n in sizes if isinstance(n, Dimension))
    return list(found)


def lower_for_all_sizes(pipeline: Pipeline, program: Program) -> tuple[Lowering, list[Dimension]]:
    """Lower a program with symbolic dimensions; its module is consumed.

    Returns:
      The lowering, whose module is the compiler's input, and the dimensions of its arrays.
    Raises:
      NotDynamic: it must be refined; the message says why.
      UnsupportedOnTarget: the target does not support an op or a dtype.
    """
    if pipeline.target.machine not in MACHINES:
        raise NotDynamic(f"dynamic shapes were not run on {pipeline.target.name}")
    source = Program(program.module.operation.clone(ip=False))
    lowering = Lowering(program)
    try:
        lowering.expand()
        lowering.run(("expand-scan",))
        legalize(lowering.module, pipeline.target, pipeline.legalizations)
        dimensions = _dimensions(lowering.module)
        lowering.to_stablehlo()
    except (InconclusiveDimensionOperation, LoweringError) as error:
        raise NotDynamic(str(error)) from error
    for size in dimensions:
        if size.scope.bounds(size.polynomial)[0] < 1:
            raise NotDynamic(f"an array has the dimension {size}, which may be 0")
    _check_ops(lowering.module)
    variables: set[str] = set()
    variables.update(*(poly.variables(size.polynomial) for size in dimensions))
    samples = list(_samples(dimensions[0].scope, sorted(variables)))
    if not samples:
        raise NotDynamic("no small sizes fulfil the constraints")
    needed: set[str] = set()
    for values in samples:
        needed |= _rewrites_needed(pipeline, refined(source, values), values)
    with other_dialects(lowering.module.context):
        if _GUARDS in needed:
            guard_reductions(lowering.module)
        write_forms(lowering.module)
    return lowering, dimensions


def _is_static(op: ir.Operation) -> bool:
    """Whether an op computes as in a program of static shapes."""
    values = [*op.operands, *op.results]
    return (
        op.name.startswith("stablehlo.")
        and op.name != "stablehlo.custom_call"
        and not len(op.regions)
        and all(ir.RankedTensorType(x.type).has_static_shape for x in values)
    )


def _dynamic_elements(op: ir.Operation) -> set[str]:
    """The element types of the operands and results of dynamic shape."""
    types = [ir.RankedTensorType(x.type) for x in (*op.operands, *op.results)]
    return {str(t.element_type) for t in types if not t.has_static_shape}


def _check_ops(module: ir.Module) -> None:
    unknown: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = op.name
        if name == "stablehlo.custom_call":
            name = f"a call of {ir.StringAttr(op.attributes['call_target_name']).value}"
        is_known = name in OPS or name == f"a call of {SHAPE_ASSERTION}" or _is_static(op)
        elements = set() if _is_static(op) else _dynamic_elements(op)
        others = sorted(elements - DTYPES)
        if others:
            where = f"({op.location})"
            unknown.append(f"{others[0]} is not known to be right for dynamic shapes {where}")
        elif not is_known:
            unknown.append(f"{name} is not known to be right for dynamic shapes ({op.location})")
        return ir.WalkResult.ADVANCE

    # An exception in a callback would not keep its type.
    module.operation.walk(visit)
    if unknown:
        raise NotDynamic(unknown[0])


def _rewrites_needed(pipeline: Pipeline, program: Program, values: Mapping[str, int]) -> set[str]:
    """The rewrites of StableHLO that a program of static shapes needs for right numbers.

    Raises:
      NotDynamic: one of them has no form for dynamic shapes.
    """
    needed: set[str] = set()
    lowering = Lowering(program)
    lowering.expand()
    lowering.run(("expand-scan",))
    legalize(lowering.module, pipeline.target, pipeline.legalizations)
    lowering.to_stablehlo()
    for stage in (Stage.LOWERED, Stage.LAST):
        for one in of_stage(pipeline.legalizations, stage, pipeline.target):
            if one.kind not in _WRONG or one.run is None:
                continue  # The compiler refuses the program, or it is slower.
            # In these stages a run takes a module, not a program of the dialect.
            run: OnModule = one.run  # type: ignore[assignment]
            before = str(lowering.module)
            if run(lowering.module, pipeline.target) and str(lowering.module) != before:
                sizes = ", ".join(f"{name} = {value}" for name, value in values.items())
                if one.name != _GUARDS:
                    raise NotDynamic(f"for {sizes} it needs the rewrite {one.name} ({one.doc})")
                needed.add(one.name)
    return needed
