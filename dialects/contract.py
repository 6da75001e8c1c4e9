"""The op contract: every op declares every facet, as a rule or as a named verdict.

An `Op` is declared once, in the module of its family. Declaring it registers it, and registration
fails when a facet is missing. The facets are:

``infer(*operand_types, **params)``
    The type rule: result types from operand types; raises `TypeRuleError`. Region ops also get
    ``bodies=``.
``evaluate(*arrays, **params)``
    The meaning, in NumPy. Returns one array, or a tuple if the op has several results. Region
    ops get ``bodies=``: callables on arrays with an attribute ``result_types``.
    A rule that only raises is annotated ``NoReturn``.
``jvp(inst, outs, tangents)``
    The tangents of the results. ``None`` is a symbolic zero, in arguments and results.
``transpose(inst, cotangents, linear)``
    For an op that is linear in the operands for which ``linear[i]`` is true: one cotangent (or
    ``None``) per operand. ``inst.operands[i]`` is ``None`` if ``linear[i]``.
``batch(inst, operands, dims, axis)``
    ``(results, result_dims)`` when operand ``i`` has its batch dimension at ``dims[i]``
    (``None``: not batched). ``inst`` describes the unbatched op; ``axis`` is the `MappedAxis`.
``work(operands, results, **params)``
    The `Work` of one execution, from the types; see `work_rules`.
``lower(inst)``
    The StableHLO form: ``inst.operands`` are values of the StableHLO program, and the returned
    values replace the op's results. Both dialects use the same types.

Besides the facets, an op declares traits, which passes ask for: see `gnomon.dialects.traits`.

Rules build IR by calling ops on SSA values at the current insertion point: ``mul(t, cos(x))``.

``example`` is IR: a few statements in generic form that use the op. `dialects.example` builds a
program from it, and the tests run that program.

- Values that no statement defines are the arguments of ``@main``; results that no statement uses
  are its results.
- ``@f`` is a function from ``tensor<f32>`` to ``tensor<f32>``.
- A collective is over the axis ``"i"`` of four members. ``@main`` maps the example over that axis.
- A terminator, or another part of a region op, is shown inside an op that contains it.
- Operands or results of several types are packed by ``builtin.unrealized_conversion_cast``.
- Callbacks have the number 0.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gnomon.dialects.attributes import HASHABLE, Kind
from gnomon.dialects.body import PLAIN, Body, create, operands_of, results_of
from gnomon.dialects.mlir import ir
from gnomon.dialects.sharding_rules import ShardingRule
from gnomon.dialects.traits import Cost, Form, Linearity, Traits, register_traits
from gnomon.dialects.types import TensorType, mlir_type, tensor_type, type_of
from gnomon.dialects.work_rules import WorkRule


class TypeRuleError(TypeError):
    """Operand types or parameters that an op's type rule rejects."""


class Verdict(enum.Enum):
    """The reason why a facet of an op has no rule."""

    ZERO_TANGENT = "the result is constant, integer or boolean: its tangent is zero everywhere"
    NOT_LINEAR = "the op is not linear in any operand: it never occurs in a linear program"
    EXPANDED = "a pass replaces the op before this facet is needed"
    ENGINE = "the transformation handles the op itself, because the op calls another function"
    NO_DERIVATIVE = "no derivative is known: differentiation raises an error that names the op"
    NO_REVERSE = "the op has no transpose: reverse mode raises an error that names it"
    STRUCTURE = "the op is a part of its parent and is handled with it"


ZERO_TANGENT = Verdict.ZERO_TANGENT
NOT_LINEAR = Verdict.NOT_LINEAR
EXPANDED = Verdict.EXPANDED
ENGINE = Verdict.ENGINE
NO_DERIVATIVE = Verdict.NO_DERIVATIVE
NO_REVERSE = Verdict.NO_REVERSE
STRUCTURE = Verdict.STRUCTURE

Rule = Callable[..., Any]
Facet = Rule | Verdict

# The attribute that marks calls and transformations of functions with effects.
EFFECTS_MARK = "effects"

# The number of combinations of types and parameters that each op caches.
_MADE_SIZE = 4096

FACETS = ("infer", "evaluate", "jvp", "transpose", "batch", "lower")


class MappedAxis(NamedTuple):
    """The axis that a `vmap` or a `shard_map` maps.

    Attributes:
      size: its size.
      name: its name for collectives; ``""`` if it has none.
      of_devices: whether each element of the axis is a device, as in a `shard_map`.
    """

    size: int
    name: str = ""
    of_devices: bool = False


