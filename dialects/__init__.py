"""The gnomon dialect: types, the op contract, and one room per family of ops.

Importing the package registers every room and loads the dialect into the process's MLIR context.
"""

from gnomon.dialects import (  # noqa: F401
    barrier,
    callbacks,
    check,
    checkpoint,
    collectives,
    contraction,
    control_flow,
    convolution,
    creation,
    cumulative,
    custom_batching,
    custom_derivatives,
    dynamic,
    elementwise,
    fourier,
    functions,
    host_call,
    indexing,
    linear_algebra,
    linear_call,
    linear_solve,
    random_bits,
    reduction,
    sorting,
    structural,
    windowed,
)
from gnomon.dialects.contract import load_dialect

load_dialect()
