"""Conversion of portable artifacts for a plugin: its version, and marks of donated arguments."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.backends.errors import UnsupportedOnTarget
from gnomon.backends.pjrt.plugin import Plugin
from gnomon.dialects.functions import symbol_name
from gnomon.dialects.mlir import context, ir, stablehlo

__all__ = ["mark_donated", "negotiated"]


def negotiated(plugin: Plugin, portable: bytes, donate: Sequence[int] = ()) -> bytes:
    """The artifact at the plugin's version, with the donated arguments marked.

    Raises:
      BackendUnavailable: there is no version that both sides support.
      UnsupportedOnTarget: the program has an op that is too new for the plugin.
    """
    version = plugin.stablehlo_version
    if version == stablehlo.get_current_version() and not donate:
        return portable
    module = stablehlo.deserialize_portable_artifact(context(), portable)
    mark_donated(module, donate)
    try:
        return bytes(stablehlo.serialize_portable_artifact_str(str(module), version))
    except ValueError as error:
        raise UnsupportedOnTarget(
            f"the program cannot be written in StableHLO {version}, the newest that the plugin "
            f"{plugin.path} reads: {error}; install a newer plugin"
        ) from error


def mark_donated(module: ir.Module, donate: Sequence[int]) -> None:
    """Mark which arguments of ``main`` the compiler may overwrite, and with which results.

    Each argument is aliased with the first free result of its type. If there is none, the compiler
    may use its memory for intermediate values. In a program for several devices the compiler pairs
    them, since values of one type may be split in different ways.
    """
    if not donate:
        return
    (main,) = (op for op in module.body.operations if symbol_name(op.operation) == "main")
    function = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    partitioned = "mhlo.num_partitions" in module.operation.attributes
    free = {} if partitioned else dict(enumerate(function.results))
    attributes: list[dict[str, ir.Attribute]] = [{} for _ in function.inputs]
    if "arg_attrs" in main.attributes:
        given = [ir.DictAttr(each) for each in ir.ArrayAttr(main.attributes["arg_attrs"])]
        attributes = [{named.name: named.attr for named in each} for each in given]
    for argument in donate:
        wanted = function.inputs[argument]
        result = next((i for i, type_ in free.items() if type_ == wanted), None)
        if result is None:
            attributes[argument]["jax.buffer_donor"] = ir.BoolAttr.get(True, context())
        else:
            del free[result]
            number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32, context()), result)
            attributes[argument]["tf.aliasing_output"] = number
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(
        [ir.DictAttr.get(entry, context()) for entry in attributes], context()
    )
