"""The options of a compilation, and their choice by the cost of the program."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = [
    "EXECUTION_MODELS",
    "CompileOptions",
    "ProgramCost",
    "available_cores",
    "choose_options",
    "seconds_of_work",
]

logger = logging.getLogger(__name__)

# Our names of execution models, with IREE's.
EXECUTION_MODELS = {
    "sync": "async-internal",
    "blocking": "async-internal",
    "async": "async-external",
}
_OPT_LEVELS = ("O0", "O1", "O2", "O3")
_TIMEOUT = "GNOMON_COMPILE_TIMEOUT_S"
_APART = "GNOMON_KERNELS_APART"


def _timeout_s() -> float:
    text = os.environ.get(_TIMEOUT, "600")
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{_TIMEOUT} must be a number of seconds, got {text!r}") from None


def _kernels_apart() -> bool:
    return os.environ.get(_APART, "1").strip().lower() not in ("0", "off", "false")


@dataclass(frozen=True)
class CompileOptions:
    """How one program is compiled.

    Attributes:
      execution_model: "sync" programs run inline and return when they are done; "async" ones run
        on the thread pool, take a fence to wait for and one to signal, and return at once;
        "blocking" ones run on the thread pool and return when they are done.
      opt_level: "O0" to "O3".
      data_tiling: whether to pack the operands of matrix multiplications into tiles.
      hoist_constants: whether to compute values that depend only on literals once, when the
        program is loaded. It is off for programs with control flow, except in the form of guarded
        loops, since the compiler lays out the memory of hoisted loops wrongly (``invalid Read
        access range``, or an access out of range when the program runs).
      timeout_s: the number of seconds after which the compiler is stopped; by default the
        environment's `GNOMON_COMPILE_TIMEOUT_S`, or 600.
      kernels_apart: whether to compile the kernels of a program for this machine's processor
        separately, in several processes, and to reuse kernels of earlier programs. True unless
        the environment's `GNOMON_KERNELS_APART` is `0`, `off` or `false`.
    """

    execution_model: str = "sync"
    opt_level: str = "O3"
    data_tiling: bool = False
    hoist_constants: bool = True
    timeout_s: float = field(default_factory=_timeout_s)
    kernels_apart: bool = field(default_factory=_kernels_apart)

    def __post_init__(self) -> None:
        if self.execution_model not in EXECUTION_MODELS:
            raise ValueError(
                f"execution_model must be one of {sorted(EXECUTION_MODELS)}, "
                f"got {self.execution_model!r}"
            )
        if self.opt_level not in _OPT_LEVELS:
            raise ValueError(f"opt_level must be one of {_OPT_LEVELS}, got {self.opt_level!r}")
        if not self.timeout_s > 0:
            raise ValueError(f"timeout_s must be positive, got {self.timeout_s}")


class ProgramCost(NamedTuple):
    """The work of a program, as its caller estimates it.

    Attributes:
      operations: the flops of contractions, and the numbers that other ops compute or move, those
        of loops times their trip counts.
      traffic: the bytes that arguments, results and kernels read and write.
      dispatches: the number of kernels launched one after another.
      contraction_flops: the part of `operations` in unbatched contractions outside of loops whose
        three sizes are all at least 64.
      batched_flops: the part in batched contractions.
      product_flops: the part in contractions of all kinds.
      serial_operations: the part that runs in one thread.
      serial_bytes: bytes that it accesses.
    """

    operations: float = 0.0
    traffic: float = 0.0
    dispatches: float = 1.0
    contraction_flops: float = 0.0
    batched_flops: float = 0.0
    product_flops: float = 0.0
    serial_operations: float = 0.0
    serial_bytes: float = 0.0


# The speed of one core: contractions, other operations, and bytes, about half of them from a cache.
# Cores differ: an AMD Zen 5 computes 2e11 operations of large products, and 8e10 of a layer
# normalization, but 3e9 of a loop over pairs of bodies.
_PRODUCTS_PER_S = 8e10
_FLOPS_PER_S = 1e10
_BYTES_PER_S = 4e10
# Launching one kernel inline, and on the thread pool (measured, see docs of `choose_options`).
_SYNC_DISPATCH_S = 0.7e-6
_ASYNC_DISPATCH_S = 8e-6
_ASYNC_CALL_S = 60e-6
# A host call on the thread pool: the caller waits for the operands, and the threads for the caller.
# Cepstra, with a Fourier transform by NumPy in the middle, take 0.50 ms on two idle cores and 0.57
# inline, although the figures above promise a gain of 0.2; on busy cores they take 0.91 and 0.65.
_ASYNC_HOST_CALL_S = 250e-6
# Below this many operations, packing costs as much as it gains (a 128 x 256 x 256 product: 3e7).
_TILED_FLOPS = 3e7


def available_cores() -> int:
    """The number of cores that this process may use."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)


