"""Both sides of the cost models' thresholds.

Small programs stay below most thresholds, so a fuzzer would hardly meet the ways to run an op that
pay only for large arrays: a library's function, a kernel of our own, a loop as one kernel. `take`
moves the thresholds, so that each way is taken wherever it is possible, or nowhere.
"""

from __future__ import annotations

import enum
import importlib
import os
from typing import Any, NamedTuple

__all__ = ["THRESHOLDS", "Threshold", "Ways", "take"]

_LEGALIZE = "gnomon.backends.iree.legalize"
_MANY = 1 << 60


class Ways(enum.Enum):
    """Where the special ways to run an op are taken."""

    CHOSEN = "chosen"
    """Where the cost models choose them."""
    EVERYWHERE = "everywhere"
    NOWHERE = "nowhere"


class Threshold(NamedTuple):
    """A constant of a cost model.

    Attributes:
      module: the module that defines and reads it.
      name: its name.
      everywhere: a value with which the way is taken wherever it is possible.
      nowhere: a value with which the way is never taken. Where the compiler would take very long,
        both are moderate.
    """

    module: str
    name: str
    everywhere: Any
    nowhere: Any


THRESHOLDS = (
    # Functions of libraries.
    Threshold(
        f"{_LEGALIZE}.library_products",
        "SMALLEST",
        {"f32": 1, "f64": 1},
        {"f32": _MANY, "f64": _MANY},
    ),
    Threshold(f"{_LEGALIZE}.library_products", "SMALLEST_ITEM", 1, _MANY),
    Threshold(f"{_LEGALIZE}.library_products", "NARROWEST", 1, _MANY),
    Threshold(f"{_LEGALIZE}.library_products", "SHORTEST", 1, _MANY),
    Threshold(f"{_LEGALIZE}.library_products", "FEWEST_FEATURES", 1, _MANY),
    Threshold(f"{_LEGALIZE}.library_products", "SMALLEST_TRANSPOSED", 1, _MANY),
    Threshold(f"{_LEGALIZE}.library_products", "_PER_THREAD", 1, _MANY),
    Threshold("gnomon_runtime.linear_algebra.unthreaded", "_FEWEST", {}, {"eigh": _MANY}),
    Threshold("gnomon_runtime.linear_algebra.unthreaded", "_FEWEST_OTHERS", 1, _MANY),
    # Kernels.
    Threshold(f"{_LEGALIZE}.array_kernels.rows", "SHORTEST_ROW", 2, _MANY),
    Threshold(f"{_LEGALIZE}.array_kernels.rows", "FEWEST_ELEMENTS", 1, _MANY),
    Threshold(f"{_LEGALIZE}.array_kernels.rows", "_FEWEST_ROWS", 1, _MANY),
    Threshold(f"{_LEGALIZE}.array_kernels.rows", "_WORK", 1, _MANY),
    Threshold(f"{_LEGALIZE}.array_kernels.row_passes", "_RECOMPUTED", -1, _MANY),
    Threshold(f"{_LEGALIZE}.array_kernels.single_ops", "MOST_SELECTED", _MANY, -1),
    Threshold(f"{_LEGALIZE}.data_movement.sorting", "_SHORT", 64, -1),
    Threshold(f"{_LEGALIZE}.data_movement.sorting", "_MAX_COMPARISONS", 1 << 20, -1),
    Threshold(f"{_LEGALIZE}.complex_kernels", "FEWEST", 0, _MANY),
    Threshold(f"{_LEGALIZE}.after_lowering.short_dimensions", "LONGEST", _MANY, 0),
    Threshold(f"{_LEGALIZE}.after_lowering.short_dimensions", "SHORTEST_NEXT", 1, _MANY),
    Threshold(f"{_LEGALIZE}.reductions.convolution", "_MIN_PRODUCTS", 1, _MANY),
    Threshold(f"{_LEGALIZE}.fusion.long_fusions", "MAX_SIZE", 8, 384),
    Threshold(f"{_LEGALIZE}.fusion.closed_expressions", "_SHORT", 0, 32),
    # Loops, branches and factorizations as parts of kernels.
    Threshold(f"{_LEGALIZE}.array_kernels.array_kernel", "_LONGEST", _MANY, -_MANY),
    Threshold(f"{_LEGALIZE}.array_kernels.array_kernel", "_LARGEST", _MANY, -1),
    Threshold(f"{_LEGALIZE}.array_kernels.carries", "_LEAST_BYTES_OF_TWO", 0, _MANY),
    Threshold(f"{_LEGALIZE}.loop_kernels.code", "_BUDGET", _MANY, -1),
    Threshold(f"{_LEGALIZE}.control.rolled_chains", "LEAST_STEPS", 2, _MANY),
    Threshold(f"{_LEGALIZE}.control.rolled_chains", "LEAST_FUNCTIONS", 1, _MANY),
    Threshold(f"{_LEGALIZE}.control.branches", "_CHEAP_FLOPS", _MANY, -1),
    Threshold(f"{_LEGALIZE}.small_matrices", "LARGEST", 5, 0),
    Threshold(f"{_LEGALIZE}.small_matrices", "LARGEST_IN_LOOPS", 5, 0),
    Threshold(f"{_LEGALIZE}.small_matrices", "_MOST", _MANY, 0),
    Threshold(f"{_LEGALIZE}.small_batches", "_LARGEST", 16, 0),
    Threshold(f"{_LEGALIZE}.small_batches", "_MOST", _MANY, 0),
)


def take(ways: Ways) -> None:
    """Move the thresholds of this process.

    The cache on disk is disabled, since it looks up programs by their ops and takes the thresholds
    for those of the code.
    """
    if ways is Ways.CHOSEN:
        return
    os.environ["GNOMON_CACHE"] = "off"
    for threshold in THRESHOLDS:
        module = importlib.import_module(threshold.module)
        if not hasattr(module, threshold.name):
            raise AttributeError(f"{threshold.module} has no threshold {threshold.name}")
        value = threshold.everywhere if ways is Ways.EVERYWHERE else threshold.nowhere
        setattr(module, threshold.name, value)
