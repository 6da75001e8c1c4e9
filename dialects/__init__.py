"""The gnomon dialect: types, the op contract, and one module per family of ops.

Importing the package registers every op. The dialect is loaded into the process's MLIR context
when that context is created.
"""

from gnomon.dialects import (  # noqa: F401
    barrier,
    callbacks,
    check,
    checkpoint,
    collective_movements,
    collectives,
    composite,
    contraction,
    control_flow,
    convolution,
    creation,
    cumulative,
    custom_batching,
    custom_jvp,
    custom_vjp,
    dynamic,
    elementwise,
    fourier,
    functions,
    host_call,
    indexing,
    inspect_sharding,
    linear_algebra,
    linear_call,
    linear_solve,
    random_bits,
    random_hashes,
    reduction,
    shard_map,
    sharding_constraint,
    slicing,
    sorting,
    structural,
    windowed,
)
from gnomon.dialects.definition import load_dialect
from gnomon.dialects.mlir import when_loaded

when_loaded(load_dialect)