class Instance:
    """One operation, as the rules of its op see it.

    Attributes:
      op: the `Op`.
      operands: SSA values; ``None`` for those that are not available to the rule.
      params: attributes as Python values.
      bodies: closed bodies of the regions.
      engine: the running transformation, for ops whose regions must be transformed.
    """

    __slots__ = (
        "_operand_types",
        "_result_types",
        "_source",
        "bodies",
        "engine",
        "op",
        "operands",
        "params",
    )

    def __init__(
        self,
        op: Op,
        operands: Sequence[Any],
        operand_types: Sequence[TensorType] | None,
        result_types: Sequence[TensorType] | None,
        params: dict[str, Any],
        bodies: Sequence[Body] = (),
        engine: Any = None,
    ) -> None:
        self.op = op
        self.operands = operands
        self._operand_types = operand_types
        self._result_types = result_types
        self.params = params
        self.bodies = bodies
        self.engine = engine
        # The operation and its own operands, if types are to be read from them. Many rules do not
        # ask for the types, and reading them takes half of the time to make an instance.
        self._source: tuple[ir.Operation, list[ir.Value]] | None = None

    @property
    def operand_types(self) -> Sequence[TensorType]:
        """The logical types of the operands."""
        types = self._operand_types
        if types is None:
            assert self._source is not None
            types = self._operand_types = [type_of(v) for v in self._source[1]]
        return types

    @property
    def result_types(self) -> Sequence[TensorType]:
        """The logical types of the results."""
        types = self._result_types
        if types is None:
            assert self._source is not None
            types = self._result_types = [type_of(v) for v in results_of(self._source[0])]
        return types

    @property
    def operand(self) -> Any:
        """The only operand."""
        (operand,) = self.operands
        return operand

    @property
    def type(self) -> TensorType:
        """The type of the only result."""
        (type_,) = self.result_types
        return type_


REGISTRY: dict[str, Op] = {}


