"""Lowering for XLA's compilers, and the devices that a lowered program is partitioned over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from gnomon.backends import profiling
from gnomon.backends.compilation import Artifact, Lowering, Observer
from gnomon.backends.interface import Device
from gnomon.backends.pjrt.legalize import legalize
from gnomon.backends.shards import NUMBERS
from gnomon.dialects import shardy
from gnomon.dialects.functions import Program
from gnomon.dialects.mlir import ir
from gnomon.dialects.types import TensorType
from gnomon.passes.pipeline import Pass

__all__ = ["Partitions", "devices_of_plan", "lower_for_xla", "partitions_of"]

AnyDevice = TypeVar("AnyDevice", bound=Device)
_Rewrite: TypeAlias = "Callable[[ir.Module], None]"


@dataclass(frozen=True)
class Partitions:
    """How a program is partitioned over devices.

    Attributes:
      devices: the numbers of the devices (see `shards.NUMBERS`), one for each partition.
      input_types, output_types: the types of the arguments and results on each device.
    """

    devices: tuple[int, ...]
    input_types: tuple[TensorType, ...]
    output_types: tuple[TensorType, ...]


def partitions_of(program: Program) -> Partitions | None:
    """The partitions of a program; None for a program for one device."""
    mesh = shardy.mesh_of(program.module)
    if mesh is None:
        return None
    inputs, outputs = shardy.local_types(program.module, mesh)
    return Partitions(mesh.devices, tuple(inputs), tuple(outputs))


def lower_for_xla(
    program: Program,
    platform: str,
    kind: str,
    *,
    keep_stages: bool,
    observe: Observer | None,
    python_calls: tuple[_Rewrite, _Rewrite] | None = None,
) -> Artifact:
    """Lower a program to StableHLO for one of XLA's compilers; see `Backend.lower`.

    Args:
      program: the program; its partitions are the plan of the artifact.
      platform: the name of the platform, for messages.
      kind: the compiler's own name of its devices; empty if it is not known.
      python_calls: rewrites of the legalized program, with host calls, and of the lowered program,
        with external functions; None if programs cannot call Python.
    """
    partitions = partitions_of(program)
    lowering = Lowering(program, keep_stages=keep_stages, observe=observe)
    with profiling.span("lower", program=lowering.name):
        lowering.expand()
        lowering.run(("expand-scan",))
        lowering.legalize(
            Pass(
                "legalize-for-pjrt",
                "rewrite ops that XLA's compilers have no code for",
                lambda module: legalize(
                    module, platform, kind, calls_python=python_calls is not None
                ),
            )
        )
        if python_calls is not None:
            prepare, emit = python_calls
            lowering.legalize(Pass("order-python-calls", "put calls of Python in order", prepare))
        lowering.to_stablehlo()
        if python_calls is not None:
            lowering.legalize(Pass("emit-python-calls", "emit the calls of Python", emit))
        return lowering.artifact(plan=partitions)


def devices_of_plan(
    devices: Sequence[AnyDevice], plan: Partitions, platform: str
) -> tuple[AnyDevice, ...]:
    """The devices that a program is partitioned over.

    Raises:
      ValueError: the platform has no such device.
    """
    by_id = {device.id: device for device in devices}
    numbers = [number % NUMBERS for number in plan.devices]
    missing = [number for number in numbers if number not in by_id]
    if missing:
        raise ValueError(
            f"the program is partitioned over devices {missing} that the platform {platform!r} "
            f"does not have; it has {sorted(by_id)}"
        )
    return tuple(by_id[number] for number in numbers)
