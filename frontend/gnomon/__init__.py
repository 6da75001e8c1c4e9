"""gnomon: composable transformations of Python and NumPy programs, on MLIR."""

from typing import TYPE_CHECKING

from gnomon import (
    ad_checkpoint,
    core,
    custom_batching,
    custom_derivatives,
    debug,
    distributed,
    dlpack,
    dtypes,
    errors,
    experimental,
    flatten_util,
    image,
    lax,
    nn,
    numpy,
    ops,
    profiler,
    random,
    scipy,
    sharding,
    stages,
    tree,
    tree_util,
    typing,
)
from gnomon._api.array_parts import (
    make_array_from_callback,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from gnomon._api.callbacks import pure_callback
from gnomon._api.devices import (
    copy_to_host_async,
    default_backend,
    device_count,
    device_get,
    device_put,
    devices,
    live_arrays,
    local_device_count,
    local_devices,
    print_environment_info,
    process_count,
    process_index,
    process_indices,
)
from gnomon._api.explicit_axes import reshard
from gnomon._api.functions import (
    block_until_ready,
    effects_barrier,
    eval_shape,
    make_jaxpr,
    named_call,
    typeof,
)
from gnomon._api.meshes import get_abstract_mesh, get_mesh, set_mesh, use_abstract_mesh
from gnomon._api.tracebacks import install as _install_tracebacks
from gnomon._arrays.array import Array
from gnomon._arrays.dtypes import float0
from gnomon._arrays.shard import Shard
from gnomon._compilation.jit import jit
from gnomon._compilation.programs import clear_caches
from gnomon._compilation.stages import ShapeDtypeStruct
from gnomon._config.contexts import (
    allow_f16_reductions,
    check_tracer_leaks,
    checking_leaks,
    debug_infs,
    debug_nans,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    disable_jit,
    enable_checks,
    enable_custom_prng,
    enable_x64,
    explain_cache_misses,
    legacy_prng_key,
    log_compiles,
    no_execution,
    no_tracing,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    threefry_partitionable,
    tiered,
    transfer_guard,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)
from gnomon._config.current import config
from gnomon._diagnostics.missing_names import missing_attribute as _missing_attribute
from gnomon._diagnostics.source_location import named_scope
from gnomon._export.importing import import_stablehlo
from gnomon._export.loading import load
from gnomon._sharding.device import Device
from gnomon._sharding.mesh import make_mesh
from gnomon._sharding.named_sharding import NamedSharding
from gnomon._sharding.partition_spec import PartitionSpec as P
from gnomon._tracing.stack import ensure_compile_time_eval
from gnomon._transformations.checkpoint import checkpoint, checkpoint_policies, remat
from gnomon._transformations.custom_jvp import custom_jvp
from gnomon._transformations.custom_vjp import closure_convert, custom_gradient, custom_vjp
from gnomon._transformations.differentiate import jvp, linearize, vjp
from gnomon._transformations.gradient import grad, value_and_grad
from gnomon._transformations.jacobian import hessian, jacfwd, jacobian, jacrev
from gnomon._transformations.pmap import pmap
from gnomon._transformations.shard_map import shard_map, smap
from gnomon._transformations.transpose import fwd_and_bwd, linear_transpose
from gnomon._transformations.vmap import vmap
from gnomon.dialects.deferred import Deferred as _Deferred

if TYPE_CHECKING:
    from gnomon import export
else:  # what it imports is not needed until something is exported
    export = _Deferred("gnomon.export")

__version__ = "0.1.0"

_install_tracebacks()

__all__ = [
    "Array",
    "Device",
    "NamedSharding",
    "P",
    "ShapeDtypeStruct",
    "Shard",
    "ad_checkpoint",
    "allow_f16_reductions",
    "block_until_ready",
    "check_tracer_leaks",
    "checking_leaks",
    "checkpoint",
    "checkpoint_policies",
    "clear_caches",
    "closure_convert",
    "config",
    "copy_to_host_async",
    "core",
    "custom_batching",
    "custom_derivatives",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "debug_infs",
    "debug_nans",
    "default_backend",
    "default_device",
    "default_matmul_precision",
    "default_prng_impl",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "distributed",
    "dlpack",
    "dtypes",
    "effects_barrier",
    "enable_checks",
    "enable_custom_prng",
    "enable_x64",
    "ensure_compile_time_eval",
    "errors",
    "eval_shape",
    "experimental",
    "explain_cache_misses",
    "export",
    "flatten_util",
    "float0",
    "fwd_and_bwd",
    "get_abstract_mesh",
    "get_mesh",
    "grad",
    "hessian",
    "image",
    "import_stablehlo",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "legacy_prng_key",
    "linear_transpose",
    "linearize",
    "live_arrays",
    "load",
    "local_device_count",
    "local_devices",
    "log_compiles",
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
    "make_jaxpr",
    "make_mesh",
    "named_call",
    "named_scope",
    "nn",
    "no_execution",
    "no_tracing",
    "numpy",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "ops",
    "pmap",
    "print_environment_info",
    "process_count",
    "process_index",
    "process_indices",
    "profiler",
    "pure_callback",
    "random",
    "remat",
    "reshard",
    "scipy",
    "set_mesh",
    "shard_map",
    "sharding",
    "smap",
    "stages",
    "threefry_partitionable",
    "tiered",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
    "tree",
    "tree_util",
    "typeof",
    "typing",
    "use_abstract_mesh",
    "value_and_grad",
    "vjp",
    "vmap",
]


if not TYPE_CHECKING:  # a checker reports unknown names itself

    def __getattr__(name: str) -> None:
        raise _missing_attribute(name, __all__)
