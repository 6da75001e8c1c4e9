"""gnomon: composable transformations of Python and NumPy programs, on MLIR."""

from gnomon import (
    ad_checkpoint,
    custom_derivatives,
    debug,
    dtypes,
    errors,
    experimental,
    image,
    lax,
    nn,
    numpy,
    ops,
    random,
    scipy,
    sharding,
    tree,
    tree_util,
)
from gnomon._api import (
    block_until_ready,
    effects_barrier,
    eval_shape,
    make_jaxpr,
    named_call,
    typeof,
)
from gnomon._array import Array
from gnomon._callbacks import pure_callback
from gnomon._checkpoint import checkpoint, checkpoint_policies, remat
from gnomon._config import (
    config,
    debug_infs,
    debug_nans,
    default_device,
    disable_jit,
    enable_x64,
)
from gnomon._custom_jvp import custom_jvp
from gnomon._custom_vjp import closure_convert, custom_gradient, custom_vjp
from gnomon._device import Device
from gnomon._device_api import (
    default_backend,
    device_count,
    device_get,
    device_put,
    devices,
    local_device_count,
    local_devices,
    process_count,
    process_index,
    process_indices,
)
from gnomon._differentiate import (
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linearize,
    value_and_grad,
    vjp,
)
from gnomon._jit import ShapeDtypeStruct, clear_caches, jit
from gnomon._tracing import ensure_compile_time_eval, named_scope
from gnomon._transpose import fwd_and_bwd, linear_transpose
from gnomon._vmap import vmap

__version__ = "0.1.0"

__all__ = [
    "Array",
    "Device",
    "ShapeDtypeStruct",
    "ad_checkpoint",
    "block_until_ready",
    "checkpoint",
    "checkpoint_policies",
    "clear_caches",
    "closure_convert",
    "config",
    "custom_derivatives",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "debug_infs",
    "debug_nans",
    "default_backend",
    "default_device",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "dtypes",
    "effects_barrier",
    "enable_x64",
    "ensure_compile_time_eval",
    "errors",
    "eval_shape",
    "experimental",
    "fwd_and_bwd",
    "grad",
    "hessian",
    "image",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "lax",
    "linear_transpose",
    "linearize",
    "local_device_count",
    "local_devices",
    "make_jaxpr",
    "named_call",
    "named_scope",
    "nn",
    "numpy",
    "ops",
    "process_count",
    "process_index",
    "process_indices",
    "pure_callback",
    "random",
    "remat",
    "scipy",
    "sharding",
    "tree",
    "tree_util",
    "typeof",
    "value_and_grad",
    "vjp",
    "vmap",
]
