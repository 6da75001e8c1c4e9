"""Sizes as MLIR attributes, for parameters of operations and encodings of tensor types.

``{gnomon.dims = ["b", 3], gnomon.scope = 5 : i64}`` is a shape, ``{gnomon.dim = "2*b", gnomon.scope
= 5 : i64}`` a size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gnomon.dialects.mlir import context, ir
from gnomon.dialects.symbolic.bounds import LARGEST
from gnomon.dialects.symbolic.dimension import (
    Dimension,
    is_symbolic_dim,
    parsed,
    scope_numbered,
    substituted,
)

_SHAPE, _SIZE, _SCOPE = "gnomon.dims", "gnomon.dim", "gnomon.scope"


def _number(value: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context()), value)


def _part(size: Any) -> ir.Attribute:
    return ir.StringAttr.get(str(size), context()) if is_symbolic_dim(size) else _number(int(size))


def encode_sizes(sizes: Sequence[Any]) -> ir.Attribute:
    """Encode sizes, at least one of which is symbolic.

    Raises:
      ValueError: two of them belong to different scopes.
    """
    symbolic = [n for n in sizes if isinstance(n, Dimension)]
    for size in symbolic[1:]:
        symbolic[0] - size  # raises if the scopes differ
    listed = ir.ArrayAttr.get([_part(n) for n in sizes], context())
    found = {_SHAPE: listed, _SCOPE: _number(symbolic[0].scope.number)}
    return ir.DictAttr.get(found, context())


def encode_size(size: Dimension) -> ir.Attribute:
    """Encode a symbolic size."""
    found = {_SIZE: _part(size), _SCOPE: _number(size.scope.number)}
    return ir.DictAttr.get(found, context())


def decode_sizes(attr: ir.Attribute) -> tuple[Any, ...]:
    """Decode sizes.

    Raises:
      TypeError: `encode_sizes` did not make the attribute.
    """
    if not _is(attr, _SHAPE):
        raise TypeError(f"expected sizes, got {attr}")
    scope = scope_numbered(int(ir.IntegerAttr(attr[_SCOPE]).value))
    return tuple(
        scope.parse(ir.StringAttr(n).value) if isinstance(n, ir.StringAttr) else _plain(n)
        for n in ir.ArrayAttr(attr[_SHAPE])
    )


def decode_size(attr: ir.Attribute) -> Any:
    """Decode a size; raises ``TypeError`` if `encode_size` did not make the attribute."""
    if not _is(attr, _SIZE):
        raise TypeError(f"expected a size, got {attr}")
    scope = scope_numbered(int(ir.IntegerAttr(attr[_SCOPE]).value))
    return scope.parse(ir.StringAttr(attr[_SIZE]).value)


def _plain(attr: ir.Attribute) -> int:
    return int(ir.IntegerAttr(attr).value)


def is_symbolic_attribute(attr: ir.Attribute) -> bool:
    """Whether an attribute is a size or a list of sizes, at least one of them symbolic."""
    return _is(attr, _SHAPE) or _is(attr, _SIZE)


def is_symbolic_type(type_: ir.Type) -> bool:
    """Whether a type is that of an array with symbolic dimensions."""
    return isinstance(type_, ir.RankedTensorType) and _is(type_.encoding, _SHAPE)


def without_expressions(type_: ir.Type) -> ir.Type:
    """A type whose symbolic dimensions are ``?`` alone."""
    if isinstance(type_, ir.FunctionType):
        inputs, results = (
            [without_expressions(t) for t in types] for types in (type_.inputs, type_.results)
        )
        return ir.FunctionType.get(inputs, results, context())
    if not is_symbolic_type(type_):
        return type_
    with ir.Location.unknown(context()):
        return ir.RankedTensorType.get(type_.shape, type_.element_type)


def _is(attr: Any, key: str) -> bool:
    return isinstance(attr, ir.DictAttr) and key in attr and _SCOPE in attr


class Substitution:
    """Replaces the variables of types and attributes by sizes.

    Args:
      values: the size of each variable, which may be symbolic itself.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._attributes: dict[ir.Attribute, ir.Attribute] = {}
        self._types: dict[ir.Type, ir.Type] = {}

    def _size(self, part: ir.Attribute) -> Any:
        if not isinstance(part, ir.StringAttr):
            return _plain(part)
        return substituted(parsed(ir.StringAttr(part).value), self._values)

    def _sizes(self, attr: Any) -> list[Any]:
        return [self._size(n) for n in ir.ArrayAttr(attr[_SHAPE])]

    def attribute(self, attr: ir.Attribute) -> ir.Attribute:
        """An attribute with its variables replaced by sizes."""
        found = self._attributes.get(attr)
        if found is None:
            found = self._attributes[attr] = self._new_attribute(attr)
        return found

    def _new_attribute(self, attr: Any) -> ir.Attribute:
        if _is(attr, _SHAPE):
            sizes = self._sizes(attr)
            if any(map(is_symbolic_dim, sizes)):
                return encode_sizes(sizes)
            return ir.DenseI64ArrayAttr.get(sizes, context())
        if _is(attr, _SIZE):
            size = self._size(attr[_SIZE])
            return encode_size(size) if is_symbolic_dim(size) else _number(size)
        if isinstance(attr, ir.ArrayAttr):
            return ir.ArrayAttr.get([self.attribute(a) for a in attr], context())
        if isinstance(attr, ir.DictAttr):
            named = {attr[i].name: self.attribute(attr[i].attr) for i in range(len(attr))}
            return ir.DictAttr.get(named, context())
        if isinstance(attr, ir.TypeAttr):
            return ir.TypeAttr.get(self.type(attr.value), context())
        return attr

    def type(self, type_: ir.Type) -> ir.Type:
        """A type with its variables replaced by sizes."""
        found = self._types.get(type_)
        if found is None:
            found = self._types[type_] = self._new_type(type_)
        return found

    def _new_type(self, type_: ir.Type) -> ir.Type:
        if isinstance(type_, ir.TupleType):
            parts = [self.type(type_.get_type(i)) for i in range(type_.num_types)]
            return ir.TupleType.get_tuple(parts, context())
        if isinstance(type_, ir.FunctionType):
            inputs, results = (list(map(self.type, t)) for t in (type_.inputs, type_.results))
            return ir.FunctionType.get(inputs, results, context())
        if not isinstance(type_, ir.RankedTensorType) or not _is(type_.encoding, _SHAPE):
            return type_
        with ir.Location.unknown(context()):
            sizes = self._sizes(type_.encoding)
            for size, part in zip(sizes, type_.encoding[_SHAPE], strict=True):
                # Indices into symbolic dimensions have 32 bits.
                if not is_symbolic_dim(size) and not 0 <= size <= LARGEST:
                    raise ValueError(
                        f"the dimension {part} of an array would be {size}, but a symbolic "
                        "dimension must be in [0, 2**31 - 1]"
                    )
            if not any(map(is_symbolic_dim, sizes)):
                return ir.RankedTensorType.get(sizes, type_.element_type)
            dynamic = ir.ShapedType.get_dynamic_size()
            return ir.RankedTensorType.get(
                [dynamic if is_symbolic_dim(n) else n for n in sizes],
                type_.element_type,
                encoding=encode_sizes(sizes),
            )
