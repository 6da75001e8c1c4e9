"""The device as an attribute of the module, for properties that the compiler has no flags for."""

from __future__ import annotations

from gnomon.backends.iree.targets import Target
from gnomon.dialects.mlir import ir, other_dialects

__all__ = ["describe_device"]


def describe_device(module: ir.Module, target: Target) -> str:
    """Write a target's device into a StableHLO module, and return the text for the compiler."""
    context = module.context
    with other_dialects(context):
        module.operation.attributes["hal.device.targets"] = ir.Attribute.parse(
            target.device, context
        )
        return str(module)