@dataclass(frozen=True, eq=False, kw_only=True)
class Op:
    """An op of the dialect with all its facets; see the module's docstring.

    Attributes:
      name: the name without ``gnomon.``, or the full name of an upstream op that is supported.
      doc: the value that the op computes, in one sentence.
      example: statements of IR that use the op; see the module's docstring.
      attributes: parameter name to attribute kind.
      operands: operand names; ``...`` for any number.
      results: the number of results; ``None`` if it depends on the types or parameters.
      regions: region names; ``...`` for any number (each in a ``gnomon.branch``).
      form: how elements of the results depend on elements of the operands.
      cost: for an elementwise op, the class of its cost.
      linear: for an op with a transpose rule, the operands in which it is linear.
      stablehlo: the StableHLO operations that the op lowers to one-to-one, up to conversions of
        narrow dtypes; by default, the operation of a rule made by `combinators.LowerTo`.
      sharding: how the results are split over the devices of a mesh, given how the operands are.
      linearize: for ops whose derivative recomputes the results (region ops, sorts), the rule that
        keeps primal and tangent ops apart, so that reverse mode can split them:
        ``linearize(inst, tangents) -> (outs, tangents_out)``. If it is given, ``jvp`` has the same
        signature.
      inline: for region ops that are defined by their first body (the other bodies are rules for
        it): the values that replace the op after all transformations,
        ``inline(inst) -> values``. Only the first body is evaluated.
      narrow: for ops that another op or other parameters can replace if some results are unused:
        the values of the used results, ``narrow(inst, used) -> values``, or ``None`` if all that
        is computed is needed.
      collective: whether the batching rule also applies when no operand is batched.
      terminator: whether the op terminates a body.
      effects: whether the op has effects besides its results (it prints, it calls back): no pass
        may drop, merge, repeat, hoist or speculate it. See `has_effects`.
      resolve: finds additional arguments of the type rule from the operation, such as the callee's
        signature.
    """

    name: str
    doc: str
    example: str
    attributes: Mapping[str, Kind] = field(default_factory=dict)
    operands: Any = ...
    results: int | None = 1
    regions: Any = ()
    infer: Rule
    evaluate: Facet
    jvp: Facet
    transpose: Facet
    batch: Facet
    lower: Facet
    work: WorkRule
    form: Form
    sharding: ShardingRule
    cost: Cost | None = None
    linear: Linearity | None = None
    stablehlo: tuple[str, ...] = ()
    linearize: Rule | None = None
    inline: Rule | None = None
    narrow: Rule | None = None
    collective: bool = False
    terminator: bool = False
    effects: bool = False
    resolve: Callable[[ir.Operation], dict[str, Any]] | None = None
    # A cache of result types and attributes by operand types and parameters, for ops without
    # regions.
    _made: dict[Any, tuple[list[ir.Type], dict[str, ir.Attribute]]] | None = field(
        default=None, init=False, repr=False
    )

    def __post_init__(self) -> None:
        for facet in FACETS:
            rule = getattr(self, facet)
            if not (callable(rule) or isinstance(rule, Verdict)):
                raise TypeError(f"op {self.name}: facet {facet} is neither a rule nor a verdict")
        if not self.doc or not self.example:
            raise TypeError(f"op {self.name}: the doc and the IR example are mandatory")
        self._check_traits()
        if self.full_name in REGISTRY:
            raise ValueError(f"op {self.name} is declared twice")
        if not self.stablehlo:
            object.__setattr__(self, "stablehlo", getattr(self.lower, "stablehlo", ()))
        register_traits(self.full_name, Traits(self.form, self.cost), self.stablehlo)
        REGISTRY[self.full_name] = self
        if self.operands is not ... and self.results is not None and not self.regions:
            PLAIN.add(self.full_name)
        is_closed = self.operands is not ... and not self.regions and self.resolve is None
        if is_closed and HASHABLE.issuperset(self.attributes.values()):
            object.__setattr__(self, "_made", {})

    def _check_traits(self) -> None:
        if (self.form is Form.ELEMENTWISE) != (self.cost is not None):
            raise TypeError(f"op {self.name}: elementwise ops, and no others, declare a cost")
        if callable(self.transpose) != (self.linear is not None):
            raise TypeError(
                f"op {self.name}: ops with a transpose rule, and no others, declare in which "
                "operands they are linear"
            )

    @property
    def full_name(self) -> str:
        """The name in IR."""
        return self.name if "." in self.name else f"gnomon.{self.name}"

    @property
    def is_control_flow(self) -> bool:
        """Whether the op has regions."""
        return bool(self.regions)

    def __repr__(self) -> str:
        return f"<op {self.full_name}>"

    def decode(self, attributes: ir.DictAttr) -> dict[str, Any]:
        """Convert MLIR attributes to Python parameters; the inverse of `encode`."""
        return {name: kind.decode(attributes[name]) for name, kind in self.attributes.items()}

    def encode(self, params: Mapping[str, Any]) -> dict[str, ir.Attribute]:
        """Convert Python parameters to MLIR attributes."""
        if params.keys() != self.attributes.keys():
            missing = self.attributes.keys() - params.keys()
            extra = params.keys() - self.attributes.keys()
            raise TypeRuleError(
                f"{self.full_name}: missing parameters {sorted(missing)}, "
                f"unknown parameters {sorted(extra)}"
            )
        return {name: kind.encode(params[name]) for name, kind in self.attributes.items()}

    def infer_types(
        self, types: Sequence[TensorType], params: Mapping[str, Any], bodies: Sequence[Body] = ()
    ) -> tuple[TensorType, ...]:
        """The result types, from the type rule."""
        if self.operands is not ... and len(types) != len(self.operands):
            raise TypeRuleError(
                f"{self.full_name} takes {len(self.operands)} operands, got {len(types)}"
            )
        inferred = (
            self.infer(*types, bodies=bodies, **params)
            if self.is_control_flow
            else self.infer(*types, **params)
        )
        return (inferred,) if isinstance(inferred, TensorType) else tuple(inferred)

    def build(
        self, operands: Sequence[ir.Value], params: Mapping[str, Any], bodies: Sequence[Body] = ()
    ) -> list[ir.Value]:
        """Create the op at the current insertion point; return all its results."""
        if self.operands is not ... and not self.regions:
            result_types, attributes = self._make(operands, params)
            return list(
                ir.Operation.create(
                    self.full_name,
                    results=result_types,
                    operands=list(operands),
                    attributes=attributes,
                ).results
            )
        attributes = self.encode(params)
        types = self.infer_types([type_of(v) for v in operands], params, bodies)
        regions = 1 if self.regions is ... else len(self.regions)
        created, results = create(
            self.full_name, [mlir_type(t) for t in types], operands, attributes, regions
        )
        if bodies:
            attach_bodies(self, created, bodies)
        return results

    def _make(
        self, operands: Sequence[ir.Value], params: Mapping[str, Any]
    ) -> tuple[list[ir.Type], dict[str, ir.Attribute]]:
        """Infer and cache the result types and encode the attributes of an op without regions."""
        made = self._made
        key = None
        if made is not None:
            try:
                key = (*(v.type for v in operands), *params.items())
                return made[key]
            except KeyError:
                pass
            except TypeError:  # unhashable: a list among the parameters
                key = None
        attributes = self.encode(params)
        types = self.infer_types([type_of(v) for v in operands], params)
        result = [mlir_type(t) for t in types], attributes
        if made is not None and key is not None:
            if len(made) >= _MADE_SIZE:
                made.clear()
            made[key] = result
        return result

    def __call__(self, *operands: ir.Value, bodies: Sequence[Body] = (), **params: Any) -> Any:
        """Create the op at the current insertion point.

        Returns:
          The result, or a list of results if ``results`` is not 1.
        """
        results = self.build(operands, params, bodies)
        return results[0] if self.results == 1 else results


