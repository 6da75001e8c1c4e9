"""``raise-stablehlo``: turn a program of StableHLO and CHLO into one of the gnomon dialect.

The rules are in `dialects.raising`. Tuples are flattened, and tokens are dropped: the ops that need
them are refused. Attributes of functions and arguments that only guide other compilers (layouts,
shardings, names of frameworks) are dropped as well.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from gnomon.dialects.body import Body
from gnomon.dialects.combinators import describe
from gnomon.dialects.emit import ops
from gnomon.dialects.functions import Program, call, emit_call, symbol_name
from gnomon.dialects.functions import vmap as vmap_op
from gnomon.dialects.mlir import context, ir, passmanager, stablehlo
from gnomon.dialects.raising import RULES, RaiseError, Region, Source
from gnomon.dialects.raising.source import Refusal
from gnomon.dialects.raising.structural import width
from gnomon.dialects.types import TensorType, tensor_type, type_of
from gnomon.passes.chlo_expansions import Expansions, known_function
from gnomon.passes.refine_stablehlo import Argument, is_sized, refine

__all__ = ["OpenArgumentsError", "RaiseError", "is_foreign", "load_chlo", "raise_stablehlo"]

_TERMINATORS = frozenset({"func.return", "stablehlo.return"})
_SMALL = 12
_DIALECTS = frozenset({"stablehlo", "chlo"})
_LOCATION = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')


class OpenArgumentsError(RaiseError):
    """The types of the public function's arguments leave sizes open."""


Environment = dict[ir.Value, list[ir.Value]]


def is_foreign(module: ir.Module) -> bool:
    """Whether a module has no ops of the gnomon dialect."""
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = op.name.startswith("gnomon.")
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return not found


@functools.cache
def load_chlo() -> None:
    """Load the dialect CHLO into the context, so that the parser knows its syntax.

    The bindings have no function for that; a pass that needs the dialect loads it.
    """
    stablehlo.register_stablehlo_passes()
    pipeline = "builtin.module(func.func(stablehlo-complex-math-expander))"
    with ir.Location.unknown(context()):
        empty = ir.Module.parse("func.func @f() { return }", context())
    passmanager.PassManager.parse(pipeline, context()).run(empty.operation)


def raise_stablehlo(module: ir.Module, arguments: Sequence[Argument] | None = None) -> Program:
    """Raise all functions that the public one reaches.

    Args:
      module: a module of StableHLO; its public function is ``main``, or the only public one.
      arguments: what is known of the arguments, for programs whose types leave sizes open; the
        module is refined in place.

    Returns:
      A new program whose public function is ``main``.

    Raises:
      RaiseError: an op or a type has no form in the gnomon dialect, or there is no such function.
    """
    load_chlo()
    if arguments is not None:
        refine(module, _Raiser(module).public, arguments)
    raiser = _Raiser(module)
    raiser.raise_public()
    return raiser.program


