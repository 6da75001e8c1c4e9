"""StableHLO operations as the raising rules see them, and the table of rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from gnomon.dialects.attributes import constant_elements
from gnomon.dialects.body import Body
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType, tensor_type

__all__ = [
    "RULES",
    "Engine",
    "RaiseError",
    "Refusal",
    "Region",
    "Rule",
    "Source",
    "raises",
    "refuse",
]


class RaiseError(ValueError):
    """An op that cannot be expressed in the gnomon dialect; the message names op and line."""


class Engine(Protocol):
    """What the rules need of `passes.raise_stablehlo`."""

    def emit(self, block: ir.Block, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Raise a block at the current insertion point; return the values of its terminator."""

    def captured(self, block: ir.Block) -> list[ir.Value]:
        """The raised values from outside of a block that operations in it use."""

    def close(self, block: ir.Block) -> Body:
        """Raise a block into a body that takes the captured values, then the block's arguments."""

    def vectorize(self, block: ir.Block, operands: Sequence[ir.Value], size: int) -> list[ir.Value]:
        """Map a raised block over the leading dimension, of ``size``, of all operands."""

    def call(self, name: str, operands: Sequence[ir.Value]) -> list[ir.Value]:
        """Call a function of the source program."""

    def function(self, name: str) -> Region:
        """The body of a function of the source program."""


class Region:
    """A region of one block, which may use values of the regions around it.

    Attributes:
      block: the block.
    """

    def __init__(self, block: ir.Block, engine: Engine) -> None:
        self.block = block
        self._engine = engine

    @property
    def captured(self) -> list[ir.Value]:
        """The raised values from outside that the region uses."""
        return self._engine.captured(self.block)

    @property
    def operations(self) -> list[ir.Operation]:
        """The operations, without the terminator."""
        return [op.operation for op in self.block.operations][:-1]

    @property
    def results(self) -> list[ir.Value]:
        """The source values that the region returns."""
        operations = self.block.operations
        return list(operations[len(operations) - 1].operation.operands)

    def emit(self, *operands: ir.Value) -> list[ir.Value]:
        """Raise the region in place, with operands as its arguments."""
        return self._engine.emit(self.block, operands)

    def close(self) -> Body:
        """The region as a body that takes the captured values, then the region's arguments."""
        return self._engine.close(self.block)

    def vectorize(self, operands: Sequence[ir.Value], size: int) -> list[ir.Value]:
        """Map the region over the leading dimension of all operands."""
        return self._engine.vectorize(self.block, operands, size)

    def combiner(self) -> str | None:
        """The StableHLO op that combines the two arguments, in any order, if there is nothing else.

        ``"first"`` and ``"second"`` mean that the region returns that argument.
        """
        arguments, results = list(self.block.arguments), self.results
        if len(arguments) != 2 or len(results) != 1:
            return None
        operations = self.operations
        if not operations:
            names = dict(zip(arguments, ("first", "second"), strict=True))
            return names.get(results[0])
        if len(operations) != 1 or list(operations[0].results) != results:
            return None
        operands = list(operations[0].operands)
        if operands in (arguments, arguments[::-1]):
            return operations[0].name.removeprefix("stablehlo.")
        return None


