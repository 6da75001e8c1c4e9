"""Functions, calls, and the transformations as ops that name a function.

Tracing turns `grad`, `jvp` and `vmap` into ``gnomon.vjp``, ``gnomon.jvp`` and ``gnomon.vmap``. The
pass ``expand-transformations`` replaces these, innermost first, by calls of derived functions.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from gnomon.dialects import sharding_rules, work_rules
from gnomon.dialects.attributes import INT, INTS, STRING, SYMBOL
from gnomon.dialects.body import PLAIN, Body, create
from gnomon.dialects.callbacks import Callback
from gnomon.dialects.combinators import describe
from gnomon.dialects.contract import (
    EFFECTS_MARK,
    ENGINE,
    EXPANDED,
    Op,
    TypeRuleError,
    has_effects,
    lookup,
)
from gnomon.dialects.mlir import context, ensure_context, ir
from gnomon.dialects.traits import Form
from gnomon.dialects.types import TensorType, is_inexact, mlir_type, tensor_type, type_of


class Signature(NamedTuple):
    """The type of a function."""

    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]


def signature(function: ir.Operation) -> Signature:
    """The signature of a ``func.func``."""
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return Signature(
        tuple(tensor_type(t) for t in type_.inputs), tuple(tensor_type(t) for t in type_.results)
    )


class Program:
    """A module and its functions by name.

    All functions of one traced program are in one module; `add` makes names unique.

    Several threads may use one program: a function that `vjp` returns has one. Eager code adds
    functions to it and expands its transformations.

    Attributes:
      lock: held while a function is added, changed, erased, read or imported by another program.
    """

    def __init__(self, module: ir.Module | None = None) -> None:
        ensure_context()
        self.lock = threading.RLock()
        self.module = module or ir.Module.create(ir.Location.unknown(context()))
        self._functions: dict[str, ir.Operation] = {}
        self._numbers: dict[str, int] = {}
        self._effects: dict[str, bool] = {}
        # The functions that eager code runs compiled, and the functions derived from them. The
        # value says whether the first calls are evaluated instead; None leaves that to the
        # caller's configuration.
        self.staged: dict[str, bool | None] = {}
        # For each staged function that was imported, the program and the name it came from.
        self._origins: dict[str, tuple[weakref.ref[Program], str]] = {}
        # The callbacks of the program, which it keeps alive.
        self.callbacks: list[Callback] = []
        for op in self.module.body.operations:
            if op.operation.name == "func.func":
                self._functions[symbol_name(op.operation)] = op.operation

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def has_effects(self, name: str) -> bool:
        """Whether a function has effects besides its results."""
        if name not in self._effects:
            with self.lock:
                self._effects[name] = any(map(has_effects, self.body(name).operations))
        return self._effects[name]

    def mark_effects(self) -> None:
        """Mark the calls of functions with effects in a program that was parsed, not traced."""
        done: set[str] = set()
        for name in self.names:
            self._mark_effects(name, done)

    def _mark_effects(self, name: str, done: set[str]) -> None:
        if name in done:
            return
        done.add(name)
        for op in symbol_users(self.body(name)):
            self._mark_effects(callee(op), done)
            if self.has_effects(callee(op)):
                op.attributes[EFFECTS_MARK] = ir.UnitAttr.get(context())

    @property
    def names(self) -> list[str]:
        """The names of the functions, in order of creation."""
        return list(self._functions)

    @property
    def functions(self) -> list[ir.Operation]:
        """The functions, in order of creation."""
        return list(self._functions.values())

    def function(self, name: str) -> ir.Operation:
        """The ``func.func`` with a given name."""
        try:
            return self._functions[name]
        except KeyError:
            raise TypeRuleError(f"no function @{name} in the module") from None

    def body(self, name: str) -> Body:
        """The body of a function."""
        return Body(self.function(name).regions[0].blocks[0])

    def signature(self, name: str) -> Signature:
        """The signature of a function."""
        return signature(self.function(name))

    def add(
        self,
        name: str,
        body: Body,
        *,
        public: bool = False,
        like: str | None = None,
        location: ir.Location | None = None,
    ) -> str:
        """Make a function from a detached body; return its name, made unique in the module.

        ``like`` names the function from which it is derived.
        """
        with self.lock:
            name = self._unique(name)
            self._functions[name] = self._function(name, body, public, location)
            if like in self.staged:
                self.staged[name] = self.staged[like]
        return name

    def _unique(self, name: str) -> str:
        base = name
        while name in self._functions:
            # Continue from the last number, so that n functions of one name take linear time.
            self._numbers[base] = self._numbers.get(base, 0) + 1
            name = f"{base}_{self._numbers[base]}"
        return name

    def _function(
        self, name: str, body: Body, public: bool, location: ir.Location | None
    ) -> ir.Operation:
        """A new ``func.func`` with the block of a detached body."""
        location = location or ir.Location.unknown(context())
        results = body.results
        type_ = ir.FunctionType.get(
            [mlir_type(t) for t in body.argument_types], [r.type for r in results], context()
        )
        terminator = body.terminator
        ir.Operation.create(
            "func.return",
            operands=results,
            loc=terminator.location,
            ip=ir.InsertionPoint(terminator),
        )
        terminator.erase()
        attributes: dict[str, ir.Attribute] = {
            "sym_name": ir.StringAttr.get(name, context()),
            "function_type": ir.TypeAttr.get(type_, context()),
        }
        if not public:
            attributes["sym_visibility"] = ir.StringAttr.get("private", context())
        function = ir.Operation.create(
            "func.func",
            attributes=attributes,
            regions=1,
            loc=location,
            ip=ir.InsertionPoint(self.module.body),
        )
        body.move_to(function.regions[0])
        return function

    @property
    def module_name(self) -> str:
        """The name of the module; ``"main"`` if it has none."""
        given = self.module.operation.attributes
        return str(ir.StringAttr(given["sym_name"]).value) if "sym_name" in given else "main"

    def rename(self, name: str) -> None:
        """Name the module."""
        symbol = "".join(c if c.isalnum() else "_" for c in name).strip("_") or "program"
        self.module.operation.attributes["sym_name"] = ir.StringAttr.get(symbol, context())

    def erase(self, name: str) -> None:
        """Remove a function."""
        with self.lock:
            self._functions.pop(name).erase()
            self._effects.pop(name, None)

    def origin(self, name: str) -> tuple[Program, str] | None:
        """The program that a staged function was imported from, and its name there.

        None if the function was not imported, or if that program no longer exists.
        """
        if name not in self._origins:
            return None
        reference, original = self._origins[name]
        source = reference()
        return None if source is None else (source, original)

    def import_body(self, source: Program, body: Body, imported: dict[str, str]) -> Body:
        """Copy a body of another program together with the functions that it calls.

        ``imported`` is as in `import_function`.
        """
        with source.lock:
            self.callbacks += [c for c in source.callbacks if c not in self.callbacks]
            for op in symbol_users(body):
                self.import_function(source, callee(op), imported)
            copy = body.clone()
        for op in symbol_users(copy):
            op.attributes["callee"] = SYMBOL.encode(imported[callee(op)])
        return copy

    def import_function(self, source: Program, name: str, imported: dict[str, str]) -> str:
        """Copy a function of another program with its callees; return its name in this program.

        ``imported`` maps names in the source to names in this program; new names are added to it.
        """
        if name in imported:
            return imported[name]
        with source.lock:
            copy = self.import_body(source, source.body(name), imported)
            location = source.function(name).location
        imported[name] = self.add(name, copy, location=location)
        if name in source.staged:
            self.staged[imported[name]] = source.staged[name]
            self._origins[imported[name]] = source._origins.get(name, (weakref.ref(source), name))
        return imported[name]


def symbol_name(function: ir.Operation) -> str:
    """The name of a ``func.func``."""
    return str(ir.StringAttr(function.attributes["sym_name"]).value)


def callee(op: ir.Operation) -> str:
    """The name of the function that an operation calls or transforms."""
    return str(SYMBOL.decode(op.attributes["callee"]))


def symbol_users(body: Body) -> list[ir.Operation]:
    """All operations in a body, at any depth, that refer to a function."""
    found: list[ir.Operation] = []
    for op in body.operations:
        if op.name in PLAIN and op.name != "func.call":
            continue
        if "callee" in op.attributes:
            found.append(op)
        for region in op.regions:
            for block in region.blocks:
                found += symbol_users(Body(block))
    return found


# ------------------------------------------------------------------------------------- type rules


def check_operands(op: str, expected: Sequence[TensorType], given: Sequence[TensorType]) -> None:
    """Check that an op is given the operand types that its callee takes."""
    if tuple(expected) != tuple(given):
        raise TypeRuleError(
            f"{op}: the callee takes ({describe(expected)}), got ({describe(given)})"
        )


def _infer_call(*types: TensorType, callee: str, signature: Signature) -> tuple[TensorType, ...]:
    check_operands("func.call", signature.arguments, types)
    return signature.results


def _infer_jvp(
    *types: TensorType, callee: str, wrt: tuple[int, ...], signature: Signature
) -> tuple[TensorType, ...]:
    arguments, results = signature
    _check_wrt("gnomon.jvp", wrt, arguments)
    check_operands("gnomon.jvp", (*arguments, *(arguments[i] for i in wrt)), types)
    return (*results, *(r for r in results if is_inexact(r.dtype)))


def _infer_vjp(
    *types: TensorType,
    callee: str,
    wrt: tuple[int, ...],
    outputs: tuple[int, ...],
    signature: Signature,
) -> tuple[TensorType, ...]:
    arguments, results = signature
    _check_wrt("gnomon.vjp", wrt, arguments)
    _check_wrt("gnomon.vjp", outputs, results)
    check_operands("gnomon.vjp", (*arguments, *(results[i] for i in outputs)), types)
    return (*results, *(arguments[i] for i in wrt))


def _check_wrt(op: str, positions: tuple[int, ...], types: Sequence[TensorType]) -> None:
    for i in positions:
        if not 0 <= i < len(types):
            raise TypeRuleError(f"{op}: position {i} is out of range for {len(types)} values")
        if not is_inexact(types[i].dtype):
            raise TypeRuleError(f"{op}: {types[i]} at position {i} has no tangent type")


def _infer_vmap(
    *types: TensorType,
    callee: str,
    in_axes: tuple[int, ...],
    out_axes: tuple[int, ...],
    axis_size: int,
    axis_name: str,
    signature: Signature,
) -> tuple[TensorType, ...]:
    arguments, results = signature
    if len(in_axes) != len(arguments) or len(out_axes) != len(results):
        raise TypeRuleError(
            f"gnomon.vmap: {len(in_axes)} in_axes and {len(out_axes)} out_axes for a function of "
            f"{len(arguments)} arguments and {len(results)} results"
        )
    for axis, type_ in zip((*in_axes, *out_axes), (*arguments, *results), strict=True):
        if not -1 <= axis <= type_.rank:
            raise TypeRuleError(f"gnomon.vmap: {axis} is not an axis of a mapped {type_}")
    expected = [with_axis(t, a, axis_size) for t, a in zip(arguments, in_axes, strict=True)]
    check_operands("gnomon.vmap", expected, types)
    return tuple(with_axis(t, a, axis_size) for t, a in zip(results, out_axes, strict=True))


def with_axis(type_: TensorType, axis: int, size: int) -> TensorType:
    """A type with a mapped axis inserted at ``axis``; unchanged if ``axis`` is ``-1``."""
    if axis < 0:
        return type_
    return type_.with_shape((*type_.shape[:axis], size, *type_.shape[axis:]))


def enclosing_module(operation: ir.Operation) -> ir.Operation:
    """The ``builtin.module`` around an operation."""
    parent = operation
    while parent is not None and parent.name != "builtin.module":
        parent = parent.parent.operation
    return parent


def callee_signature(operation: ir.Operation) -> Signature:
    """The signature of an operation's callee, from the symbol table of its module."""
    name = callee(operation)
    table = ir.SymbolTable(enclosing_module(operation))
    if name not in table:
        raise TypeRuleError(f"{lookup(operation).full_name}: no function @{name} in the module")
    return signature(table[name].operation)


