"""C code for functions of loops over scalars.

Each SSA value becomes a variable, except that constants are written where they are used, and
elements of vectors are computed in one loop where a vector is written to memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.backends.standalone_c.types import C_TYPES, float_literal, integer_literal
from gnomon.dialects.attributes import DENSE
from gnomon.dialects.mlir import ir

__all__ = ["Printer"]

_PER_LINE = 12


@dataclass
class _Vector:
    """A vector that has not been computed yet.

    Attributes:
      element: the C expression of element ``l``.
      reads: the memory that evaluating it reads.
      uses: how many operations have not used it yet.
    """

    element: str
    reads: frozenset[str]
    uses: int


_FLOAT_INFIX = {"addf": "+", "subf": "-", "mulf": "*", "divf": "/"}
_INTEGER_INFIX = {"addi": "+", "subi": "-", "muli": "*", "andi": "&", "ori": "|", "xori": "^"}
_BOOL_INFIX = {"andi": "&&", "ori": "||", "xori": "!="}
_MATH = {
    "arith.remf": "fmod",
    "math.absf": "fabs",
    "math.atan2": "atan2",
    "math.cbrt": "cbrt",
    "math.ceil": "ceil",
    "math.copysign": "copysign",
    "math.cos": "cos",
    "math.exp": "exp",
    "math.expm1": "expm1",
    "math.floor": "floor",
    "math.log": "log",
    "math.log1p": "log1p",
    "math.powf": "pow",
    "math.round": "round",
    "math.roundeven": "rint",
    "math.sin": "sin",
    "math.sqrt": "sqrt",
    "math.tan": "tan",
    "math.tanh": "tanh",
}
_EXTREMA = {"minsi": "<", "maxsi": ">", "minui": "<", "maxui": ">"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# In the order of MLIR's enumerations.
_OF_INTEGERS = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_OF_FLOATS = (
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
)


def _width(type_: str) -> int:
    return 64 if type_ == "index" else int(type_.lstrip("ibf"))


def _unsigned(type_: str) -> str:
    return f"uint{_width(type_)}_t"


def _wrapping(type_: str) -> str:
    """The type in which integers wrap: narrower operands would be promoted to int."""
    return f"uint{max(_width(type_), 32)}_t"


class Printer:
    """Writes the body of a function in C.

    Args:
      parameters: the C expression of each of the function's parameters.

    Attributes:
      lines: the lines of the body.
      constants: the definitions of constant arrays.
    """

    def __init__(self, parameters: Sequence[str]) -> None:
        self.lines: list[str] = []
        self.constants: list[str] = []
        self._parameters = parameters
        self._names: dict[ir.Value, str] = {}
        self._vectors: dict[ir.Value, _Vector] = {}
        self._assignments: list[tuple[int, str]] = []
        self._indent = 1
        self._count = 0
        self._live: set[ir.Operation] = set()

    def write(self, module: ir.Module) -> None:
        """Write the function ``main`` of a module."""
        (block,) = module.operation.regions[0].blocks
        *constants, function = (each.operation for each in block.operations)
        (body,) = function.regions[0].blocks
        self._live = _live(body)
        read = {_symbol(op, "name") for op in self._live if op.name == "memref.get_global"}
        for op in constants:
            if _symbol(op, "sym_name") in read:
                self._global(op)
        for argument, name in zip(body.arguments, self._parameters, strict=True):
            self._names[argument] = name
        self._block(body)

    # ----------------------------------------------------------------------------------- statements

    def _line(self, text: str) -> None:
        self._flush()
        self.lines.append("  " * self._indent + text)

    def _flush(self) -> None:
        """Write the assignments to elements of variables that wait for others of as many elements.

        Compilers keep the vectors of one loop in registers.
        """
        assignments, self._assignments = self._assignments, []
        if not assignments:
            return
        count = assignments[0][0]
        statements = [statement for _, statement in assignments]
        if len(statements) == 1:
            self._line(f"for (int l = 0; l < {count}; ++l) {statements[0]}")
            return
        with self._braces(f"for (int l = 0; l < {count}; ++l)"):
            for statement in statements:
                self._line(statement)

    def _assign(self, count: int, statement: str) -> None:
        """Write an assignment to element ``l`` of a variable."""
        if self._assignments and self._assignments[0][0] != count:
            self._flush()
        self._assignments.append((count, statement))

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    @contextmanager
    def _braces(self, head: str, tail: str = "}") -> Iterator[None]:
        self._line(f"{head} {{")
        self._indent += 1
        yield
        self._flush()
        self._indent -= 1
        self._line(tail)

    def _block(self, block: ir.Block) -> None:
        for each in block.operations:
            op = each.operation
            if op in self._live:
                self._write(op)

    def _write(self, op: ir.Operation) -> None:
        rule = _STATEMENTS.get(op.name)
        if rule is not None:
            rule(self, op)
        elif not _is_fused(op):
            (result,) = op.results
            type_, operands = str(result.type), _operands(op)
            reads = [self._vectors[x].reads for x in operands if x in self._vectors]
            expression = self._expression(op, operands, _element_type(type_))
            if type_.startswith("vector"):
                self._delay(result, expression, frozenset().union(*reads))
            else:
                self._define(result, expression)

    def _define(self, result: ir.Value, expression: str) -> None:
        name = self._names[result] = self._name("t")
        self._line(f"const {C_TYPES[str(result.type)]} {name} = {expression};")

    def _delay(self, result: ir.Value, element: str, reads: frozenset[str]) -> None:
        """Compute a vector where it is used."""
        uses = sum(use.owner.operation in self._live for use in result.uses)
        self._vectors[result] = _Vector(element, reads, uses)

    def _of(self, value: ir.Value) -> str:
        """The C expression of a scalar, or of element ``l`` of a vector."""
        vector = self._vectors.get(value)
        if vector is None:
            return self._names[value]
        vector.uses -= 1
        if vector.uses == 0:
            del self._vectors[value]
        return vector.element

    def _settle(self, memory: str) -> None:
        """Compute the vectors that read memory, before it is written."""
        for value, vector in self._vectors.items():
            if memory in vector.reads:
                type_, name = str(value.type), self._name("t")
                self._line(f"{C_TYPES[_element_type(type_)]} {name}[{_length(type_)}];")
                self._each(_length(type_), f"{name}[l] = {vector.element};")
                vector.element, vector.reads = f"{name}[l]", frozenset()

    def _each(self, count: int, statement: str) -> None:
        self._line(f"for (int l = 0; l < {count}; ++l) {statement}")

    # ---------------------------------------------------------------------------------- expressions

    def _expression(self, op: ir.Operation, values: Sequence[ir.Value], type_: str) -> str:
        dialect, _, name = op.name.partition(".")
        operands = [self._of(x) for x in values]
        source = _element_type(str(op.operands[0].type)) if operands else ""
        if op.name == "vector.broadcast":
            return operands[0]
        if op.name == "arith.select":
            return f"{operands[0]} ? {operands[1]} : {operands[2]}"
        if op.name == "arith.cmpi":
            return _integers_compared(_OF_INTEGERS[_integer(op, "predicate")], operands, source)
        if op.name == "arith.cmpf":
            return _floats_compared(_OF_FLOATS[_integer(op, "predicate")], *operands)
        if op.name in _MATH:
            suffix = "f" if type_ == "f32" else ""
            return f"{_MATH[op.name]}{suffix}({', '.join(operands)})"
        if name in ("maximumf", "minimumf"):
            return f"gnomon_{name[:3]}_{C_TYPES[type_]}({', '.join(operands)})"
        if dialect == "math":
            return _bits_counted(name, operands[0], type_)
        if name == "negf":
            return f"-{operands[0]}"
        if len(operands) == 3:
            return f"GNOMON_FMA_{C_TYPES[type_]}({', '.join(operands)})"
        if name in _FLOAT_INFIX:
            return f"({operands[0]} {_FLOAT_INFIX[name]} {operands[1]})"
        if name in _EXTREMA:
            x, y = operands
            compared = [f"({_unsigned(type_)}){v}" if name.endswith("ui") else v for v in operands]
            return f"{compared[0]} {_EXTREMA[name]} {compared[1]} ? {x} : {y}"
        if len(operands) == 1:
            return _converted(name, operands[0], source, type_)
        return _integer_operation(name, operands, type_)

    # --------------------------------------------------------------------------------------- memory

    def _global(self, op: ir.Operation) -> None:
        attributes = op.attributes
        type_ = ir.MemRefType(ir.TypeAttr(attributes["type"]).value)
        element = str(type_.element_type)
        elements = DENSE.decode(attributes["initial_value"])
        if element in ("f16", "bf16"):
            elements = elements.view(np.uint16)
        texts = [_literal(x, element) for x in elements]
        name = f"gnomon_{_symbol(op, 'sym_name')}"
        lines = [
            "  " + ", ".join(texts[i : i + _PER_LINE]) + ","
            for i in range(0, len(texts), _PER_LINE)
        ]
        head = f"static const {_stored(element)} {name}[{len(texts)}] = {{"
        self.constants.append("\n".join([head, *lines, "};"]))

    def _get_global(self, op: ir.Operation) -> None:
        self._names[op.results[0]] = f"gnomon_{_symbol(op, 'name')}"

    def _constant(self, op: ir.Operation) -> None:
        (result,) = op.results
        self._names[result] = _literal(_value(op.attributes["value"]), str(result.type))

    def _alloca(self, op: ir.Operation) -> None:
        type_ = ir.MemRefType(op.results[0].type)
        element = str(type_.element_type)
        name = self._names[op.results[0]] = self._name("v")
        if type_.rank:
            self._line(f"{_stored(element)} {name}[{type_.shape[0]}];")
        elif element.startswith("vector"):
            self._line(f"{C_TYPES[_element_type(element)]} {name}[{_length(element)}];")
        else:
            self._line(f"{C_TYPES[element]} {name};")

    def _view(self, op: ir.Operation) -> None:
        memory, start = (self._names[x] for x in op.operands)
        stored = _stored(str(ir.MemRefType(op.results[0].type).element_type))
        name = self._names[op.results[0]] = self._name("b")
        self._line(f"{stored} *const {name} = ({stored} *)({memory} + {start});")

    def _load(self, op: ir.Operation) -> None:
        memory, *place = op.operands
        (result,) = op.results
        name, type_ = self._names[memory], str(result.type)
        if type_.startswith("vector"):
            self._delay(result, f"{name}[l]", frozenset({name}))
            return
        self._define(result, f"{name}[{self._names[place[0]]}]" if place else name)

    def _store(self, op: ir.Operation) -> None:
        value, memory, *place = op.operands
        name, type_, element = self._names[memory], str(value.type), self._of(value)
        self._settle(name)
        if type_.startswith("vector"):
            self._assign(_length(type_), f"{name}[l] = {element};")
            return
        target = f"{name}[{self._names[place[0]]}]" if place else name
        self._line(f"{target} = {element};")

    def _vector_load(self, op: ir.Operation) -> None:
        memory, place = (self._names[x] for x in op.operands)
        self._delay(op.results[0], f"{memory}[{place} + l]", frozenset({memory}))

    def _vector_store(self, op: ir.Operation) -> None:
        value, memory, place = op.operands
        name = self._names[memory]
        # It may read the elements that it writes, but no others.
        element = self._of(value)
        self._settle(name)
        self._each(_length(str(value.type)), f"{name}[{self._names[place]} + l] = {element};")

    def _extract(self, op: ir.Operation) -> None:
        position = ir.DenseI64ArrayAttr(op.attributes["static_position"])[0]
        element = re.sub(r"\bl\b", str(position), self._of(op.operands[0]))
        self._define(op.results[0], element)

    # -------------------------------------------------------------------------------------- control

    def _for(self, op: ir.Operation) -> None:
        start, stop, step = (self._names[x] for x in op.operands)
        (body,) = op.regions[0].blocks
        name = self._names[body.arguments[0]] = self._name("i")
        if "gnomon.independent" in op.attributes:
            self._line("GNOMON_INDEPENDENT")
        advance = f"++{name}" if step == "1" else f"{name} += {step}"
        with self._braces(f"for (int64_t {name} = {start}; {name} < {stop}; {advance})"):
            self._block(body)

    def _while(self, op: ir.Operation) -> None:
        with self._braces("for (;;)"):
            for region in op.regions:
                self._block(region.blocks[0])

    def _condition(self, op: ir.Operation) -> None:
        self._line(f"if (!{self._names[op.operands[0]]}) break;")

    def _if(self, op: ir.Operation) -> None:
        with self._braces(f"if ({self._names[op.operands[0]]})"):
            self._block(op.regions[0].blocks[0])

    def _switch(self, op: ir.Operation) -> None:
        default, *cases = (region.blocks[0] for region in op.regions)
        with self._braces(f"switch ({self._names[op.operands[0]]})"):
            for number, block in enumerate((*cases, default)):
                label = f"case {number}:" if number < len(cases) else "default:"
                with self._braces(label):
                    self._block(block)
                    self._line("break;")

    def _nothing(self, op: ir.Operation) -> None:
        pass


_STATEMENTS: dict[str, Callable[[Printer, ir.Operation], None]] = {
    "arith.constant": Printer._constant,
    "memref.get_global": Printer._get_global,
    "memref.alloca": Printer._alloca,
    "memref.view": Printer._view,
    "memref.load": Printer._load,
    "memref.store": Printer._store,
    "vector.load": Printer._vector_load,
    "vector.store": Printer._vector_store,
    "vector.extract": Printer._extract,
    "scf.for": Printer._for,
    "scf.while": Printer._while,
    "scf.condition": Printer._condition,
    "scf.if": Printer._if,
    "scf.index_switch": Printer._switch,
    "scf.yield": Printer._nothing,
    "func.return": Printer._nothing,
}


# --------------------------------------------------------------------------------------- attributes


def _integer(op: ir.Operation, name: str) -> int:
    return int(ir.IntegerAttr(op.attributes[name]).value)


def _value(attribute: ir.Attribute) -> Any:
    if isinstance(attribute, ir.FloatAttr):
        return attribute.value
    return ir.IntegerAttr(attribute).value


def _symbol(op: ir.Operation, attribute: str) -> str:
    return str(op.attributes[attribute]).strip('@"')


def _is_contracted(op: ir.Operation) -> bool:
    return "fastmath" in op.attributes and "contract" in str(op.attributes["fastmath"])


def _is_fused(op: ir.Operation) -> bool:
    """Whether it is a product that is only read by sums, of which it becomes a part."""
    if op.name != "arith.mulf" or not _is_contracted(op):
        return False
    users = [use.owner.operation for use in op.results[0].uses]
    return all(u.name == "arith.addf" and u.operands[0] == op.results[0] for u in users)


def _operands(op: ir.Operation) -> list[ir.Value]:
    """The operands of an operation; three of a sum whose first operand is a product."""
    operands = list(op.operands)
    if op.name == "arith.addf" and _is_contracted(op):
        product = operands[0].owner
        if not isinstance(product, ir.Block) and _is_fused(product.operation):
            return [*product.operation.operands, operands[1]]
    return operands


# ----------------------------------------------------------------------------------------- liveness


def _live(body: ir.Block) -> set[ir.Operation]:
    """The operations with effects that something sees, and those whose results they use.

    For example, a slice of the whole array needs no start, and a loop may carry a value that
    nothing reads. Compilers warn of both.
    """
    live: set[ir.Operation] = set()
    stores: dict[ir.Value, list[ir.Operation]] = {}
    pending: list[ir.Operation] = []

    def visit(block: ir.Block) -> None:
        for each in block.operations:
            op = each.operation
            if op.name == "memref.store" and _is_local(op.operands[1]):
                stores.setdefault(op.operands[1], []).append(op)
            elif op.regions or not op.results or op.name == "scf.while":
                pending.append(op)
            for region in op.regions:
                for inner in region.blocks:
                    visit(inner)

    visit(body)
    while pending:
        op = pending.pop()
        if op in live:
            continue
        live.add(op)
        if op.name in ("memref.load", "vector.load") and op.operands[0] in stores:
            pending += stores.pop(op.operands[0])
        for operand in op.operands:
            owner = operand.owner
            if not isinstance(owner, ir.Block):
                pending.append(owner.operation if isinstance(owner, ir.OpView) else owner)
    return live


def _is_local(memory: ir.Value) -> bool:
    owner = memory.owner
    return not isinstance(owner, ir.Block) and owner.name == "memref.alloca"


# -------------------------------------------------------------------------------------------- types


def _element_type(type_: str) -> str:
    return type_.rpartition("x")[2].rstrip(">") if type_.startswith("vector") else type_


def _length(type_: str) -> int:
    return int(type_.removeprefix("vector<").partition("x")[0])


def _stored(element: str) -> str:
    """The C type of elements in memory."""
    return "uint16_t" if element in ("f16", "bf16") else C_TYPES[element]


def _literal(value: Any, type_: str) -> str:
    if type_ == "i1":
        return "true" if value else "false"
    if type_ in ("f32", "f64"):
        return float_literal(float(value), C_TYPES[type_])
    if type_ in ("f16", "bf16"):
        return str(int(value))
    return str(int(value)) if type_ == "index" else integer_literal(int(value), _width(type_))


def _floats_compared(predicate: str, x: str, y: str) -> str:
    if predicate in ("uno", "ord"):
        text = f"{x} != {x} || {y} != {y}" if x != y else f"{x} != {x}"
        return text if predicate == "uno" else f"!({text})"
    if predicate == "one":
        return f"{x} < {y} || {x} > {y}"
    sign = _COMPARISONS[predicate[1:]]
    if predicate[0] == "o" or predicate == "une":
        return f"{x} {sign} {y}"
    opposite = {"lt": ">=", "le": ">", "gt": "<=", "ge": "<"}[predicate[1:]]
    return f"!({x} {opposite} {y})"


def _integers_compared(predicate: str, operands: Sequence[str], source: str) -> str:
    sign = _COMPARISONS[predicate[-2:]]
    if predicate[0] == "u" and source != "i1":
        operands = [f"({_unsigned(source)}){x}" for x in operands]
    return f"{operands[0]} {sign} {operands[1]}"


def _bits_counted(name: str, operand: str, type_: str) -> str:
    bits = f"(uint64_t)({_unsigned(type_)}){operand}"
    if name == "ctpop":
        return f"({C_TYPES[type_]})gnomon_count_ones({bits})"
    assert name == "ctlz", name
    return f"({C_TYPES[type_]})gnomon_leading_zeros({bits}, {_width(type_)})"


def _integer_operation(name: str, operands: Sequence[str], type_: str) -> str:
    x, y = operands
    to = C_TYPES[type_]
    if type_ == "i1":
        return f"{x} {_BOOL_INFIX[name]} {y}"
    if name in _INTEGER_INFIX:
        if type_ == "index":  # indices do not overflow
            return f"({x} {_INTEGER_INFIX[name]} {y})"
        wide = _wrapping(type_)
        return f"({to})(({wide}){x} {_INTEGER_INFIX[name]} ({wide}){y})"
    sign = {"div": "/", "rem": "%", "shl": "<<", "shr": ">>"}[name[:3]]
    if name == "shli":
        return f"({to})(({_wrapping(type_)}){x} << {y})"
    if name in ("divui", "remui", "shrui"):
        unsigned = _unsigned(type_)
        return f"({to})(({unsigned}){x} {sign} ({unsigned}){y})"
    return f"({to})({x} {sign} {y})"


def _converted(name: str, x: str, source: str, type_: str) -> str:
    to = C_TYPES.get(type_, "")
    if source in ("f16", "bf16"):
        return f"gnomon_load_{source}({x})" if name == "extf" else f"(int16_t){x}"
    if type_ in ("f16", "bf16"):
        return f"gnomon_store_{type_}({x})" if name == "truncf" else f"(uint16_t){x}"
    if name == "bitcast":
        return f"gnomon_bits_{C_TYPES[source]}_{to}({x})"
    if name in ("extui", "uitofp", "index_castui") and source != "i1":
        return f"({to})({_unsigned(source)}){x}"
    if name == "fptoui":
        return f"({to})({_unsigned(type_)}){x}"
    if name == "trunci" and type_ == "i1":
        return f"({x} & 1) != 0"
    return f"({to}){x}"