class Source:
    """An operation of the source program.

    Attributes:
      operation: the operation.
      operands: its operands, raised. Tuples are flattened, and tokens are left out.
    """

    def __init__(
        self, operation: ir.Operation, operands: Sequence[ir.Value], engine: Engine
    ) -> None:
        self.operation = operation
        self.operands = list(operands)
        self.engine = engine

    @property
    def name(self) -> str:
        """The full name of the op."""
        return self.operation.name

    @property
    def operand(self) -> ir.Value:
        """The only operand."""
        (operand,) = self.operands
        return operand

    @property
    def result_types(self) -> list[TensorType]:
        """The types of the results."""
        return [tensor_type(r.type) for r in self.operation.results]

    @property
    def type(self) -> TensorType:
        """The type of the only result."""
        (type_,) = self.result_types
        return type_

    @property
    def regions(self) -> list[Region]:
        """The regions."""
        return [Region(r.blocks[0], self.engine) for r in self.operation.regions]

    @property
    def region(self) -> Region:
        """The only region."""
        (region,) = self.regions
        return region

    # -------------------------------------------------------------------------------- attributes

    def attribute(self, name: str) -> Any:
        """An attribute; None if the operation lacks it."""
        attributes = self.operation.attributes
        return attributes.get(name)

    def ints(self, name: str, default: Sequence[int] = ()) -> tuple[int, ...]:
        """An attribute with a list of integers."""
        attribute = self.attribute(name)
        if attribute is None:
            return tuple(default)
        if isinstance(attribute, ir.ArrayAttr):
            return tuple(int(ir.IntegerAttr(a).value) for a in attribute)
        if isinstance(attribute, ir.DenseElementsAttr):
            return tuple(int(n) for n in np.asarray(attribute).reshape(-1))
        return tuple(int(n) for n in ir.DenseI64ArrayAttr(attribute))

    def flags(self, name: str, default: Sequence[bool]) -> tuple[bool, ...]:
        """An attribute with a list of bools."""
        attribute = self.attribute(name)
        return tuple(default) if attribute is None else tuple(map(bool, attribute))

    def integer(self, name: str, default: int = 0) -> int:
        """An integer attribute."""
        attribute = self.attribute(name)
        return default if attribute is None else int(ir.IntegerAttr(attribute).value)

    def number(self, name: str) -> float:
        """An attribute with a float."""
        return float(ir.FloatAttr(self.attribute(name)).value)

    def flag(self, name: str, default: bool = False) -> bool:
        """A bool attribute."""
        attribute = self.attribute(name)
        return default if attribute is None else bool(ir.BoolAttr(attribute).value)

    def word(self, name: str, default: str = "") -> str:
        """The text of a string, symbol or enumerated attribute."""
        attribute = self.attribute(name)
        if attribute is None:
            return default
        if isinstance(attribute, (ir.StringAttr, ir.FlatSymbolRefAttr)):
            return str(attribute.value)
        return str(attribute).rpartition(" ")[2].rstrip(">")

    @property
    def options(self) -> dict[str, ir.Attribute]:
        """The typed options of a custom call, from whichever attribute holds them."""
        for name in ("mhlo.backend_config", "backend_config", "mhlo.attributes"):
            attribute = self.attribute(name)
            if isinstance(attribute, ir.DictAttr):
                return {item.name: item.attr for item in attribute}
        return {}

    def padding(self, rank: int, name: str = "padding") -> tuple[tuple[int, int], ...]:
        """The pairs of low and high padding of each dimension."""
        if self.attribute(name) is None:
            return ((0, 0),) * rank
        numbers = self.ints(name)
        return tuple(zip(numbers[::2], numbers[1::2], strict=True))

    def elements(self) -> np.ndarray:
        """The elements of a constant."""
        return constant_elements(self.operation)


Rule: TypeAlias = "Callable[[Source], ir.Value | Sequence[ir.Value]]"


class Refusal(NamedTuple):
    """The reason why no rule raises an op."""

    reason: str


RULES: dict[str, Rule | Refusal] = {}
"""A rule or a refusal by the full name of an op of StableHLO or CHLO."""


def _register(name: str, rule: Rule | Refusal) -> None:
    full_name = name if "." in name else f"stablehlo.{name}"
    if full_name in RULES:
        raise TypeError(f"the op {full_name} has two rules")
    RULES[full_name] = rule


def raises(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for ops; names without a dialect are StableHLO's."""

    def register(rule: Rule) -> Rule:
        for name in names:
            _register(name, rule)
        return rule

    return register


def refuse(reason: str, *names: str) -> None:
    """Register the reason why ops cannot be raised."""
    for name in names:
        _register(name, Refusal(reason))
