"""All workloads, one module per family."""

from gnomon.tools.bench.workload import Workload
from gnomon.tools.bench.workloads import (
    calls,
    compilation,
    contraction,
    differentiation,
    eager,
    elementwise,
    growth,
    imports,
    loops,
    sharded,
    training,
)

WORKLOADS: tuple[Workload, ...] = (
    *eager.WORKLOADS,
    *calls.WORKLOADS,
    *elementwise.WORKLOADS,
    *contraction.WORKLOADS,
    *training.WORKLOADS,
    *loops.WORKLOADS,
    *growth.WORKLOADS,
    *differentiation.WORKLOADS,
    *compilation.WORKLOADS,
    *sharded.WORKLOADS,
    *imports.WORKLOADS,
)