def seconds_of_work(cost: ProgramCost) -> float:
    """The estimated time of a call in one thread, without launches of kernels."""
    return (
        cost.product_flops / _PRODUCTS_PER_S
        + (cost.operations - cost.product_flops) / _FLOPS_PER_S
        + cost.traffic / _BYTES_PER_S
    )


def choose_options(cost: ProgramCost, host_calls: int = 0) -> CompileOptions:
    """Choose between running inline and on the thread pool, and whether to tile.

    Args:
      cost: the program's work.
      host_calls: the number of its calls of Python.

    A call on the thread pool costs about 50 us, against 10 us inline, and each kernel after the
    first costs up to ten microseconds more for waking threads. So only programs with enough work in
    each kernel gain: on two cores, products of 128, 192 and 256 rows take 29, 76 and 172 us inline,
    and 90, 125 and 205 on the pool, and one of 512 rows takes 1.15 ms and 0.75. A training step of
    a recurrent network (50 steps, batch 16, 64 wide) has 500 kernels of a few microseconds, and
    takes 3.4 ms inline but 7 to 10 on the pool. Scatters and sorts run in one thread: a scatter of
    16384 rows of 32 numbers into 512 takes 0.1 ms inline and 0.2 on the pool. A program that calls
    Python never returns early, and waits more often.

    Data tiling pays off if large matrix multiplications take most of the time: a training step of a
    784-512-512-10 perceptron takes 4.8 ms with it and 7.3 without. In loops it gains nothing, or
    packs the same weights in each iteration (a recurrent network: 17 ms against 4), and programs
    with batched contractions may not compile with it.

    Example:
      >>> choose_options(ProgramCost(operations=1e3, traffic=1e4)).execution_model
      'sync'
      >>> choose_options(ProgramCost(operations=2e9, contraction_flops=2e9)).data_tiling
      True
      >>> attention = ProgramCost(operations=2e9, contraction_flops=1.8e9, batched_flops=2e8)
      >>> choose_options(attention).data_tiling
      False
    """
    work = seconds_of_work(cost)
    inline = work + cost.dispatches * _SYNC_DISPATCH_S
    # The arrays of these operations may be the program's arguments, whose bytes count already.
    serial = (
        cost.serial_operations / _FLOPS_PER_S + min(cost.serial_bytes, cost.traffic) / _BYTES_PER_S
    )
    shared = (work - serial) / available_cores()
    waits = _ASYNC_CALL_S + host_calls * _ASYNC_HOST_CALL_S
    pooled = serial + shared + cost.dispatches * _ASYNC_DISPATCH_S + waits
    logger.debug(
        "a program with %d host calls: about %.0f us inline, %.0f us on the thread pool",
        host_calls,
        inline * 1e6,
        pooled * 1e6,
    )
    return CompileOptions(
        execution_model="async" if pooled < inline else "sync",
        data_tiling=not cost.batched_flops
        and cost.contraction_flops > max(0.5 * cost.operations, _TILED_FLOPS),
    )