def resolve_signature(operation: ir.Operation) -> dict[str, Any]:
    """The callee's signature as an argument of the type rule; see `Op`."""
    return {"signature": callee_signature(operation)}


# -------------------------------------------------------------------------------------------- ops

call = Op(
    name="func.call",
    doc="call a function",
    example="%r = func.call @f(%x) : (tensor<f32>) -> tensor<f32>",
    attributes={"callee": SYMBOL},
    results=None,
    resolve=resolve_signature,
    form=Form.CONTROL,
    work=work_rules.nothing,
    infer=_infer_call,
    evaluate=ENGINE,
    jvp=ENGINE,
    transpose=ENGINE,
    batch=ENGINE,
    sharding=sharding_rules.undetermined,
    lower=ENGINE,
)

jvp = Op(
    name="jvp",
    doc="the results of a function and the tangents of its inexact results, "
    "from the primals and the tangents of the arguments ``wrt``",
    example='%y, %dy = "gnomon.jvp"(%x, %dx) {callee = @f, wrt = array<i64: 0>} : '
    "(tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)",
    attributes={"callee": SYMBOL, "wrt": INTS},
    results=None,
    resolve=resolve_signature,
    form=Form.CONTROL,
    work=work_rules.nothing,
    infer=_infer_jvp,
    evaluate=EXPANDED,
    jvp=EXPANDED,
    transpose=EXPANDED,
    batch=EXPANDED,
    sharding=sharding_rules.undetermined,
    lower=EXPANDED,
)