class _Raiser:
    """The engine of the rules.

    Attributes:
      program: the program of the gnomon dialect.
    """

    def __init__(self, module: ir.Module) -> None:
        self.program = Program()
        self._sources: dict[str, ir.Operation] = {}
        for op in module.body.operations:
            if op.operation.name == "func.func":
                self._sources[symbol_name(op.operation)] = op.operation
        attributes = module.operation.attributes
        if "sym_name" in attributes:
            self.program.rename(str(ir.StringAttr(attributes["sym_name"]).value))
        # Functions of the source, by the names of their raised forms.
        self._raised: dict[str, str] = {}
        self._active: list[str] = []
        self._env: Environment = {}
        self._expansions = Expansions(module)

    @property
    def public(self) -> ir.Operation:
        """The public function."""
        public = [
            name
            for name, function in self._sources.items()
            if "sym_visibility" not in function.attributes
            or ir.StringAttr(function.attributes["sym_visibility"]).value == "public"
        ]
        name = "main" if "main" in self._sources else public[0] if len(public) == 1 else ""
        if not name:
            known = ", ".join(self._sources) or "none"
            raise RaiseError(f"no function @main, and not one public function (functions: {known})")
        return self._sources[name]

    def raise_public(self) -> None:
        """Raise the public function and its callees."""
        function = self.public
        if not is_sized(function):
            types = ", ".join(str(a.type) for a in function.regions[0].blocks[0].arguments)
            raise OpenArgumentsError(
                f"the sizes of the arguments are not known ({types}); give the arguments' types, "
                f"with --args in a command ({_describe(function.location)})"
            )
        self._function(symbol_name(function), public=True)

    # ------------------------------------------------------------------------------- functions

    def call(self, name: str, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Call a function of the source; see `Engine`."""
        if name not in self._sources:
            raise RaiseError(f"there is no function @{name}")
        block = self._sources[name].regions[0].blocks[0]
        if (known := known_function(name, block)) is not None:
            return list(getattr(ops, known).build(list(operands), {}))
        if _is_small(block):
            outer, self._env = self._env, {}
            try:
                return self.emit(block, operands)
            finally:
                self._env = outer
        return emit_call(self.program, call, self._function(name), operands)

    def function(self, name: str) -> Region:
        """The body of a function of the source; see `Engine`."""
        if name not in self._sources:
            raise RaiseError(f"there is no function @{name}")
        return Region(self._sources[name].regions[0].blocks[0], self)

    def _function(self, name: str, *, public: bool = False) -> str:
        if name in self._raised:
            return self._raised[name]
        if name in self._active:
            raise RaiseError(f"the function @{name} calls itself; programs have no recursion")
        function = self._sources[name]
        blocks = list(function.regions[0].blocks)
        if len(blocks) != 1:
            reason = "has no body" if not blocks else "has branches between blocks"
            raise RaiseError(f"the function @{name} {reason} ({_describe(function.location)})")
        outer, self._env = self._env, {}
        self._active.append(name)
        try:
            body = self._body(blocks[0], [], function.location)
        finally:
            self._active.pop()
            self._env = outer
        raised = "main" if public else "callee" if name == "main" else name
        self._raised[name] = self.program.add(
            raised, body, public=public, location=function.location
        )
        return self._raised[name]

    def _body(self, block: ir.Block, captured: Sequence[ir.Value], location: ir.Location) -> Body:
        """Raise a block into a body that takes captured source values, then the arguments."""
        outside = [v for value in captured for v in self._env[value]]
        types = [type_of(v) for v in outside]
        inside = self._flat_types(block.arguments, location)
        outer = self._env
        body = Body.open([*types, *inside], location)
        arguments = iter(body.arguments)
        self._env = {value: [next(arguments) for _ in outer[value]] for value in captured}
        try:
            with ir.InsertionPoint(body.block), location:
                body.close(self.emit(block, list(arguments)))
        finally:
            self._env = outer
        return body

    def _flat_types(self, values: Sequence[ir.Value], location: ir.Location) -> list[TensorType]:
        try:
            return [t for value in values for t in _flat_types(value.type)]
        except TypeError as error:
            raise RaiseError(f"{error} ({_describe(location)})") from error

    # ---------------------------------------------------------------------------------- blocks

    def emit(self, block: ir.Block, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Raise a block at the current insertion point; see `Engine`."""
        given = iter(operands)
        for argument in block.arguments:
            self._env[argument] = [next(given) for _ in range(width(argument.type))]
        for view in block.operations:
            op = view.operation
            operands = [v for operand in op.operands for v in self._env[operand]]
            if op.name in _TERMINATORS:
                return operands
            with op.location:
                results = iter(self._results(op, operands))
            for result in op.results:
                self._env[result] = [next(results) for _ in range(width(result.type))]
        raise RaiseError("a block has no terminator")

    def _results(self, op: ir.Operation, operands: Sequence[ir.Value]) -> list[ir.Value]:
        known = self._expansions.match(op)
        if known is not None:
            name, argument = known
            return list(getattr(ops, name).build(self._env[argument], {}))
        rule = RULES.get(op.name)
        try:
            if isinstance(rule, Refusal):
                raise RaiseError(rule.reason)
            if rule is None:
                raise RaiseError(_unknown(op.name))
            expected = [t for result in op.results for t in _flat_types(result.type)]
            made = rule(Source(op, operands, self))
            results = [made] if isinstance(made, ir.Value) else list(made)
            types = [type_of(r) for r in results]
            if types != expected:
                raise RaiseError(
                    f"its rule gives ({describe(types)}), but the op is declared with "
                    f"({describe(expected)})"
                )
        except _LocatedError:
            raise
        except (RaiseError, TypeError, ValueError, KeyError, IndexError) as error:
            raise _LocatedError(f"{op.name}: {error} ({_describe(op.location)})") from error
        return results

    def captured(self, block: ir.Block) -> list[ir.Value]:
        """The raised values that a block uses from outside; see `Engine`."""
        return [v for value in self._free(block) for v in self._env[value]]

    def close(self, block: ir.Block) -> Body:
        """Raise a block into a closed body; see `Engine`."""
        return self._body(block, self._free(block), ir.Location.current)

    def vectorize(self, block: ir.Block, operands: Sequence[ir.Value], size: int) -> list[ir.Value]:
        """Map a raised block over the leading dimension; see `Engine`."""
        free = self.captured(block)
        name = self.program.add("element", self.close(block))
        return emit_call(
            self.program,
            vmap_op,
            name,
            [*free, *operands],
            in_axes=(*(-1 for _ in free), *(0 for _ in operands)),
            out_axes=tuple(0 for _ in self.program.signature(name).results),
            axis_size=size,
            axis_name="",
        )

    def _free(self, block: ir.Block) -> list[ir.Value]:
        """The source values that a block uses and does not define, in order of use."""
        defined: set[ir.Value] = set()
        used: dict[ir.Value, None] = {}

        def visit(inner: ir.Block) -> None:
            defined.update(inner.arguments)
            for op in inner.operations:
                used.update(dict.fromkeys(v for v in op.operands if v not in defined))
                for region in op.operation.regions:
                    for nested in region.blocks:
                        visit(nested)
                defined.update(op.results)

        visit(block)
        return list(used)


class _LocatedError(RaiseError):
    """An error whose message names the op and the line."""


def _is_small(block: ir.Block) -> bool:
    """Whether a function is a few plain operations.

    Its calls are replaced by the operations: JAX makes functions of the index arithmetic by which
    loops over rows are recognized.
    """
    operations = [op.operation for op in block.operations]
    return len(operations) <= _SMALL and not any(
        len(op.regions) or op.name == "func.call" for op in operations
    )


def _flat_types(type_: ir.Type) -> list[TensorType]:
    if isinstance(type_, ir.TupleType):
        return [t for i in range(type_.num_types) for t in _flat_types(type_.get_type(i))]
    return [tensor_type(type_)] if width(type_) else []


def _unknown(name: str) -> str:
    dialect = name.partition(".")[0]
    if dialect in _DIALECTS:
        return "the gnomon dialect has no form of it"
    return f"ops of the dialect {dialect!r} are not imported, only StableHLO's and CHLO's"


def _describe(location: ir.Location) -> str:
    """The file, line and column of a location; the innermost if there are several."""
    match = _LOCATION.search(str(location))
    return ":".join(match.groups()) if match else str(location)