def attach_bodies(op: Op, created: ir.Operation, bodies: Sequence[Body]) -> None:
    """Move detached bodies into the regions of a new op."""
    if op.regions is not ...:
        for region, body in zip(created.regions, bodies, strict=True):
            body.move_to(region)
        return
    container = created.regions[0].blocks.append()
    with ir.InsertionPoint(container):
        for body in bodies:
            branch = ir.Operation.create("gnomon.branch", regions=1)
            body.move_to(branch.regions[0])


def bodies_of(operation: ir.Operation) -> list[Body]:
    """The closed bodies of a region op, in order."""
    op = REGISTRY[operation.name]
    if op.regions is not ...:
        return [Body(region.blocks[0]) for region in operation.regions]
    container = operation.regions[0].blocks[0]
    return [Body(branch.operation.regions[0].blocks[0]) for branch in container.operations]


def all_operations(body: Body) -> Iterator[ir.Operation]:
    """Every operation in program order; a control-flow op is followed by those nested in it."""
    for op in body.operations:
        yield op
        if lookup(op).is_control_flow:
            for inner in bodies_of(op):
                yield from all_operations(inner)


def is_literal(operation: ir.Operation) -> bool:
    """Whether an operation has no operands and gives the same value anywhere in the program."""
    return not (operation.operands or operation.regions or has_effects(operation))


def has_effects(operation: ir.Operation) -> bool:
    """Whether an operation, an operation nested in it, or its callee has effects.

    A call or transformation of a function with effects carries a unit attribute, which
    `functions.emit_call` sets.
    """
    op = REGISTRY.get(operation.name)
    if op is None:
        return False
    if op.effects or EFFECTS_MARK in operation.attributes:
        return True
    return op.is_control_flow and any(
        has_effects(inner) for body in bodies_of(operation) for inner in body.operations
    )


def lookup(operation: ir.Operation) -> Op:
    """The `Op` of an operation; raises `TypeRuleError` if it is not of the dialect."""
    try:
        return REGISTRY[operation.name]
    except KeyError:
        raise TypeRuleError(
            f"operation {operation.name} is not an op of the gnomon dialect"
        ) from None


_decoded: dict[tuple[Kind, ir.Attribute], Any] = {}


def params_of(operation: ir.Operation, op: Op | None = None) -> dict[str, Any]:
    """The attributes of an operation as Python values."""
    op = op or lookup(operation)
    if not op.attributes:
        return {}
    attributes = operation.attributes
    params = {}
    for name, kind in op.attributes.items():
        if name not in attributes:
            raise TypeRuleError(f"{op.full_name} lacks the attribute '{name}' ({kind.name})")
        attribute = attributes[name]
        try:
            params[name] = _decoded[kind, attribute]
        except KeyError:
            try:
                params[name] = kind.decode(attribute)
            except (ValueError, TypeError) as error:
                raise TypeRuleError(
                    f"{op.full_name}: attribute '{name}' must be of kind {kind.name}, "
                    f"got {attribute}"
                ) from error
            _decoded[kind, attribute] = params[name]
    return params


def instance_of(
    operation: ir.Operation, operands: Sequence[Any] | None = None, engine: Any = None
) -> Instance:
    """The `Instance` of an operation for its rules; ``operands`` overrides its own operands."""
    op = lookup(operation)
    own = operands_of(operation)
    instance = Instance(
        op,
        own if operands is None else operands,
        None,
        None,
        params_of(operation, op),
        bodies_of(operation) if op.regions else (),
        engine,
    )
    instance._source = operation, own
    return instance


def result_types(operation: ir.Operation) -> tuple[TensorType, ...]:
    """The types of an operation's results, unpacked."""
    types = [r.type for r in operation.results]
    if len(types) == 1 and isinstance(types[0], ir.TupleType):
        types = [types[0].get_type(i) for i in range(types[0].num_types)]
    return tuple(tensor_type(t) for t in types)