vjp = Op(
    name="vjp",
    doc="the results of a function and the cotangents of the arguments ``wrt``, "
    "from the primals and the cotangents of the results ``outputs``",
    example='%y, %ct = "gnomon.vjp"(%x, %one) {callee = @f, wrt = array<i64: 0>, '
    "outputs = array<i64: 0>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)",
    attributes={"callee": SYMBOL, "wrt": INTS, "outputs": INTS},
    results=None,
    resolve=resolve_signature,
    form=Form.CONTROL,
    work=work_rules.nothing,
    infer=_infer_vjp,
    evaluate=EXPANDED,
    jvp=EXPANDED,
    transpose=EXPANDED,
    batch=EXPANDED,
    sharding=sharding_rules.undetermined,
    lower=EXPANDED,
)

vmap = Op(
    name="vmap",
    doc="a function applied along an axis of its arguments; an axis of -1 means not mapped",
    example='%y = "gnomon.vmap"(%x) {callee = @f, in_axes = array<i64: 0>, '
    'out_axes = array<i64: 0>, axis_size = 4 : i64, axis_name = ""} : '
    "(tensor<4xf32>) -> tensor<4xf32>",
    attributes={
        "callee": SYMBOL,
        "in_axes": INTS,
        "out_axes": INTS,
        "axis_size": INT,
        "axis_name": STRING,
    },
    results=None,
    resolve=resolve_signature,
    form=Form.CONTROL,
    work=work_rules.nothing,
    infer=_infer_vmap,
    evaluate=EXPANDED,
    jvp=EXPANDED,
    transpose=EXPANDED,
    batch=EXPANDED,
    sharding=sharding_rules.undetermined,
    lower=EXPANDED,
)

TRANSFORMATIONS = frozenset({"gnomon.jvp", "gnomon.vjp", "gnomon.vmap", "gnomon.shard_map"})


def emit_call(
    program: Program, op: Op, name: str, operands: Sequence[ir.Value], **params: Any
) -> list[ir.Value]:
    """Create a call or transformation of a function at the current insertion point."""
    params = {"callee": name, **params}
    given = [type_of(v) for v in operands]
    types = op.infer(*given, signature=program.signature(name), **params)
    mlir_types = [mlir_type(t) for t in types]
    attributes = op.encode(params)
    if program.has_effects(name):
        attributes[EFFECTS_MARK] = ir.UnitAttr.get(context())
    if op is call:  # an upstream op, whose operands are not packed
        created = ir.Operation.create(
            op.full_name, results=mlir_types, operands=list(operands), attributes=attributes
        )
        return list(created.results)
    return create(op.full_name, mlir_types, operands, attributes)[1]


__all__ = [
    "TRANSFORMATIONS",
    "Program",
    "Signature",
    "call",
    "callee",
    "callee_signature",
    "check_operands",
    "emit_call",
    "jvp",
    "resolve_signature",
    "signature",
    "symbol_users",
    "vjp",
    "vmap",
    "with_axis",
]
