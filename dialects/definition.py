"""The IRDL definition of the dialect, from the registry of ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gnomon.dialects.body import operands_of
from gnomon.dialects.contract import (
    REGISTRY,
    STRUCTURE,
    Op,
    TypeRuleError,
    bodies_of,
    params_of,
    result_types,
)
from gnomon.dialects.mlir import ensure_context, ext, ir, irdl, register
from gnomon.dialects.types import type_of


def _verify(operation: ir.Operation) -> bool:
    """Verify an op of the dialect: its attributes decode, and its types match the type rule."""
    op = REGISTRY[operation.name]
    try:
        params = params_of(operation, op)
        bodies = bodies_of(operation) if op.is_control_flow else ()
        if op.resolve:
            params = params | op.resolve(operation)
        given = [type_of(v) for v in operands_of(operation)]
        expected = op.infer_types(given, params, bodies)
        actual = result_types(operation)
        if expected != actual:
            raise TypeRuleError(
                f"{op.full_name}: the type rule gives ({', '.join(map(str, expected))}), "
                f"the op is declared with ({', '.join(map(str, actual))})"
            )
    except (TypeError, ValueError, IndexError) as error:
        operation.location.emit_error(f"'{op.full_name}' op breaks its type rule: {error}")
        return False
    return True


def _define(dialect: Any, op: Op) -> None:
    annotations: dict[str, Any] = {}
    if op.operands is ...:
        annotations["inputs"] = Sequence[ext.Operand[Any]]
    else:
        annotations |= {f"{name}_": ext.Operand[Any] for name in op.operands}
    annotations |= dict.fromkeys(op.attributes, Any)
    regions = ("branches",) if op.regions is ... else op.regions
    annotations |= {f"{name}_region": ext.Region for name in regions}
    if op.results is None:
        annotations["outputs"] = Sequence[ext.Result[Any]]
    else:
        annotations |= {f"result{i}": ext.Result[Any] for i in range(op.results)}
    # A structural part of a region op has no results: if it were pure, upstream would erase it as
    # dead. A region op may contain an op with effects, which upstream's passes would not see if the
    # region op were pure. Dead region ops are dropped by ``drop-unused-results``, which looks
    # inside.
    is_impure = op.evaluate is STRUCTURE or op.effects or bool(regions)
    traits: list[type] = [] if is_impure else [ext.Pure]
    if op.terminator:
        traits.append(ir.IsTerminatorTrait)
    if regions and op.regions is not ...:
        traits.append(ir.IsIsolatedFromAboveTrait)
    if op.regions is ...:
        traits.append(ir.NoTerminatorTrait)
    namespace: dict[str, Any] = {"__annotations__": annotations, "__module__": __name__}
    if op.evaluate is not STRUCTURE:
        namespace["verify_invariants"] = lambda self: _verify(self.operation)
    metaclass: Any = type(ext.Operation)
    metaclass(op.name, (dialect.Operation,), namespace, name=op.name, traits=traits)


def load_dialect() -> None:
    """Load the dialect with every registered op into the process's context.

    Called once, after all modules of the dialect have been imported.
    """

    class GnomonDialect(ext.Dialect, name="gnomon"):  # type: ignore[call-arg]
        """The IRDL dialect."""

    for op in REGISTRY.values():
        if op.full_name.startswith("gnomon."):
            _define(GnomonDialect, op)
    ensure_context()
    # ``GnomonDialect.load`` would merge equal constraints, and two operands that share a
    # constraint must have equal types.
    module = GnomonDialect._emit_module()
    GnomonDialect._mlir_module = module
    irdl.load_dialects(module)
    for operation in GnomonDialect.operations:
        operation._attach_traits()
    register(GnomonDialect, GnomonDialect.operations)
